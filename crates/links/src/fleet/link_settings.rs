//! From a Link to the keys of the file that make one like it. Pure.

use kube::ResourceExt as _;
use manifests::link::{LinkOptions, SETTINGS, list_in_file};
use mirror_core::{
    api::{labels, link::Link},
    mirror,
};
use serde_json::json;

use crate::{
    fleet::facts::ImportedCluster, fleet_file::ComposedSettings, link_credentials::KubeconfigTarget,
};

/// The settings that a Link has, and not by default.
pub fn link_settings(link: &Link, defaults: &LinkOptions) -> ComposedSettings {
    let has_gateway = !link.spec.gateway_address.is_empty();
    let used = SETTINGS
        .iter()
        .filter(|setting| has_gateway || !setting.needs_gateway);
    let set = used.filter_map(|setting| Some((setting.key, setting.in_file(link, defaults)?)));
    set.collect()
}

/// How a Link reaches its target cluster, as far as that does not follow from the context and the gateway.
pub fn cluster_settings(
    link: &Link,
    held: Option<&KubeconfigTarget>,
    target: &ImportedCluster,
) -> ComposedSettings {
    let mut settings = ComposedSettings::new();
    let mut entry = target.entry.clone();
    let set = link.annotations();
    if mirror::is_through_gateway(link) {
        settings.insert("apiServerThroughGateway", json!(true));
        if mirror::discovers_through_gateway(link) {
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
            settings.insert("gatewayAddresses", list_in_file(&spec.gateway_address));
        }
        let own = spec.gateway_port.parse::<u16>().ok();
        if let Some(own) = own.filter(|own| own != port) {
            settings.insert("gatewayPort", json!(own));
        }
    }
    settings
}
