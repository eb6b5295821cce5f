//! Checks that the name of a link is free: one name never stands for two clusters.
//!
//! What Links and Secrets of the source cluster say is compared with the target cluster. Nothing is sent to the cluster
//! that the name belongs to, which may not be reachable from here.

use k8s_openapi::api::core::v1::ServiceAccount;
use kube::ResourceExt as _;
use serde_json::Value;

use crate::{
    api::link::Link,
    cli::{common::cluster::Cluster, rotate::TokenAccount},
    client::Access,
    manifests::{kubeconfig::Secret, yaml},
};

/// The cluster that a kubeconfig leads to.
#[derive(Debug, PartialEq, Eq)]
struct KubeconfigTarget {
    /// Address of the API server, without a slash at its end.
    server: String,
    /// Its certificate authority.
    authority: String,
    /// The ServiceAccount of the token. The UID of an account is that of no other account in any cluster.
    account: Option<TokenAccount>,
}

impl KubeconfigTarget {
    /// Reads a kubeconfig. `None` if it names no API server.
    fn of(kubeconfig: &[u8]) -> Option<Self> {
        let document: Value = yaml::from_yaml(std::str::from_utf8(kubeconfig).ok()?).ok()?;
        let text = |path: &str| document.pointer(path).and_then(Value::as_str);
        let server = text("/clusters/0/cluster/server")?;
        let authority = text("/clusters/0/cluster/certificate-authority-data");
        Some(Self {
            server: server.trim_end_matches('/').to_owned(),
            authority: authority.unwrap_or_default().to_owned(),
            account: text("/users/0/user/token")
                .and_then(|token| TokenAccount::of(&Secret::new(token))),
        })
    }

    fn uid(&self) -> Option<&String> {
        self.account.as_ref()?.uid.as_ref()
    }

    /// Whether both certainly lead to the same cluster.
    fn is(&self, other: &Self) -> bool {
        let same_account = self.uid().is_some() && self.uid() == other.uid();
        let same_server = self.server == other.server && self.authority == other.authority;
        same_account || same_server
    }
}

/// What credentials that were applied earlier say about the cluster that they lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    Same,
    Elsewhere,
    /// The user may not read them.
    Unreadable,
}

/// What a Link with these credentials may do to another cluster's mirrors, if it is changed; `None` if nothing.
pub(super) fn objection(evidence: &[Evidence]) -> Option<&'static str> {
    if evidence.contains(&Evidence::Elsewhere) {
        return Some("leads to another cluster");
    }
    let is_unknown =
        evidence.contains(&Evidence::Unreadable) && !evidence.contains(&Evidence::Same);
    is_unknown.then_some("may lead to another cluster, and you may not read its credentials")
}

/// Compares credentials that were applied earlier with `new` ones. `access` is that of the cluster of `new`. `None` if
/// one of them names no API server.
pub(super) async fn compare(
    old: &[u8],
    new: &[u8],
    access: &Access,
) -> anyhow::Result<Option<Evidence>> {
    let (Some(old), Some(new)) = (KubeconfigTarget::of(old), KubeconfigTarget::of(new)) else {
        return Ok(None);
    };
    if old.is(&new) {
        return Ok(Some(Evidence::Same));
    }
    // Another address and another account may still be of the same cluster. Then it knows the account.
    let Some(account) = &old.account else {
        return Ok(Some(Evidence::Elsewhere));
    };
    let target = Cluster::connect(access).await?;
    let accounts = target.api::<ServiceAccount>(&account.namespace);
    let read = accounts.get_opt(&account.name);
    // Without an answer, nothing says that it is the same cluster.
    let known = target.request("read the ServiceAccount", read).await.ok();
    let uid = known.flatten().and_then(|known| known.uid());
    let is_known = uid.is_some() && uid.as_ref() == old.uid();
    Ok(Some(if is_known {
        Evidence::Same
    } else {
        Evidence::Elsewhere
    }))
}

/// The Links that a link of this name concerns.
#[derive(Debug, PartialEq)]
pub(super) enum NameHolder<'l> {
    /// There is none yet.
    Nobody,
    /// The Link that will be changed. It is for the same name.
    Same(&'l Link),
    /// The Link that will be changed is for a cluster of another name.
    Renamed(&'l Link),
    /// Only Links of other names are for the cluster. A new one would be a duplicate.
    Duplicate(&'l Link),
}

/// Finds the Link that has the name of a cluster.
pub(super) fn holder<'l>(links: &'l [Link], cluster: &str) -> NameHolder<'l> {
    let target = |link: &Link| link.spec.target_cluster_name.clone();
    if let Some(own) = links.iter().find(|link| link.name_any() == cluster) {
        // A Link that cannot be decoded may name none.
        return if [cluster, ""].contains(&target(own).as_str()) {
            NameHolder::Same(own)
        } else {
            NameHolder::Renamed(own)
        };
    }
    match links.iter().find(|link| target(link) == cluster) {
        Some(other) => NameHolder::Duplicate(other),
        None => NameHolder::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    fn kubeconfig(server: &str, authority: &str, uid: Option<&str>) -> String {
        let claims = json!({
            "sub": "system:serviceaccount:mc:west",
            "kubernetes.io/serviceaccount/service-account.uid": uid,
        });
        let token = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        json!({
            "clusters": [{ "cluster": { "server": server, "certificate-authority-data": authority } }],
            "users": [{ "user": { "token": format!("e30.{token}.sig") } }],
        })
        .to_string()
    }

    #[test]
    fn clusters_are_the_same_by_account_or_by_server() {
        let (here, there) = ("https://192.0.2.1:6443", "https://192.0.2.2:6443");
        let new = kubeconfig(here, "a", Some("1"));
        for (old, expected) in [
            (kubeconfig(here, "a", Some("1")), true),
            (kubeconfig("https://192.0.2.1:6443/", "a", None), true),
            (kubeconfig(here, "a", Some("2")), true),
            (kubeconfig(there, "b", Some("1")), true),
            // One server may be in front of several clusters, and an authority may have signed for several.
            (
                kubeconfig("https://192.0.2.1:6443/c2", "a", Some("2")),
                false,
            ),
            (kubeconfig(here, "b", Some("2")), false),
            (kubeconfig(there, "a", Some("2")), false),
            (kubeconfig(there, "a", None), false),
        ] {
            let [old, new] =
                [&old, &new].map(|text| KubeconfigTarget::of(text.as_bytes()).unwrap());
            assert_eq!(old.is(&new), expected, "{old:?}");
        }
        for nowhere in ["another", "users: [", ""] {
            assert_eq!(KubeconfigTarget::of(nowhere.as_bytes()), None, "{nowhere}");
        }
    }

    #[test]
    fn a_link_is_changed_only_if_it_is_known_to_lead_to_the_same_cluster() {
        use Evidence::{Elsewhere, Same, Unreadable};
        let another = Some("leads to another cluster");
        let unknown = Some("may lead to another cluster, and you may not read its credentials");
        for (evidence, expected) in [
            (&[][..], None),
            (&[Same], None),
            (&[Unreadable, Same], None),
            (&[Same, Elsewhere], another),
            (&[Unreadable, Elsewhere], another),
            (&[Unreadable], unknown),
        ] {
            assert_eq!(objection(evidence), expected, "{evidence:?}");
        }
    }

    #[test]
    fn a_name_is_held_by_the_link_that_has_it_and_by_links_for_that_cluster() {
        let link = |name: &str, cluster: &str| -> Link {
            serde_json::from_value(json!({
                "apiVersion": "multicluster.linkerd.io/v1alpha3",
                "kind": "Link",
                "metadata": { "name": name },
                "spec": { "targetClusterName": cluster },
            }))
            .unwrap()
        };
        let (east, other) = (link("east", "east"), link("other", "east"));
        let (renamed, broken) = (link("east", "north"), link("east", ""));
        let links = [other.clone(), link("north", "north")];
        assert_eq!(holder(&links, "west"), NameHolder::Nobody);
        assert_eq!(holder(&links, "east"), NameHolder::Duplicate(&other));
        let links = [other.clone(), east.clone()];
        assert_eq!(holder(&links, "east"), NameHolder::Same(&east));
        let links = [renamed.clone()];
        assert_eq!(holder(&links, "east"), NameHolder::Renamed(&renamed));
        let links = [broken.clone()];
        assert_eq!(holder(&links, "east"), NameHolder::Same(&broken));
    }
}
