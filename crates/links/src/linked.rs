//! Finds the objects that link a cluster to this one.

mod losses;
mod mirrors;

use std::{collections::BTreeMap, time::Duration};

use client::Cluster;
use hints::hint::fail;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{ResourceExt as _, api::ListParams};
use manifests::{link::ClusterName, render::ObjectName};
use mirror_core::api::{
    labels,
    link::{Link, LinkObject},
};

pub use crate::linked::{losses::Losses, mirrors::Mirrors};
use crate::{inventory as objects, inventory::ListedObject, poll::poll};

/// Time in which Linkerd sees that no Service names a cluster any more, before its credentials are deleted.
pub const PROPAGATION: Duration = Duration::from_secs(2);
/// Poll interval while mirrors are removed.
const RETRY: Duration = Duration::from_millis(500);

/// The objects that link a cluster to this one.
#[derive(Debug, Default)]
pub struct LinkedObjects {
    /// Secrets to which nothing but these Links leads. They are deleted before the Links, so that a run that ends in
    /// between leaves no Secret that the next one cannot find.
    pub own_secrets: Vec<ListedObject>,
    pub links: Vec<ListedObject>,
    /// The other Secrets, which are deleted last.
    pub secrets: Vec<ListedObject>,
    /// Links of other namespaces to the same cluster, as `namespace/name`. They need Linkerd's Secret, so `secrets` does
    /// not have it.
    pub elsewhere: Vec<String>,
    /// Names of other Links of the namespace to the same cluster, if only one was asked for. They need Linkerd's Secret
    /// and the mirrors, so the other fields leave these out.
    pub remaining: Vec<String>,
    /// Objects of Linkerd's service mirror for this link. Those that are in no namespace only if no Link of another
    /// namespace may have them.
    pub leftovers: Vec<ListedObject>,
    pub mirrors: Mirrors,
}

impl LinkedObjects {
    /// All objects for a cluster; if other Links remain, only those of the Link `only`.
    pub async fn gather(
        cluster: &Cluster,
        name: &ClusterName,
        only: Option<&str>,
        namespace: &str,
        linkerd: &str,
    ) -> anyhow::Result<Self> {
        let (links, elsewhere) = futures::try_join!(
            links(cluster, namespace),
            elsewhere(cluster, namespace, name),
        )?;
        let is_of_cluster = |link: &Link| link.spec.target_cluster_name == name.to_string();
        let is_chosen =
            |link: &Link| is_of_cluster(link) && only.is_none_or(|only| link.name_any() == only);
        let (links, others): (Vec<Link>, Vec<Link>) = links.into_iter().partition(is_chosen);
        let remaining = others.iter().filter(|other| is_of_cluster(other));
        let remaining: Vec<String> = remaining.map(Link::name_any).collect();
        let (is_all, usual) = (remaining.is_empty(), name.credentials_secret());
        let mut names: Vec<String> = secret_names(&links).collect();
        names.extend(is_all.then(|| usual.clone()));
        // Linkerd may use any Secret of its namespace.
        let is_last = |secret: &String| is_all && (*secret == usual || namespace == linkerd);
        let (last, own): (Vec<_>, Vec<_>) = unused(names, &others).into_iter().partition(is_last);
        let mut linked = Self {
            own_secrets: objects::SECRET
                .with_names(cluster, Some(namespace), &own)
                .await?,
            links: listed(&links),
            remaining,
            ..Self::default()
        };
        if !is_all {
            return Ok(linked);
        }
        linked.elsewhere = elsewhere;
        (linked.leftovers, linked.mirrors, linked.secrets) = futures::try_join!(
            leftovers(cluster, namespace, name, linked.is_only_elsewhere()),
            linked.mirrors_now(cluster, name, namespace),
            objects::SECRET.with_names(cluster, Some(namespace), &last),
        )?;
        if linked.elsewhere.is_empty() {
            let of_linkerd = linkerds_secrets(cluster, linkerd, name).await?;
            linked.secrets.extend(of_linkerd);
        }
        Ok(linked)
    }

    /// Whether only other namespaces have Links to the cluster. Then what does not name this namespace may be theirs.
    pub fn is_only_elsewhere(&self) -> bool {
        self.links.is_empty() && !self.elsewhere.is_empty()
    }

    /// The mirrors of the link that exist now.
    pub async fn mirrors_now(
        &self,
        cluster: &Cluster,
        name: &ClusterName,
        namespace: &str,
    ) -> anyhow::Result<Mirrors> {
        if self.is_only_elsewhere() {
            Mirrors::gather_named(cluster, name, namespace).await
        } else {
            Mirrors::gather(cluster, name, namespace).await
        }
    }

    /// Waits until no mirror is left, at most for `wait`. Returns those that are.
    pub async fn mirrors_left(
        &self,
        cluster: &Cluster,
        name: &ClusterName,
        namespace: &str,
        wait: Duration,
    ) -> anyhow::Result<Mirrors> {
        let attempt = async || {
            let left = Box::pin(self.mirrors_now(cluster, name, namespace)).await?;
            anyhow::Ok(if left.count() == 0 {
                Ok(left)
            } else {
                Err(left)
            })
        };
        let (Ok(left) | Err(left)) = poll(RETRY, wait, attempt, |_| ()).await?;
        Ok(left)
    }

    /// Keeps the Secrets that another Link names meanwhile. Fails if somebody has made one to the cluster again.
    pub async fn keep_used(
        &mut self,
        cluster: &Cluster,
        name: &ClusterName,
        namespace: &str,
        linkerd: &str,
    ) -> anyhow::Result<()> {
        let now = Box::pin(Self::gather(cluster, name, None, namespace, linkerd)).await?;
        if let Some(link) = now.links.first() {
            return Err(fail(
                format!(
                    "the Link {} exists again; the Secrets were not deleted",
                    link.name()
                ),
                "run this again if it is to be deleted too",
            ));
        }
        self.secrets
            .retain(|secret| now.secrets.iter().any(|of| of.object == secret.object));
        Ok(())
    }

    pub fn is_empty(&self) -> bool {
        self.leftovers.is_empty() && self.has_only_leftovers()
    }

    /// Whether there is nothing else than objects of Linkerd's service mirror.
    pub fn has_only_leftovers(&self) -> bool {
        self.own_secrets.is_empty()
            && self.links.is_empty()
            && self.secrets.is_empty()
            && self.mirrors.count() == 0
    }

    /// All, in the order in which they are to be deleted.
    pub fn all(self) -> impl Iterator<Item = ObjectName> {
        let first = self.own_secrets.into_iter().chain(self.links);
        let first = first.chain(self.leftovers);
        let all = first.chain(self.mirrors.into_own()).chain(self.secrets);
        all.map(|listed| listed.object)
    }
}

/// Linkerd's Secrets for a cluster.
async fn linkerds_secrets(
    cluster: &Cluster,
    linkerd: &str,
    name: &ClusterName,
) -> anyhow::Result<Vec<ListedObject>> {
    let credentials = format!("{}={name}", labels::CREDENTIALS_CLUSTER);
    let found = objects::SECRET.list(cluster, Some(linkerd), &credentials);
    let found = found.await?;
    if found.is_empty() {
        check_linkerds(cluster, linkerd, &credentials).await?;
    }
    Ok(found)
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
            secret.object.namespace.as_deref().unwrap_or_default()
        ),
        Err(_) => "pass Linkerd's namespace with --linkerd-namespace".to_owned(),
    };
    Err(fail(
        format!("namespace {linkerd:?} is not Linkerd's"),
        hint,
    ))
}

/// The Links, as they are deleted: the controller writes the status of a Link all the time.
fn listed(links: &[Link]) -> Vec<ListedObject> {
    let all = links.iter();
    let listed = all.map(|link| ListedObject::new(objects::LINK, &link.metadata));
    listed.map(ListedObject::in_any_version).collect()
}

/// The names of the credentials Secrets of Links.
fn secret_names(links: &[Link]) -> impl Iterator<Item = String> {
    let names = links
        .iter()
        .map(|link| link.spec.cluster_credentials_secret.clone());
    names.filter(|name| !name.is_empty())
}

/// Those of these names of Secrets that no other Link has, also none to another cluster.
fn unused(mut names: Vec<String>, others: &[Link]) -> Vec<String> {
    names.retain(|name| !secret_names(others).any(|other| other == *name));
    names.sort();
    names.dedup();
    names
}

/// Links of a namespace.
#[derive(Debug, Default)]
pub struct KnownLinks {
    /// All of them. A Link that cannot be decoded has at least its name, and usually those of the target cluster and of
    /// its credentials Secret.
    pub links: Vec<Link>,
    /// Why Links cannot be decoded, by their names. Nothing may be concluded from what these Links lack.
    pub unreadable: BTreeMap<String, String>,
}

impl KnownLinks {
    /// Reads them; none if the CRD is missing.
    pub async fn read(cluster: &Cluster, namespace: &str) -> anyhow::Result<Self> {
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

    /// Fails for a Link that cannot be decoded.
    pub fn check_decoded(&self, cluster: &Cluster, link: &Link) -> anyhow::Result<()> {
        let name = link.name_any();
        match self.unreadable.get(&name) {
            None => Ok(()),
            Some(why) => Err(undecodable(
                cluster,
                &link.namespace().unwrap_or_default(),
                &name,
                format!("the Link {name} cannot be decoded: {why}"),
            )),
        }
    }
}

/// The error for a Link that cannot be decoded, with a hint how to correct it.
pub fn undecodable(cluster: &Cluster, namespace: &str, link: &str, what: String) -> anyhow::Error {
    let edit = cluster.flags.kubectl(
        "-n {} edit links.multicluster.linkerd.io {}",
        &[namespace, link],
    );
    fail(
        what,
        format!("correct it with {edit}, and run the same command again"),
    )
}

/// Links of a namespace, also those that cannot be decoded; none if the CRD is missing.
pub async fn links(cluster: &Cluster, namespace: &str) -> anyhow::Result<Vec<Link>> {
    Ok(KnownLinks::read(cluster, namespace).await?.links)
}

/// Links of other namespaces to a cluster, as `namespace/name`; none if the user may not list Links of all namespaces.
pub async fn elsewhere(
    cluster: &Cluster,
    namespace: &str,
    name: &ClusterName,
) -> anyhow::Result<Vec<String>> {
    let links = links_elsewhere(cluster, namespace).await?;
    let links = links
        .into_iter()
        .flatten()
        .filter(|link| link.spec.target_cluster_name == name.to_string());
    let names = links.map(|link| {
        let namespace = link.namespace().unwrap_or_default();
        format!("{namespace}/{}", link.name_any())
    });
    Ok(names.collect())
}

/// Links of other namespaces; `None` if the user may not list Links of all namespaces.
pub async fn links_elsewhere(
    cluster: &Cluster,
    namespace: &str,
) -> anyhow::Result<Option<Vec<Link>>> {
    let api = cluster.all::<LinkObject>();
    let listed = async {
        match api.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(None),
            answer => answer.map(|list| Some(list.items)),
        }
    };
    let found = cluster
        .request_opt("list Links of all namespaces", listed)
        .await?;
    let is_elsewhere = |link: &Link| link.namespace().as_deref() != Some(namespace);
    // Without the CRD there are no Links.
    Ok(found.unwrap_or_else(|| Some(vec![])).map(|objects| {
        let links = objects.into_iter().map(|object| object.link);
        links.filter(is_elsewhere).collect()
    }))
}

/// A hint for an unknown cluster: the linked clusters, or `where_else` if there are none.
pub fn known_clusters(links: &[Link], where_else: &str) -> String {
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

/// Objects of Linkerd's service mirror for this link. Of our own objects, only Services have this label. `only_here`
/// leaves out those that are in no namespace.
pub async fn leftovers(
    cluster: &Cluster,
    namespace: &str,
    name: &ClusterName,
    only_here: bool,
) -> anyhow::Result<Vec<ListedObject>> {
    let of_cluster = &format!("{}={name}", labels::CLUSTER_NAME);
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
    let kinds = kinds
        .into_iter()
        .filter(|(_, namespace)| namespace.is_some() || !only_here);
    let lists = kinds.map(|(kind, namespace)| Box::pin(kind.list(cluster, namespace, of_cluster)));
    let (labelled, budgets, leases) = futures::try_join!(
        futures::future::try_join_all(lists),
        objects::DISRUPTION_BUDGET.with_names(cluster, here, &budgets),
        objects::LEASE.with_names(cluster, here, &leases),
    )?;
    let all = [labelled.concat(), budgets, leases].concat().into_iter();
    Ok(all.map(ListedObject::in_any_version).collect())
}

#[cfg(test)]
mod tests;
