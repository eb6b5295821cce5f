//! A link that is there already: what a new one keeps of it unless a flag names it. Pure, except [`compare`].

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt as _;
use serde_json::Value;

use super::flags::LinkArgs;
use crate::{
    api::{labels, link::Link, metadata::cluster_uid},
    cli::{
        common::{cluster::Cluster, given::Given, proxy_url::ProxyUrl},
        rotate::TokenAccount,
    },
    manifests::{
        kubeconfig::{ClusterEntry, Secret},
        link::{LinkObjects, SETTINGS},
        yaml,
    },
    mirror::{self, FederatedThrough},
};

/// Flags that only make sense if the link uses a gateway.
const GATEWAY_FLAGS: [&str; 6] = [
    "gateway",
    "gateway_addresses",
    "gateway_port",
    "gateway_name",
    "gateway_namespace",
    "gateway_networks",
];

/// What a kubeconfig in a Secret says. No `Debug`: it holds credentials.
#[derive(Clone)]
pub(in crate::cli) struct KubeconfigTarget {
    /// Address of the API server, without a slash at its end.
    pub(in crate::cli) server: String,
    /// Its certificate authority.
    authority: String,
    /// The name in its certificate, if that is not the host of the address.
    certificate_name: String,
    /// The proxy on the way to it.
    pub(in crate::cli) proxy: ProxyUrl,
    pub(in crate::cli) token: Option<Secret>,
    /// The ServiceAccount of the token. The UID of an account is that of no other account in any cluster.
    pub(in crate::cli) account: Option<TokenAccount>,
}

impl KubeconfigTarget {
    /// Reads a kubeconfig. `None` if it names no API server.
    pub(in crate::cli) fn of(kubeconfig: &[u8]) -> Option<Self> {
        let document: Value = yaml::from_yaml(std::str::from_utf8(kubeconfig).ok()?).ok()?;
        let text = |path: &str| document.pointer(path).and_then(Value::as_str);
        let server = text("/clusters/0/cluster/server")?;
        let authority = text("/clusters/0/cluster/certificate-authority-data");
        let certificate_name = text("/clusters/0/cluster/tls-server-name");
        let token = text("/users/0/user/token").map(Secret::new);
        Some(Self {
            server: server.trim_end_matches('/').to_owned(),
            authority: authority.unwrap_or_default().to_owned(),
            certificate_name: certificate_name.unwrap_or_default().to_owned(),
            proxy: ProxyUrl::of(text("/clusters/0/cluster/proxy-url")),
            account: token.as_ref().and_then(TokenAccount::of),
            token,
        })
    }

    /// What it says about the cluster that it leads to, if no UID is recorded. `known` is what that cluster has as the
    /// account of the token.
    pub(in crate::cli) fn evidence(
        &self,
        entry: &ClusterEntry,
        known: Option<&ServiceAccount>,
    ) -> Evidence {
        // Another address may still be of the same cluster. Then it knows the account.
        let own = self.account.as_ref().and_then(|own| own.uid.as_ref());
        let knows = own.is_some() && known.and_then(|known| known.metadata.uid.as_ref()) == own;
        if knows || self.is_at(entry) {
            Evidence::Same
        } else {
            Evidence::Elsewhere
        }
    }

    /// Whether both lead to the same API server in the same way, with the same token. Contexts and users may have other
    /// names.
    pub(in crate::cli) fn is_same(&self, other: &Self) -> bool {
        let parts = |of: &Self| {
            let address = (of.server.clone(), of.authority.clone());
            (address, of.certificate_name.clone(), of.proxy.clone())
        };
        parts(self) == parts(other) && self.token == other.token
    }

    /// Whether it has the address and the certificate authority of a cluster of the user's kubeconfig.
    fn is_at(&self, cluster: &ClusterEntry) -> bool {
        let authority = cluster.certificate_authority_data.as_deref();
        self.server == cluster.server.trim_end_matches('/')
            && self.authority == authority.unwrap_or_default()
    }
}

/// What credentials that were applied earlier say about the cluster that they lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Evidence {
    Same,
    Elsewhere,
    /// The user may not read them.
    Unreadable,
}

/// Keeps the recorded UID of a cluster in the new Link if that one has none: this time, it could not be read.
pub(in crate::cli) fn keep_cluster_uid(old: &Link, new: &mut Link) {
    if let Some(uid) = cluster_uid(old) {
        let known = new.annotations_mut().entry(labels::CLUSTER_UID.to_owned());
        known.or_insert_with(|| uid.to_owned());
    }
}

/// What the recorded UID of a cluster says, if it can be compared with that of the cluster that is meant.
pub(in crate::cli) fn by_uid(recorded: Option<&str>, actual: Option<&str>) -> Option<Evidence> {
    let is_same = recorded? == actual?;
    Some(if is_same {
        Evidence::Same
    } else {
        Evidence::Elsewhere
    })
}

/// Compares credentials that were applied earlier with a cluster, as the user's kubeconfig has it. Nothing is sent to
/// the address in the credentials.
pub(in crate::cli) async fn compare(
    old: &KubeconfigTarget,
    entry: &ClusterEntry,
    target: &Cluster,
) -> Evidence {
    let Some(account) = old.account.as_ref().filter(|_| !old.is_at(entry)) else {
        return old.evidence(entry, None);
    };
    let accounts = target.api::<ServiceAccount>(&account.namespace);
    let read = accounts.get_opt(&account.name);
    // Without an answer, nothing says that it is the same cluster.
    let known = target.request("read the ServiceAccount", read).await.ok();
    old.evidence(entry, known.flatten().as_ref())
}

/// A link that is there.
#[derive(Clone, Copy, Default)]
pub(in crate::cli) struct Existing<'e> {
    pub(in crate::cli) link: Option<&'e Link>,
    /// Its credentials, if they are for the cluster that is linked.
    pub(in crate::cli) credentials: Option<&'e KubeconfigTarget>,
    /// Whether the Link is for another cluster, whose addresses must not be kept.
    pub(in crate::cli) is_of_another: bool,
}

impl Existing<'_> {
    /// The flags of a new link, with what is set already for those that are not given.
    pub(in crate::cli) fn over(&self, args: &LinkArgs, given: &Given) -> LinkArgs {
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
                    set.is_some_and(|set| set.contains_key(labels::DISCOVERY_SERVICE));
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
    pub(in crate::cli) fn keep_fleet(&self, new: &mut LinkObjects) {
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
    pub(in crate::cli) fn keep(&self, new: &mut Link, given: &Given) {
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
