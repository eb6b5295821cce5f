//! A link that is there already: what a new one keeps of it unless a flag names it. Pure.

use kube::ResourceExt as _;
use manifests::link::{LinkObjects, SETTINGS};
use mirror_core::{
    api::{labels, link::Link, metadata::cluster_uid},
    mirror::{self, FederatedThrough},
};

use crate::{given::Given, link::flags::LinkArgs, link_credentials::KubeconfigTarget};

/// Flags that only make sense if the link uses a gateway.
const GATEWAY_FLAGS: [&str; 6] = [
    "gateway",
    "gateway_addresses",
    "gateway_port",
    "gateway_name",
    "gateway_namespace",
    "gateway_networks",
];

/// Keeps the recorded UID of a cluster in the new Link if that one has none: this time, it could not be read.
pub fn keep_cluster_uid(old: &Link, new: &mut Link) {
    if let Some(uid) = cluster_uid(old) {
        let known = new.annotations_mut().entry(labels::CLUSTER_UID.to_owned());
        known.or_insert_with(|| uid.to_owned());
    }
}

/// A link that is there.
#[derive(Clone, Copy, Default)]
pub struct Existing<'e> {
    pub link: Option<&'e Link>,
    /// Its credentials, if they are for the cluster that is linked.
    pub credentials: Option<&'e KubeconfigTarget>,
    /// Whether the Link is for another cluster, whose addresses must not be kept.
    pub is_of_another: bool,
}

impl Existing<'_> {
    /// The flags of a new link, with what is set already for those that are not given.
    pub fn over(&self, args: &LinkArgs, given: &Given) -> LinkArgs {
        let mut args = args.clone();
        let was_through = self.is_through_gateway();
        let names_way = given.has(&["api_server_through_gateway", "gateway"]);
        if was_through && !self.is_of_another && !names_way {
            args.api_server_through_gateway = true;
        }
        let through = args.api_server_through_gateway;
        let names_address = given.has(&["api_server_address"]);
        if was_through && through && !names_address {
            let set = self.link.map(kube::ResourceExt::annotations);
            let address = set.and_then(|set| set.get(labels::DISCOVERY_API_SERVER));
            if !given.has(&["discovery_through_gateway"]) {
                args.discovery_through_gateway =
                    self.link.is_some_and(mirror::discovers_through_gateway);
            }
            if !args.discovery_through_gateway {
                args.api_server_address = address.cloned();
            }
        }
        if let Some(old) = self.credentials {
            if !was_through && !through {
                if !names_address {
                    args.api_server_address = Some(old.server.clone());
                }
                if !given.has(&["proxy_url"]) {
                    args.proxy_url = Some(old.proxy.clone());
                }
            }
            let account = ["service_account_name", "service_account_namespace"];
            if let Some(account) = old.account.as_ref().filter(|_| !given.has(&account)) {
                args.service_account_name.clone_from(&account.name);
                args.service_account_namespace = Some(account.namespace.clone());
            }
        }
        if args.is_without_discovery() && !given.has(&["federated_through"]) {
            args.options.federated_through = FederatedThrough::Gateway;
        }
        let Some(spec) = self.link.map(|link| &link.spec) else {
            return args;
        };
        if spec.gateway_address.is_empty() && !given.has(&GATEWAY_FLAGS) {
            args.gateway = false;
        }
        if self.is_of_another {
            return args;
        }
        if !given.has(&["gateway_addresses"]) {
            let addresses = spec.gateway_address.split(',').map(str::trim);
            let addresses = addresses.filter(|address| !address.is_empty());
            args.gateway_addresses = addresses.map(str::to_owned).collect();
        }
        if !given.has(&["gateway_port"]) {
            args.gateway_port = spec.gateway_port.parse().unwrap_or_default();
        }
        args
    }

    /// Whether the controller reaches the API server through the gateway.
    fn is_through_gateway(&self) -> bool {
        self.link.is_some_and(mirror::is_through_gateway)
    }

    /// Leaves the link in its fleet.
    pub fn keep_fleet(&self, new: &mut LinkObjects) {
        let Some(fleet) = self.link.and_then(|link| link.labels().get(labels::FLEET)) else {
            return;
        };
        let LinkObjects {
            credentials,
            control_plane_credentials,
            link,
        } = new;
        let secrets = std::iter::once(credentials).chain(control_plane_credentials);
        let metadata = secrets.map(|secret| &mut secret.metadata);
        for metadata in metadata.chain([&mut link.metadata]) {
            let own = metadata.labels.get_or_insert_default();
            own.insert(labels::FLEET.to_owned(), fleet.clone());
        }
    }

    /// Puts the settings that are there into a new Link, except those that a flag names.
    pub fn keep(&self, new: &mut Link, given: &Given) {
        let Some(old) = self.link else {
            return;
        };
        if !self.is_of_another {
            keep_cluster_uid(old, new);
        }
        let [had_gateway, has_gateway] =
            [old, &*new].map(|link| !link.spec.gateway_address.is_empty());
        let has_discovery = mirror::has_discovery(new);
        for setting in &SETTINGS {
            if setting.annotation() == Some(labels::FEDERATED_THROUGH) && !has_discovery {
                continue; // what the link can do has decided
            }
            if setting.needs_gateway && !has_gateway {
                setting.remove(new);
            } else if !given.has(&[&setting.flag()]) && (had_gateway || !setting.needs_gateway) {
                setting.keep(new, old);
            }
        }
    }
}

#[cfg(test)]
mod tests;
