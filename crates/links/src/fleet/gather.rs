//! Reads the clusters of a fleet side by side. One that does not answer delays no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    future::Future,
    time::Duration,
};

use anyhow::Context as _;
use client::{Access, Cluster};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::{
    core::v1::{Namespace, Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{Resource, ResourceExt as _, api::ListParams};
use manifests::link::ClusterName;
use mirror_core::api::labels;
use observe::clusters::{collect_full, kube_context::side_by_side};
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::{
    cluster_name::context_of,
    extension::InstallFacts,
    fleet::{
        accounts::namespaces,
        facts::{AccountFacts, ClusterFacts, FormerAccounts, TargetSide, account_of, is_of},
        loaded::{LoadedFleet, LoadedLink, named},
        part::UsedClusters,
        recorded::renamed,
        removal::KnownClusters,
    },
    inventory::LINK,
    link::{
        api_server::ApiServerFacts,
        facts::LinkFacts,
        generate::{entry, gateway},
    },
    linked::{KnownLinks, links_elsewhere},
    linkerd::linkerd_config,
    rotate::tokens::token_secrets,
};

/// Number of clusters that are read at the same time.
pub const SIDE_BY_SIDE: usize = 16;

/// A cluster that was read.
pub struct ReadCluster {
    pub cluster: Cluster,
    pub facts: ClusterFacts,
}

/// What is known of the clusters, by their names; an error says why nothing is.
pub type ReadClusters = BTreeMap<ClusterName, Result<ReadCluster, String>>;

/// What was read, without the clients.
pub fn known(read: &ReadClusters) -> KnownClusters<'_> {
    let known = read.iter().map(|(name, read)| {
        let facts = read.as_ref().map(|read| &read.facts);
        (name, facts.map_err(String::as_str))
    });
    known.collect()
}

/// Reads the clusters of the file that are used, and those that are not in it any more and that the user names.
pub async fn read_all(
    all: &Access,
    loaded: &LoadedFleet,
    used: &UsedClusters,
    timeout: Duration,
) -> ReadClusters {
    let wanted = loaded.fleet.clusters.iter();
    let wanted = wanted.filter(|cluster| used.contains(&cluster.name));
    let wanted = wanted.map(|cluster| (cluster.name.clone(), loaded.access(all, cluster)));
    let mut read = read_some(loaded, wanted.collect(), timeout).await;
    let left = left(loaded, &known(&read), used);
    let contexts = all.kubeconfig().map(|all| all.contexts).unwrap_or_default();
    let contexts = contexts.iter().map(|context| context.name.as_str());
    let left = left.into_iter().filter_map(|name| {
        let context = context_of(&name.to_string(), contexts.clone()).ok()?;
        Some((name, all.with_context(context)))
    });
    let left = read_some(loaded, left.collect(), timeout).await;
    read.extend(left);
    read_destinations(loaded, &mut read, timeout).await;
    read
}

/// Reads which credentials Linkerd has, if accounts are in two namespaces: it may use those that its Secrets had before.
async fn read_destinations(loaded: &LoadedFleet, read: &mut ReadClusters, timeout: Duration) {
    let has_former = |facts: &ClusterFacts| !facts.accounts.former.accounts.is_empty();
    let mut all = read.values().filter_map(|read| read.as_ref().ok());
    if !all.any(|read| has_former(&read.facts)) {
        return;
    }
    let reads = read.values_mut().filter_map(|read| read.as_mut().ok());
    let reads = reads.map(async |read| {
        let client = &read.cluster.client;
        let found = async {
            let found = collect_full::destination(client, &loaded.linkerd, &BTreeSet::new()).await;
            found.map_err(|why| {
                read.cluster
                    .failed("read the Pods of linkerd-destination", why)
            })
        };
        let found = in_time(timeout, Box::pin(found)).await;
        read.facts.destination = Some(found);
    });
    side_by_side(reads).await;
}

/// A target cluster, as far as links to it need to know it.
pub struct ReadTarget {
    pub cluster: Cluster,
    pub side: TargetSide,
}

/// Reads one target cluster, as far as links to it need that: its Linkerd and its gateway.
pub async fn read_target(
    all: &Access,
    loaded: &LoadedFleet,
    link: &LoadedLink,
) -> anyhow::Result<ReadTarget> {
    let name = &link.ends.target;
    let (access, cluster) = loaded.connect(all, name).await?;
    let side = target(loaded, &cluster, &access, link).await?;
    Ok(ReadTarget { cluster, side })
}

/// What `fleet render` knows of clusters, by their names. An error says why nothing is known of one.
#[derive(Default)]
pub struct RenderFacts {
    /// What links to the target clusters need.
    pub targets: BTreeMap<ClusterName, Result<TargetSide, String>>,
    /// What the extension needs, if it is rendered.
    pub installs: BTreeMap<ClusterName, Result<InstallFacts, String>>,
}

/// Reads the target clusters of the file as far as links to them need that, side by side; and all clusters as far as the
/// extension needs that, if it is rendered.
pub async fn read_for_render(
    all: &Access,
    loaded: &LoadedFleet,
    with_extension: bool,
    timeout: Duration,
) -> RenderFacts {
    let clusters = loaded.fleet.clusters.iter().map(|cluster| &cluster.name);
    let used = clusters.filter(|name| with_extension || loaded.link_to(name).is_some());
    let reads = used.map(|name| async move {
        let read = Box::pin(async {
            let (access, cluster) = loaded.connect(all, name).await?;
            let installs = async {
                let read = with_extension.then(|| install_facts(loaded, &cluster));
                Some(told(read?.await))
            };
            Ok(futures::join!(
                target_if_linked(loaded, &cluster, &access, name),
                installs
            ))
        });
        (name.clone(), in_time(timeout, read).await)
    });
    let read: Vec<_> = stream::iter(reads)
        .buffer_unordered(SIDE_BY_SIDE)
        .collect()
        .await;
    let mut facts = RenderFacts::default();
    for (name, read) in read {
        let (target, install) = match read {
            Ok(read) => read,
            Err(why) => (
                loaded.link_to(&name).map(|_| Err(why.clone())),
                with_extension.then_some(Err(why)),
            ),
        };
        facts
            .targets
            .extend(target.map(|target| (name.clone(), target)));
        facts
            .installs
            .extend(install.map(|install| (name, install)));
    }
    facts
}

async fn install_facts(loaded: &LoadedFleet, cluster: &Cluster) -> anyhow::Result<InstallFacts> {
    let config = linkerd_config(cluster, &loaded.linkerd).await?;
    InstallFacts::read(cluster, config).await
}

/// What was read, or why it was not.
fn told<T>(read: anyhow::Result<T>) -> Result<T, String> {
    read.map_err(|error| format!("{error:#}"))
}

pub async fn in_time<T>(
    timeout: Duration,
    read: impl Future<Output = anyhow::Result<T>>,
) -> Result<T, String> {
    match tokio::time::timeout(timeout, read).await {
        Ok(read) => told(read),
        Err(_) => Err(format!("it was not read within {timeout:?}")),
    }
}

/// Clusters that are not in the file, and that the user names. What members of the fleet say about others is no reason to
/// connect to them.
fn left(
    loaded: &LoadedFleet,
    known: &KnownClusters<'_>,
    used: &UsedClusters,
) -> BTreeSet<ClusterName> {
    let renamed = renamed(loaded, known);
    let is_other = |name: &&ClusterName| !known.contains_key(name) && !renamed.contains_key(*name);
    used.names().filter(is_other).cloned().collect()
}

async fn read_some(
    loaded: &LoadedFleet,
    clusters: Vec<(ClusterName, Access)>,
    timeout: Duration,
) -> ReadClusters {
    let reads = clusters.into_iter().map(|(name, access)| async move {
        let read = in_time(timeout, Box::pin(read(loaded, &name, &access))).await;
        (name, read)
    });
    stream::iter(reads)
        .buffer_unordered(SIDE_BY_SIDE)
        .collect()
        .await
}

async fn read(
    loaded: &LoadedFleet,
    name: &ClusterName,
    access: &Access,
) -> anyhow::Result<ReadCluster> {
    let access = named(access, name)?;
    let cluster = Cluster::connect(&access).await?;
    let namespace = &loaded.namespace;
    let target = target_if_linked(loaded, &cluster, &access, name);
    let (uid, has_links, links, elsewhere, own, linkerds, accounts, target) = futures::join!(
        cluster.uid(),
        LINK.is_served(&cluster),
        KnownLinks::read(&cluster, namespace),
        links_elsewhere(&cluster, namespace),
        secrets(&cluster, namespace, labels::CREDENTIALS_TYPE),
        secrets(&cluster, &loaded.linkerd, labels::CREDENTIALS_TYPE),
        accounts(loaded, &cluster, name),
        target,
    );
    let KnownLinks { links, unreadable } = links?;
    let facts = ClusterFacts {
        uid,
        has_links: has_links?,
        links,
        unreadable,
        elsewhere: elsewhere?.unwrap_or_default(),
        credentials: own?.into_iter().chain(linkerds?).collect(),
        accounts: accounts?,
        target,
        destination: None,
    };
    Ok(ReadCluster { cluster, facts })
}

/// The accounts in a cluster that others may use.
pub async fn accounts(
    loaded: &LoadedFleet,
    cluster: &Cluster,
    name: &ClusterName,
) -> anyhow::Result<AccountFacts> {
    let namespace = &loaded.accounts;
    let (all, accounts) = (
        ListParams::default(),
        cluster.api::<ServiceAccount>(namespace),
    );
    let (lacks_namespace, tokens, accounts, roles, bindings) = futures::join!(
        lacks_namespace(loaded, cluster),
        token_secrets(cluster, namespace),
        cluster.request("list the ServiceAccounts", accounts.list(&all)),
        rules::<ClusterRole>(loaded, cluster, name),
        rules::<ClusterRoleBinding>(loaded, cluster, name),
    );
    let bindings = bindings?;
    Ok(AccountFacts {
        former: former(loaded, cluster, &bindings).await?,
        lacks_namespace: lacks_namespace?,
        accounts: accounts?.items,
        tokens: tokens?,
        requested: None,
        roles: roles?,
        bindings,
    })
}

/// Reads the accounts of other namespaces that bindings of the fleet are for.
async fn former(
    loaded: &LoadedFleet,
    cluster: &Cluster,
    bindings: &[ClusterRoleBinding],
) -> anyhow::Result<FormerAccounts> {
    let own = bindings.iter().filter(|of| is_of(*of, &loaded.fleet.name));
    let bound = own.flat_map(|binding| {
        let (name, binding) = (binding.name_any(), json!(binding));
        let others = namespaces(&binding).filter(|of| *of != loaded.accounts);
        let others = others.map(|namespace| (namespace.to_owned(), name.clone()));
        others.collect::<Vec<_>>()
    });
    let bound: BTreeSet<(String, String)> = bound.collect();
    let others: BTreeSet<&String> = bound.iter().map(|(namespace, _)| namespace).collect();
    let mut former = FormerAccounts::default();
    for namespace in others {
        let is_bound = |name: &str| bound.contains(&(namespace.clone(), name.to_owned()));
        let (all, api) = (
            ListParams::default(),
            cluster.api::<ServiceAccount>(namespace),
        );
        let (accounts, tokens) = futures::try_join!(
            cluster.request("list the ServiceAccounts", api.list(&all)),
            token_secrets(cluster, namespace),
        )?;
        let accounts = accounts.items.into_iter();
        former
            .accounts
            .extend(accounts.filter(|account| is_bound(&account.name_any())));
        let tokens = tokens.into_iter();
        former
            .tokens
            .extend(tokens.filter(|token| account_of(token).is_some_and(is_bound)));
    }
    Ok(former)
}

/// Whether the namespace of the accounts is missing. That of the Links is made with the extension. A user who may not read
/// it learns that from the API server, when an account is made.
async fn lacks_namespace(loaded: &LoadedFleet, cluster: &Cluster) -> anyhow::Result<bool> {
    if loaded.accounts == loaded.namespace {
        return Ok(false);
    }
    let namespaces = cluster.all::<Namespace>();
    let read = async {
        match namespaces.get_metadata_opt(&loaded.accounts).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
            answer => answer.map(|found| found.is_none()),
        }
    };
    cluster.request("read the Namespace", read).await
}

/// The ClusterRoles or bindings that the fleet has made, and others with the names that accounts of the file need.
/// Clusters have hundreds more, which are not read.
async fn rules<K>(
    loaded: &LoadedFleet,
    cluster: &Cluster,
    name: &ClusterName,
) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    let (api, kind) = (cluster.all::<K>(), K::kind(&()));
    let own = ListParams::default().labels(&format!("{}={}", labels::FLEET, loaded.fleet.name));
    let list = format!("list the {kind}s");
    let mut found = cluster.request(&list, api.list(&own)).await?.items;
    let sources = loaded.fleet.links.keys();
    let sources = sources.filter(|ends| ends.target == *name);
    let sources = sources.map(|ends| ends.source.to_string());
    let others = sources.filter(|source| !found.iter().any(|own| own.name_any() == *source));
    let others: Vec<String> = others.collect();
    let read = format!("read the {kind}");
    let others = others.iter().map(|other| {
        let found = api.get_opt(other);
        cluster.request(&read, found)
    });
    for other in side_by_side(others).await {
        found.extend(other?);
    }
    Ok(found)
}

/// The Secrets of a type.
pub async fn secrets(
    cluster: &Cluster,
    namespace: &str,
    of_type: &str,
) -> anyhow::Result<Vec<Secret>> {
    let (api, params) = (
        cluster.api::<Secret>(namespace),
        ListParams::default().fields(&format!("type={of_type}")),
    );
    let list = api.list(&params);
    Ok(cluster.request("list the Secrets", list).await?.items)
}

/// What links to this cluster need, if the file has some.
async fn target_if_linked(
    loaded: &LoadedFleet,
    cluster: &Cluster,
    access: &Access,
    name: &ClusterName,
) -> Option<Result<TargetSide, String>> {
    let link = loaded.link_to(name)?;
    Some(told(target(loaded, cluster, access, link).await))
}

async fn target(
    loaded: &LoadedFleet,
    cluster: &Cluster,
    access: &Access,
    link: &LoadedLink,
) -> anyhow::Result<TargetSide> {
    let (config, gateway, inside) = futures::try_join!(
        linkerd_config(cluster, &loaded.linkerd),
        gateway(cluster, &link.args),
        ApiServerFacts::read(cluster, &link.args),
    )?;
    let context = entry(access).context("cannot use its context")?;
    Ok(TargetSide {
        facts: LinkFacts {
            context,
            uid: Box::pin(cluster.uid()).await,
            flags: cluster.flags.clone(),
            config,
            gateway,
        },
        inside,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fleet::loaded::parse;

    fn object<T: DeserializeOwned>(value: serde_json::Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn member_cannot_make_the_user_connect_to_clusters_that_only_it_names() {
        let file = "name: f\nclusters: [{name: east}, {name: west}]\nlinks: [{mesh: all}]\n";
        let loaded = parse("fleet.yaml", file, Path::new(""), "linkerd").unwrap();
        let metadata = json!({ "name": "bank", "labels": { labels::FLEET: "f" } });
        let hostile = ClusterFacts {
            links: vec![object(
                json!({ "metadata": metadata, "spec": { "targetClusterName": "bank" } }),
            )],
            accounts: AccountFacts {
                accounts: vec![object(json!({ "metadata": metadata }))],
                roles: vec![object(json!({ "metadata": metadata, "rules": [] }))],
                ..AccountFacts::default()
            },
            ..ClusterFacts::default()
        };
        let [east, west, bank] = ["east", "west", "bank"].map(|name| name.parse().unwrap());
        let known = KnownClusters::from([(&east, Ok(&hostile)), (&west, Err("no answer"))]);
        let of = |used: &UsedClusters| left(&loaded, &known, used);
        assert_eq!(of(&UsedClusters::default()), BTreeSet::new());
        let named = UsedClusters::default().also([bank.clone()]);
        assert_eq!(of(&named), [bank].into());
    }
}
