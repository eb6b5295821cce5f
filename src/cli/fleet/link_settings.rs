//! From a Link to the keys of the file that make one like it. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::facts::ImportedCluster;
use crate::{
    api::{labels, link::Link, selector::Selector},
    cli::link_gen::KubeconfigTarget,
    fleet::ComposedSettings,
    manifests::link::LinkOptions,
    mirror,
};

/// Annotations of a Link with the keys that set them; lists have commas.
const ANNOTATIONS: [(&str, &str, bool); 7] = [
    (labels::ALLOWED_NAMESPACES, "allowedNamespaces", false),
    (labels::COPIED_ANNOTATIONS, "copiedAnnotations", true),
    (labels::COPIED_LABELS, "copiedLabels", true),
    (labels::COPY, "copy", false),
    (labels::FEDERATED_THROUGH, "federatedThrough", false),
    (labels::FEDERATION, "federation", false),
    (labels::GATEWAY_NETWORKS, "gatewayNetworks", true),
];

/// The settings that a Link has, and not by default.
pub(super) fn link_settings(link: &Link, defaults: &LinkOptions) -> ComposedSettings {
    let spec = &link.spec;
    let mut settings = ComposedSettings::new();
    let selectors = [
        ("selector", &spec.selector, &defaults.selector),
        (
            "remoteDiscoverySelector",
            &spec.remote_discovery_selector,
            &defaults.remote_discovery_selector,
        ),
        (
            "federatedServiceSelector",
            &spec.federated_service_selector,
            &defaults.federated_service_selector,
        ),
    ];
    for (key, set, default) in selectors {
        // Without a gateway, there is no selector for it.
        let is_unused = key == "selector" && spec.gateway_address.is_empty();
        if !is_unused && query(set.as_ref()) != query(Some(default)) {
            settings.insert(key, json!(text(set.as_ref())));
        }
    }
    for (key, list) in [
        ("excludedAnnotations", &spec.excluded_annotations),
        ("excludedLabels", &spec.excluded_labels),
    ] {
        if !list.is_empty() {
            settings.insert(key, json!(list));
        }
    }
    for (annotation, key, is_list) in ANNOTATIONS {
        if let Some(set) = link.annotations().get(annotation) {
            settings.insert(key, if is_list { list(set) } else { json!(set) });
        }
    }
    if let Some(set) = link.annotations().get(labels::HEADLESS_SERVICES) {
        settings.insert("enableHeadlessServices", json!(set == "enabled"));
    }
    settings
}

/// How a Link reaches its target cluster, as far as that does not follow from the context and the gateway.
pub(super) fn cluster_settings(
    link: &Link,
    held: Option<&KubeconfigTarget>,
    target: &ImportedCluster,
) -> ComposedSettings {
    let mut settings = ComposedSettings::new();
    let mut entry = target.entry.clone();
    let set = link.annotations();
    if mirror::is_through_gateway(link) {
        settings.insert("apiServerThroughGateway", json!(true));
        if set.contains_key(labels::DISCOVERY_SERVICE) {
            settings.insert("discoveryThroughGateway", json!(true));
        }
        if let Some(address) = set.get(labels::DISCOVERY_API_SERVER) {
            settings.insert("apiServerAddress", json!(address));
        }
    } else if let Some(held) = held {
        if held.server != entry.server.trim_end_matches('/') {
            settings.insert("apiServerAddress", json!(held.server));
            entry.server.clone_from(&held.server);
        }
        let (proxy, own) = (held.proxy.url(), entry.proxy_url.as_deref());
        // A password does not belong into the file.
        if proxy != own && proxy.is_none_or(|proxy| !proxy.contains('@')) {
            settings.insert("proxyUrl", json!(proxy.unwrap_or("none")));
        }
        if entry.insecure_tls().is_some() {
            settings.insert("insecureTargetTls", json!(true));
        }
    }
    let spec = &link.spec;
    if spec.gateway_address.is_empty() {
        settings.insert("gateway", json!(false));
    } else if let Some((addresses, port)) = &target.gateway {
        if spec.gateway_address != addresses.join(",") {
            settings.insert("gatewayAddresses", list(&spec.gateway_address));
        }
        let own = spec.gateway_port.parse::<u16>().ok();
        if let Some(own) = own.filter(|own| own != port) {
            settings.insert("gatewayPort", json!(own));
        }
    }
    settings
}

fn list(text: &str) -> Value {
    let items = text.split(',').map(str::trim);
    json!(items.filter(|item| !item.is_empty()).collect::<Vec<_>>())
}

/// What a selector selects, however it is written.
fn query(selector: Option<&LabelSelector>) -> Option<String> {
    match Selector::parse(selector) {
        Ok(selector) => selector.map(|selector| selector.query()),
        Err(error) => Some(error.to_string()),
    }
}

/// A selector as people type it.
fn text(selector: Option<&LabelSelector>) -> String {
    let selector = selector.cloned().unwrap_or_default();
    let labels = selector.match_labels.unwrap_or_default();
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    let others = selector.match_expressions.unwrap_or_default();
    let others = others.iter().map(|other| {
        let (key, values) = (
            &other.key,
            other.values.clone().unwrap_or_default().join(","),
        );
        match other.operator.as_str() {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        }
    });
    labels.chain(others).collect::<Vec<_>>().join(",")
}
