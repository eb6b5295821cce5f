//! The flags of all commands that generate a link.

use std::time::Duration;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::{
    api::{labels, selector_text::parse_selector},
    cli::common::{args, complete, output},
    hint::misuse,
    manifests::link::Options,
    mirror::{
        Copied, CopiedError, FederatedThrough, Federation, PolicyError, allowed_namespaces,
        copied_rules, target::networks,
    },
};

/// Services that are mirrored through the gateway by default.
const EXPORTED: &str = "mirror.linkerd.io/exported=true";

/// Flags of all commands that generate a link.
#[derive(Clone, Debug, Args)]
pub(crate) struct LinkArgs {
    /// Namespace of the Link in the source cluster, and of the ServiceAccount in the target cluster
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub(super) namespace: String,
    /// Address of the target's API server that the source cluster can reach [default: the kubeconfig's]
    #[arg(long, value_name = "URL", value_parser = args::server_address)]
    pub(super) api_server_address: Option<String>,
    /// Allow connections to the target's API server without verified TLS: http://, or insecure-skip-tls-verify in the
    /// kubeconfig. An attacker on the network can then steal the token and change what is mirrored
    #[arg(long)]
    pub(super) insecure_target_tls: bool,
    /// ServiceAccount in the target cluster that the source cluster uses
    #[arg(long, value_name = "NAME", default_value = labels::REMOTE_ACCESS_ACCOUNT, value_parser = args::object_name)]
    pub(super) service_account_name: String,
    /// Namespace of this ServiceAccount, if it is not that of the Link
    #[arg(long, value_name = "NAMESPACE", value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub(super) service_account_namespace: Option<String>,
    /// Use a token that expires after this time, such as 24h, instead of the ServiceAccount's token Secret. Run
    /// `linkerd-mc rotate` before it expires: an expired token cuts the controller and Linkerd off from the target
    /// cluster, and proxies keep the last endpoints, even with a new token in the Secrets, until linkerd-destination
    /// restarts
    #[arg(long, value_name = "DURATION", value_parser = token_duration)]
    pub(super) token_duration: Option<Duration>,
    /// Use the target's gateway; without it, only remote discovery and federated Services work
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, require_equals = true, default_missing_value = "true", action = clap::ArgAction::Set)]
    pub(super) gateway: bool,
    /// Name of the gateway's Service
    #[arg(long, value_name = "NAME", default_value = labels::GATEWAY_NAME, value_parser = args::object_name)]
    pub(super) gateway_name: String,
    /// Namespace of the gateway's Service
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub(super) gateway_namespace: String,
    /// Addresses of the gateway, comma-separated [default: those of its load balancer]
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', value_parser = args::host)]
    pub(super) gateway_addresses: Vec<String>,
    /// Port of the gateway; 0 for the port of its Service
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub(super) gateway_port: u16,
    /// Services to mirror through the gateway
    #[arg(short = 'l', long, value_name = "SELECTOR", default_value = EXPORTED, value_parser = parse_selector)]
    selector: LabelSelector,
    /// Services to mirror with remote discovery (pod to pod)
    #[arg(long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/exported=remote-discovery", value_parser = parse_selector)]
    remote_discovery_selector: LabelSelector,
    /// Services that join federated Services
    #[arg(long, value_name = "SELECTOR", default_value = "mirror.linkerd.io/federated=member", value_parser = parse_selector)]
    federated_service_selector: LabelSelector,
    /// Annotations that are not copied to mirrors: keys, or prefixes such as example.com/*
    #[arg(
        long,
        alias = "excluded-annotations",
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = args::keys
    )]
    exclude_annotations: Vec<String>,
    /// Labels that are not copied to mirrors: keys, or prefixes such as example.com/*
    #[arg(
        long,
        alias = "excluded-labels",
        value_name = "KEYS",
        value_delimiter = ',',
        value_parser = args::keys
    )]
    exclude_labels: Vec<String>,
    /// Annotations that are copied to mirrors although they control other tools, such as external-dns: keys, or
    /// prefixes such as example.com/*
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = copied)]
    copied_annotations: Vec<String>,
    /// Labels that are copied to mirrors although they control other tools, such as Argo CD: keys, or prefixes such as
    /// example.com/*
    #[arg(long, value_name = "KEYS", value_delimiter = ',', value_parser = copied)]
    copied_labels: Vec<String>,
    /// Labels and annotations that are copied to mirrors
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Copies::All)]
    copy: Copies,
    /// Networks that gateway addresses must be in, such as 192.0.2.0/24; also applies to addresses that a host name
    /// resolves to [default: all but loopback, link-local, multicast, metadata servers, and the source cluster's API
    /// server and Service range]
    #[arg(long, value_name = "NETWORKS", value_delimiter = ',', value_parser = gateway_network)]
    gateway_networks: Vec<String>,
    /// Mirror headless Services as headless Services
    #[arg(long)]
    enable_headless_services: bool,
    /// Namespaces of the source cluster that may be mirrored into, as a label selector such as
    /// 'kubernetes.io/metadata.name in (shop,web)' [default: all that are not protected]
    #[arg(long, value_name = "SELECTOR", value_parser = allowed)]
    allowed_namespaces: Option<String>,
    /// Which federated Services of the source cluster the target cluster may join
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Federated::Any)]
    federation: Federated,
    /// How the target cluster joins federated Services
    #[arg(long, value_name = "HOW", value_enum, default_value_t = Through::Discovery)]
    federated_through: Through,
}

/// What a flag about the gateway does together with `--gateway=false`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Useless {
    /// It is refused.
    Refused,
    /// `link` refuses it, and `link-gen` warns, because `linkerd multicluster link-gen` accepts it.
    RefusedByLink,
    /// It has no effect, as for `linkerd multicluster`, and both say so.
    Warned,
}

impl LinkArgs {
    /// Fails, or warns, if a flag says something about the gateway that another one turns off. `is_link` is whether the
    /// command is `link`.
    pub(in crate::cli) fn agree(&self, is_link: bool) -> anyhow::Result<()> {
        for (flag, useless) in self.useless() {
            if useless == Useless::Refused || is_link && useless == Useless::RefusedByLink {
                return Err(misuse(
                    format!("{flag} cannot be used with --gateway=false"),
                    "remove one of them",
                ));
            }
            output::warning(&format!("{flag} has no effect with --gateway=false"));
        }
        Ok(())
    }

    /// The flags that were given, and have no effect.
    fn useless(&self) -> impl Iterator<Item = (&'static str, Useless)> {
        let through_gateway = self.federated_through == Through::Gateway;
        let selects = self.selector != LabelSelector::default()
            && parse_selector(EXPORTED).is_ok_and(|default| self.selector != default);
        let other_name = self.gateway_name != labels::GATEWAY_NAME;
        let other_namespace = self.gateway_namespace != labels::MULTICLUSTER_NAMESPACE;
        let has = |list: &[String]| !list.is_empty();
        let given = [
            (
                through_gateway,
                "--federated-through=gateway",
                Useless::Refused,
            ),
            (
                has(&self.gateway_networks),
                "--gateway-networks",
                Useless::Refused,
            ),
            (
                has(&self.gateway_addresses),
                "--gateway-addresses",
                Useless::RefusedByLink,
            ),
            (
                self.gateway_port != 0,
                "--gateway-port",
                Useless::RefusedByLink,
            ),
            (selects, "--selector", Useless::RefusedByLink),
            (other_name, "--gateway-name", Useless::Warned),
            (other_namespace, "--gateway-namespace", Useless::Warned),
        ];
        let is_off = !self.gateway;
        given
            .into_iter()
            .filter(move |(is_given, ..)| is_off && *is_given)
            .map(|(_, flag, useless)| (flag, useless))
    }

    /// What is mirrored, and where the link's objects go.
    pub(super) fn options(&self) -> Options {
        Options {
            namespace: self.namespace.clone(),
            selector: self.selector.clone(),
            remote_discovery_selector: self.remote_discovery_selector.clone(),
            federated_service_selector: self.federated_service_selector.clone(),
            exclude_annotations: self.exclude_annotations.clone(),
            exclude_labels: self.exclude_labels.clone(),
            copied_annotations: self.copied_annotations.clone(),
            copied_labels: self.copied_labels.clone(),
            copy: self.copy.into(),
            gateway_networks: self.gateway_networks.clone(),
            headless_services: self.enable_headless_services,
            allowed_namespaces: self.allowed_namespaces.clone(),
            federation: self.federation.into(),
            federated_through: self.federated_through.into(),
        }
    }
}

/// How a target cluster joins federated Services.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Through {
    /// Linkerd discovers its endpoints; Pods must be able to connect to those of the target cluster
    Discovery,
    /// Through its gateway, on any network
    Gateway,
}

impl From<Through> for FederatedThrough {
    fn from(how: Through) -> Self {
        match how {
            Through::Discovery => Self::Discovery,
            Through::Gateway => Self::Gateway,
        }
    }
}

/// Which labels and annotations are copied to mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Copies {
    /// All that are not excluded, except those that control other tools
    All,
    /// Only those of --copied-labels and --copied-annotations, and which ports are opaque
    Listed,
}

impl From<Copies> for Copied {
    fn from(which: Copies) -> Self {
        match which {
            Copies::All => Self::All,
            Copies::Listed => Self::Listed,
        }
    }
}

/// Which federated Services a target cluster may join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Federated {
    /// All that it has members of
    Any,
    /// Only those that have a member in the source cluster
    LocalMembers,
    /// None
    None,
}

impl From<Federated> for Federation {
    fn from(which: Federated) -> Self {
        match which {
            Federated::Any => Self::Any,
            Federated::LocalMembers => Self::LocalMembers,
            Federated::None => Self::None,
        }
    }
}

/// A key or a prefix of labels or annotations to copy.
fn copied(text: &str) -> Result<String, CopiedError> {
    match copied_rules(text)?.first() {
        Some(rule) => Ok((*rule).to_owned()),
        None => Err(CopiedError::NoRule(text.to_owned())),
    }
}

/// A selector of namespaces, as it was typed.
fn allowed(text: &str) -> Result<String, PolicyError> {
    allowed_namespaces(text).map(|_| text.to_owned())
}

/// A network of gateways.
fn gateway_network(text: &str) -> Result<String, String> {
    let read = networks(text).map_err(|error| error.to_string())?;
    let first = read.first().ok_or("must not be empty")?;
    Ok(first.to_string())
}

/// Kubernetes rejects durations of less than ten minutes.
fn token_duration(text: &str) -> Result<Duration, String> {
    let duration = args::duration(text).map_err(|error| error.to_string())?;
    if duration < Duration::from_secs(600) {
        return Err("must be at least 10m".to_owned());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        link: LinkArgs,
    }

    #[test]
    fn flags_about_a_gateway_that_is_off_are_not_ignored_in_silence() {
        let useless = |line: &str| {
            let line = Line::try_parse_from(std::iter::once("link").chain(line.split(' ')));
            let args = line.unwrap().link;
            let useless: Vec<_> = args.useless().collect();
            let refused = [true, false].map(|is_link| args.agree(is_link).is_err());
            (useless, refused)
        };
        for (flag, name, refused) in [
            (
                "--federated-through=gateway",
                "--federated-through=gateway",
                [true, true],
            ),
            (
                "--gateway-networks=192.0.2.0/24",
                "--gateway-networks",
                [true, true],
            ),
            (
                "--gateway-addresses=192.0.2.1",
                "--gateway-addresses",
                [true, false],
            ),
            ("--gateway-port=4143", "--gateway-port", [true, false]),
            ("-l a=b", "--selector", [true, false]),
            ("--gateway-name=gateway", "--gateway-name", [false, false]),
            (
                "--gateway-namespace=other",
                "--gateway-namespace",
                [false, false],
            ),
        ] {
            let (found, is_refused) = useless(&format!("--gateway=false {flag}"));
            assert_eq!(
                found.iter().map(|(flag, _)| *flag).collect::<Vec<_>>(),
                [name]
            );
            assert_eq!(is_refused, refused, "{flag}");
            assert_eq!(useless(flag), (vec![], [false, false]), "{flag}");
        }
        // As in scripts that pass the default.
        for flag in ["-l mirror.linkerd.io/exported=true", "--gateway-port=0"] {
            let (found, _) = useless(&format!("--gateway=false {flag}"));
            assert_eq!(found, []);
        }
    }

    #[test]
    fn a_token_lives_for_ten_minutes_at_least() {
        assert_eq!(token_duration("24h"), Ok(Duration::from_secs(86_400)));
        assert!(token_duration("10m").is_ok());
        for text in ["9m59s", "0", "soon", ""] {
            assert!(token_duration(text).is_err(), "{text:?}");
        }
    }
}
