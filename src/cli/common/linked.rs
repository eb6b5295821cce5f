//! Finds the objects that link a cluster to this one.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::{
    ResourceExt as _,
    api::{ListParams, PartialObjectMeta},
    core::ObjectMeta,
};

use super::{cluster::Cluster, inventory as objects};
use crate::{
    api::{
        labels,
        link::{Link, LinkObject},
        members::{local_member, remote_members},
    },
    hint::fail,
    manifests::{link::ClusterName, render::ObjectName},
};

/// Time in which Linkerd sees that no Service names a cluster any more, before its credentials are deleted.
pub(crate) const PROPAGATION: Duration = Duration::from_secs(2);

/// The objects that link a cluster to this one.
#[derive(Debug, Default)]
pub(crate) struct LinkedObjects {
    pub(crate) links: Vec<ObjectName>,
    pub(crate) secrets: Vec<ObjectName>,
    /// Links of other namespaces to the same cluster, as `namespace/name`. They need Linkerd's Secret, so `secrets` does
    /// not have it.
    pub(crate) elsewhere: Vec<String>,
    /// Names of other Links of the namespace to the same cluster, if only one was asked for. They need Linkerd's Secret
    /// and the mirrors, so the other fields leave these out.
    pub(crate) remaining: Vec<String>,
    /// Objects of Linkerd's service mirror for this link.
    pub(crate) leftovers: Vec<ObjectName>,
    pub(crate) mirrors: Mirrors,
}

/// Services that exist because of a link.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Mirrors {
    pub(crate) own: Vec<ObjectName>,
    /// Its probe Service.
    pub(crate) probes: Vec<ObjectName>,
    /// Federated Services that have no other member.
    pub(crate) federated: Vec<ObjectName>,
    /// Federated Services that have other members too.
    pub(crate) shared: Vec<ObjectName>,
}

impl LinkedObjects {
    /// All objects for a cluster; if other Links remain, only those of the Link `only`.
    pub(crate) async fn gather(
        cluster: &Cluster,
        name: &ClusterName,
        only: Option<&str>,
        namespace: &str,
        linkerd: &str,
    ) -> anyhow::Result<Self> {
        let of_cluster = format!("{}={name}", labels::CLUSTER_NAME);
        let credentials = format!("{}={name}", labels::CREDENTIALS_CLUSTER);
        let (links, elsewhere, leftovers, control_plane_secrets, mirrors) = futures::try_join!(
            links(cluster, namespace),
            elsewhere(cluster, namespace, name),
            leftovers(cluster, namespace, name, &of_cluster),
            objects::SECRET.list(cluster, Some(linkerd), &credentials),
            Mirrors::gather(cluster, name, namespace),
        )?;
        let links: Vec<Link> = links
            .into_iter()
            .filter(|link| link.spec.target_cluster_name == name.to_string())
            .collect();
        let is_chosen = |link: &Link| only.is_none_or(|only| link.name_any() == only);
        let (links, others): (Vec<Link>, Vec<Link>) = links.into_iter().partition(is_chosen);
        if !others.is_empty() {
            let secrets = unused(&links, &others);
            return Ok(Self {
                links: identities(&links),
                secrets: objects::SECRET
                    .with_names(cluster, namespace, &secrets)
                    .await?,
                remaining: others.iter().map(Link::name_any).collect(),
                ..Self::default()
            });
        }
        let mut names: Vec<String> = secret_names(&links).collect();
        names.push(name.credentials_secret());
        names.sort();
        names.dedup();
        let mut secrets = objects::SECRET
            .with_names(cluster, namespace, &names)
            .await?;
        if elsewhere.is_empty() {
            if control_plane_secrets.is_empty() {
                check_linkerds(cluster, linkerd, &credentials).await?;
            }
            secrets.extend(control_plane_secrets);
        }
        Ok(Self {
            links: identities(&links),
            secrets,
            elsewhere,
            remaining: Vec::new(),
            leftovers,
            mirrors,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.links.is_empty()
            && self.secrets.is_empty()
            && self.leftovers.is_empty()
            && self.mirrors.len() == 0
    }

    /// All, in the order in which they are to be deleted.
    pub(crate) fn all(self) -> impl Iterator<Item = ObjectName> {
        [self.links, self.leftovers]
            .into_iter()
            .flatten()
            .chain(self.mirrors.into_own())
            .chain(self.secrets)
    }
}

/// Fails if Linkerd is not in this namespace, unless no namespace has its credentials for the cluster. Otherwise
/// Linkerd's Secret would stay.
async fn check_linkerds(cluster: &Cluster, linkerd: &str, credentials: &str) -> anyhow::Result<()> {
    let what = "read Linkerd's configuration";
    let config = cluster.get::<ConfigMap>(what, linkerd, labels::LINKERD_CONFIG);
    if config.await?.is_some() {
        return Ok(());
    }
    let all = objects::SECRET.list(cluster, None, credentials).await;
    let hint = match all.as_ref().map(|found| found.first()) {
        // Linkerd has been uninstalled.
        Ok(None) => return Ok(()),
        Ok(Some(secret)) => format!(
            "its Secret for this cluster is in namespace {0}; pass --linkerd-namespace {0}",
            secret.namespace.as_deref().unwrap_or_default()
        ),
        Err(_) => "pass Linkerd's namespace with --linkerd-namespace".to_owned(),
    };
    Err(fail(
        format!("namespace {linkerd:?} is not Linkerd's"),
        hint,
    ))
}

fn identities(links: &[Link]) -> Vec<ObjectName> {
    let all = links.iter();
    all.map(|link| objects::LINK.named(link.namespace(), link.name_any()))
        .collect()
}

/// The names of the credentials Secrets of Links.
fn secret_names(links: &[Link]) -> impl Iterator<Item = String> {
    let names = links
        .iter()
        .map(|link| link.spec.cluster_credentials_secret.clone());
    names.filter(|name| !name.is_empty())
}

/// The names of the credentials Secrets that these Links have, and no other Link.
fn unused(links: &[Link], others: &[Link]) -> Vec<String> {
    let is_unused = |name: &String| !secret_names(others).any(|other| other == *name);
    secret_names(links).filter(is_unused).collect()
}

impl Mirrors {
    /// Services of the installation whose Links are in `namespace`, and Services that name no installation.
    pub(crate) async fn gather(
        cluster: &Cluster,
        name: &ClusterName,
        namespace: &str,
    ) -> anyhow::Result<Self> {
        let services = cluster.all::<PartialObjectMeta<Service>>();
        let list = async |selector: String| {
            let params = ListParams::default().labels(&selector);
            cluster
                .request("list mirrors", services.list_metadata(&params))
                .await
        };
        let (own, federated) = futures::try_join!(
            list(format!("{}={name}", labels::CLUSTER_NAME)),
            list(format!(
                "{}=true,!{}",
                labels::MIRRORED_SERVICE,
                labels::CLUSTER_NAME
            )),
        )?;
        let of_installation = |metadata: &ObjectMeta| {
            let annotations = metadata.annotations.as_ref();
            let known = annotations.and_then(|all| all.get(labels::INSTALLATION));
            known.is_none_or(|known| known == namespace)
        };
        let [own, federated] = [own, federated].map(|list| {
            let all = list.items.into_iter().map(|object| object.metadata);
            all.filter(of_installation).collect::<Vec<ObjectMeta>>()
        });
        Ok(Self::sort(&name.to_string(), &own, &federated))
    }

    /// Sorts Services by whether they exist only for `cluster`. `own` has its label, `federated` are all federated ones.
    fn sort(cluster: &str, own: &[ObjectMeta], federated: &[ObjectMeta]) -> Self {
        let identity = |meta: &ObjectMeta| {
            objects::SERVICE.named(
                meta.namespace.clone(),
                meta.name.clone().unwrap_or_default(),
            )
        };
        let has = |map: &Option<BTreeMap<String, String>>, key: &str| {
            map.as_ref().is_some_and(|map| map.contains_key(key))
        };
        // A Service with only the cluster's label belongs to somebody else.
        let (probes, others): (Vec<_>, Vec<_>) = own
            .iter()
            .partition(|meta| has(&meta.labels, labels::MIRRORED_GATEWAY));
        let of_mirrors = |meta: &&ObjectMeta| has(&meta.labels, labels::MIRRORED_SERVICE);
        let mut mirrors = Self {
            own: others
                .into_iter()
                .filter(of_mirrors)
                .map(identity)
                .collect(),
            probes: probes.into_iter().map(identity).collect(),
            ..Default::default()
        };
        for meta in federated {
            let annotation = |key: &str| Some(meta.annotations.as_ref()?.get(key)?.as_str());
            let is_of_cluster = |(_, of): (&str, &str)| of == cluster;
            if !remote_members(annotation).any(is_of_cluster) {
                continue;
            }
            let all = remote_members(annotation).all(is_of_cluster);
            if local_member(annotation).is_some() || !all {
                mirrors.shared.push(identity(meta));
            } else {
                mirrors.federated.push(identity(meta));
            }
        }
        mirrors
    }

    pub(crate) fn len(&self) -> usize {
        self.own.len() + self.probes.len() + self.federated.len() + self.shared.len()
    }

    /// Services that are deleted with the link.
    pub(crate) fn into_own(self) -> impl Iterator<Item = ObjectName> {
        [self.probes, self.own, self.federated]
            .into_iter()
            .flatten()
    }
}

/// Links of a namespace.
#[derive(Debug, Default)]
pub(crate) struct KnownLinks {
    /// All of them. A Link that cannot be decoded has at least its name, and usually that of the target cluster.
    pub(crate) links: Vec<Link>,
    /// Why Links cannot be decoded, by their names. Nothing may be concluded from what these Links lack.
    pub(crate) unreadable: BTreeMap<String, String>,
}

impl KnownLinks {
    /// Reads them; none if the CRD is missing.
    pub(crate) async fn read(cluster: &Cluster, namespace: &str) -> anyhow::Result<Self> {
        let api = cluster.api::<LinkObject>(namespace);
        let found = cluster
            .request_opt("list Links", api.list(&ListParams::default()))
            .await?;
        let mut known = Self::default();
        for LinkObject { link, unreadable } in found.into_iter().flatten() {
            let why = unreadable.map(|why| (link.name_any(), why));
            known.unreadable.extend(why);
            known.links.push(link);
        }
        Ok(known)
    }
}

/// Links of a namespace, also those that cannot be decoded; none if the CRD is missing.
pub(crate) async fn links(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<Link>> {
    Ok(KnownLinks::read(cluster, namespace).await?.links)
}

/// Links of other namespaces to a cluster, as `namespace/name`; none if the user may not list Links of all namespaces.
pub(crate) async fn elsewhere(
    cluster: &Cluster,
    namespace: &str,
    name: &ClusterName,
) -> anyhow::Result<Vec<String>> {
    let api = cluster.all::<LinkObject>();
    let listed = async {
        match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(vec![]),
            answer => answer.map(|list| list.items),
        }
    };
    let found = cluster
        .request_opt("list Links of all namespaces", listed)
        .await?;
    let links = found.into_iter().flatten().map(|object| object.link);
    Ok(links
        .filter(|link| link.spec.target_cluster_name == name.to_string())
        .filter(|link| link.namespace().as_deref() != Some(namespace))
        .map(|link| {
            format!(
                "{}/{}",
                link.namespace().unwrap_or_default(),
                link.name_any()
            )
        })
        .collect())
}

/// A hint for an unknown cluster: the linked clusters, or `where_else` if there are none.
pub(crate) fn known_clusters(links: &[Link], where_else: &str) -> String {
    let mut names: Vec<&str> = links
        .iter()
        .map(|link| link.spec.target_cluster_name.as_str())
        .collect();
    names.sort_unstable();
    if names.is_empty() {
        format!("no Links found; {where_else}")
    } else {
        format!("linked clusters: {}", names.join(", "))
    }
}

/// Objects of Linkerd's service mirror for this link. Of our own objects, only Services have this label.
async fn leftovers(
    cluster: &Cluster,
    namespace: &str,
    name: &ClusterName,
    of_cluster: &str,
) -> anyhow::Result<Vec<ObjectName>> {
    let here = Some(namespace);
    let budgets =
        ["linkerd-service-mirror-", "controller-"].map(|prefix| format!("{prefix}{name}"));
    let leases = [format!("service-mirror-write-{name}")];
    let kinds = [
        (objects::DEPLOYMENT, here),
        (objects::CLUSTER_ROLE, None),
        (objects::CLUSTER_ROLE_BINDING, None),
        (objects::ROLE, here),
        (objects::ROLE_BINDING, here),
        (objects::SERVICE_ACCOUNT, here),
    ];
    let lists = kinds.map(|(kind, namespace)| Box::pin(kind.list(cluster, namespace, of_cluster)));
    let (labelled, budgets, leases) = futures::try_join!(
        futures::future::try_join_all(lists),
        objects::DISRUPTION_BUDGET.with_names(cluster, namespace, &budgets),
        objects::LEASE.with_names(cluster, namespace, &leases),
    )?;
    Ok([labelled.concat(), budgets, leases].concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn path(identity: &ObjectName) -> String {
        let namespace = identity.namespace.as_deref().unwrap_or_default();
        format!("{namespace}/{}", identity.name)
    }

    fn metas(all: serde_json::Value) -> Vec<ObjectMeta> {
        serde_json::from_value(all).unwrap()
    }

    #[test]
    fn secret_of_one_link_goes_unless_another_one_has_it() {
        let link = |name: &str, secret: &str| -> Link {
            serde_json::from_value(json!({
                "apiVersion": "multicluster.linkerd.io/v1alpha3",
                "kind": "Link",
                "metadata": { "name": name },
                "spec": { "targetClusterName": "east", "clusterCredentialsSecret": secret },
            }))
            .unwrap()
        };
        let unused = |this: &str, other: &str| unused(&[link("a", this)], &[link("b", other)]);
        assert_eq!(unused("own", "other"), ["own"]);
        assert_eq!(unused("same", "same"), [""; 0]);
        assert_eq!(unused("", "other"), [""; 0]);
    }

    #[test]
    fn only_services_of_the_cluster_alone_are_deleted() {
        let own = metas(json!([
            { "name": "web-east", "namespace": "shop", "labels": { "mirror.linkerd.io/mirrored-service": "true" } },
            { "name": "probe-east", "namespace": "mc", "labels": { "mirror.linkerd.io/mirrored-gateway": "true" } },
            { "name": "mine", "namespace": "shop", "labels": { "mirror.linkerd.io/cluster-name": "east" } },
        ]));
        let remote = "multicluster.linkerd.io/remote-discovery";
        let local = "multicluster.linkerd.io/local-discovery";
        let federated = metas(json!([
            { "name": "only-east", "namespace": "shop", "annotations": { remote: "a@east,b@east" } },
            { "name": "with-north", "namespace": "shop", "annotations": { remote: "a@east,a@north" } },
            { "name": "with-local", "namespace": "shop", "annotations": { remote: "a@east", local: "a" } },
            { "name": "without", "namespace": "shop", "annotations": { remote: "a@eastern" } },
            { "name": "empty", "namespace": "shop", "annotations": { remote: "", local: "a" } },
        ]));
        let Mirrors {
            own,
            probes,
            federated,
            shared,
        } = Mirrors::sort("east", &own, &federated);
        let paths = |all: &[ObjectName]| all.iter().map(path).collect::<Vec<_>>();
        assert_eq!(paths(&own), ["shop/web-east"]);
        assert_eq!(paths(&probes), ["mc/probe-east"]);
        assert_eq!(paths(&federated), ["shop/only-east"]);
        assert_eq!(paths(&shared), ["shop/with-north", "shop/with-local"]);
    }
}
