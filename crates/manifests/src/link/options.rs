//! The flags of `link` and `link-gen` that become settings of the Link.

use clap::{
    Args,
    builder::{PossibleValue, PossibleValuesParser, TypedValueParser},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use mirror_core::{
    api::{names::is_label_key, selector_text::parse_selector},
    mirror::{
        Copied, CopiedError, FederatedThrough, Federation, PolicyError, allowed_namespaces,
        copied_rules, target::networks,
    },
};

/// Services that are mirrored through the gateway by default.
pub const EXPORTED: &str = "mirror.linkerd.io/exported=true";

/// What is mirrored from the target cluster: the flags of `link` and `link-gen` that become settings of the Link.
#[derive(Clone, Debug, Args)]
pub struct LinkOptions {
    /// Services to mirror through the gateway
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = EXPORTED, value_parser = parse_selector)]
    pub selector: LabelSelector,
    /// Services to mirror with remote discovery (pod to pod)
    #[arg(long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/exported=remote-discovery", value_parser = parse_selector)]
    pub remote_discovery_selector: LabelSelector,
    /// Services that join federated Services
    #[arg(long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/federated=member", value_parser = parse_selector)]
    pub federated_service_selector: LabelSelector,
    /// Annotations that are not copied to mirrors: keys, or prefixes such as example.com/*
    #[arg(
        long,
        alias = "exclude-annotations",
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = keys
    )]
    pub excluded_annotations: Vec<String>,
    /// Labels that are not copied to mirrors: keys, or prefixes such as example.com/*
    #[arg(
        long,
        alias = "exclude-labels",
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = keys
    )]
    pub excluded_labels: Vec<String>,
    /// Annotations that are copied to mirrors although they control other tools, such as external-dns: keys, or
    /// prefixes such as example.com/*
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = copied)]
    pub copied_annotations: Vec<String>,
    /// Labels that are copied to mirrors although they control other tools, such as Argo CD: keys, or prefixes such as
    /// example.com/*
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = copied)]
    pub copied_labels: Vec<String>,
    /// Labels and annotations that are copied to mirrors
    #[arg(long, value_name = "WHICH", default_value = "all", value_parser = one_of(COPIES, Copied::as_str))]
    pub copy: Copied,
    /// Networks that gateway addresses must be in, such as 192.0.2.0/24; also applies to addresses that a host name
    /// resolves to. `any`, the default: all but loopback, link-local, multicast, metadata servers, and the source
    /// cluster's API server and Service range
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = gateway_network)]
    pub gateway_networks: Vec<String>,
    /// Whether headless Services are mirrored as headless Services [default: as the controller is set]
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        hide_possible_values = true
    )]
    pub enable_headless_services: Option<bool>,
    /// Namespaces of the source cluster that may be mirrored into, as a label selector such as
    /// 'kubernetes.io/metadata.name in (shop,web)'. `any`, the default: all that are not protected
    #[arg(long, value_name = "SELECTOR", value_parser = allowed)]
    pub allowed_namespaces: Option<String>,
    /// Which federated Services of the source cluster the target cluster may join
    #[arg(long, value_name = "WHICH", default_value = "any", value_parser = one_of(FEDERATION, Federation::as_str))]
    pub federation: Federation,
    /// How the target cluster joins federated Services
    #[arg(long, value_name = "HOW", default_value = "discovery", value_parser = one_of(THROUGH, FederatedThrough::as_str))]
    pub federated_through: FederatedThrough,
}

/// The values of a flag, with their help texts.
pub type Choices<T> = &'static [(T, &'static str)];

pub const COPIES: Choices<Copied> = &[
    (
        Copied::All,
        "All that are not excluded, except those that control other tools",
    ),
    (
        Copied::Listed,
        "Only those of --copied-labels and --copied-annotations, and which ports are opaque",
    ),
];
pub const FEDERATION: Choices<Federation> = &[
    (Federation::Any, "All that it has members of"),
    (
        Federation::LocalMembers,
        "Only those that have a member in the source cluster",
    ),
    (Federation::None, "None"),
];
pub const THROUGH: Choices<FederatedThrough> = &[
    (
        FederatedThrough::Discovery,
        "Linkerd discovers its endpoints; Pods must be able to connect to those of the target cluster",
    ),
    (
        FederatedThrough::Gateway,
        "Through its gateway, on any network",
    ),
];

/// Parses one of these values, by its word in a Link's annotation.
fn one_of<T: Copy + Send + Sync + 'static>(
    choices: Choices<T>,
    word: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let names = choices
        .iter()
        .map(|(value, help)| PossibleValue::new(word(*value)).help(*help));
    PossibleValuesParser::new(names).try_map(move |given| {
        let mut values = choices.iter().map(|(value, _)| *value);
        let found = values.find(|value| word(*value) == given);
        found.ok_or("unknown value")
    })
}

/// Parses a key of labels or annotations, or a prefix of keys; empty for none.
pub fn keys(text: &str) -> Result<String, String> {
    let text = text.trim();
    let key = text.strip_suffix("/*").map(|prefix| format!("{prefix}/x"));
    if text.is_empty() || is_label_key(key.as_deref().unwrap_or(text)) {
        return Ok(text.to_owned());
    }
    Err("must be a key, or a prefix such as example.com/*".to_owned())
}

/// A key or a prefix of labels or annotations to copy; empty for none.
pub fn copied(text: &str) -> Result<String, CopiedError> {
    if text.is_empty() {
        return Ok(String::new());
    }
    match copied_rules(text)?.first() {
        Some(rule) => Ok((*rule).to_owned()),
        None => Err(CopiedError::NoRule(text.to_owned())),
    }
}

/// The value of a flag that removes a restriction.
pub const ANY: &str = "any";

/// A selector of namespaces, as it was typed.
pub fn allowed(text: &str) -> Result<String, PolicyError> {
    allowed_namespaces(text).map(|_| text.to_owned())
}

/// A network of gateways.
pub fn gateway_network(text: &str) -> Result<String, String> {
    if text == ANY {
        return Ok(text.to_owned());
    }
    let read = networks(text).map_err(|error| error.to_string())?;
    let first = read.first().ok_or("must not be empty")?;
    Ok(first.to_string())
}
