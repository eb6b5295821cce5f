//! Reads the clusters of a fleet side by side. One that does not answer delays no other.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::Context as _;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::{
    core::v1::{Secret, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::api::ListParams;

use super::{
    facts::{AccountFacts, ClusterFacts, TargetSide},
    loaded::{LoadedFleet, LoadedLink, named},
};
use crate::{
    api::labels,
    cli::{
        common::{
            args::Global, cluster::Cluster, cluster_name::context_of, inventory::LINK,
            linked::links,
        },
        link_gen::{ApiServerFacts, LinkFacts, entry, gateway},
    },
    client::Access,
    manifests::link::ClusterName,
};

/// Number of clusters that are read at the same time.
const SIDE_BY_SIDE: usize = 16;

/// A cluster that was read.
pub(super) struct ReadCluster {
    pub(super) cluster: Cluster,
    pub(super) facts: ClusterFacts,
}

/// What is known of the clusters, by their names; an error says why nothing is.
pub(super) type ReadClusters = BTreeMap<ClusterName, Result<ReadCluster, String>>;

/// Reads all clusters of the file, and those that are not in it any more and have a context.
pub(super) async fn read_all(
    global: &Global,
    loaded: &LoadedFleet,
    timeout: Duration,
) -> ReadClusters {
    let all = global.access();
    let wanted = loaded.fleet.clusters.iter();
    let wanted = wanted.map(|cluster| (cluster.name.clone(), loaded.access(&all, cluster)));
    let mut read = read_some(loaded, wanted.collect(), timeout).await;
    let left = left(loaded, &read);
    let contexts = all.kubeconfig().map(|all| all.contexts).unwrap_or_default();
    let contexts = contexts.iter().map(|context| context.name.as_str());
    let left = left.into_iter().filter_map(|name| {
        let context = context_of(&name.to_string(), contexts.clone()).ok()?;
        Some((name, all.with_context(context)))
    });
    let left = read_some(loaded, left.collect(), timeout).await;
    read.extend(left);
    read
}

/// Clusters that are not in the file, and that the fleet has linked.
fn left(loaded: &LoadedFleet, read: &ReadClusters) -> BTreeSet<ClusterName> {
    let known = read.values().filter_map(|read| read.as_ref().ok());
    let named = known.flat_map(|read| read.facts.named(&loaded.fleet.name));
    let named = named.filter_map(|name| name.parse::<ClusterName>().ok());
    named.filter(|name| !read.contains_key(name)).collect()
}

async fn read_some(
    loaded: &LoadedFleet,
    clusters: Vec<(ClusterName, Access)>,
    timeout: Duration,
) -> ReadClusters {
    let reads = clusters.into_iter().map(|(name, access)| async move {
        let read = Box::pin(read(loaded, &name, &access));
        let read = match tokio::time::timeout(timeout, read).await {
            Ok(read) => read.map_err(|error| format!("{error:#}")),
            Err(_) => Err(format!("it was not read within {timeout:?}")),
        };
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
    let (of_links, of_tokens) = (
        format!("type={}", labels::CREDENTIALS_TYPE),
        format!("type={}", labels::SERVICE_ACCOUNT_TOKEN_TYPE),
    );
    let secrets = async |namespace: &str, fields: &str| {
        let (api, params) = (
            cluster.api::<Secret>(namespace),
            ListParams::default().fields(fields),
        );
        cluster.request("list the Secrets", api.list(&params)).await
    };
    let all = ListParams::default();
    let accounts = cluster.api::<ServiceAccount>(namespace);
    let (roles, bindings) = (
        cluster.all::<ClusterRole>(),
        cluster.all::<ClusterRoleBinding>(),
    );
    let target = async {
        match loaded.link_to(name) {
            Some(link) => Some(
                target(loaded, &cluster, &access, link)
                    .await
                    .map_err(|error| format!("{error:#}")),
            ),
            None => None,
        }
    };
    let (has_links, links, own, linkerds, tokens, accounts, roles, bindings, target) = futures::join!(
        LINK.is_served(&cluster),
        links(&cluster, namespace),
        secrets(namespace, &of_links),
        secrets(&loaded.linkerd, &of_links),
        secrets(namespace, &of_tokens),
        cluster.request("list the ServiceAccounts", accounts.list(&all)),
        cluster.request("list the ClusterRoles", roles.list(&all)),
        cluster.request("list the ClusterRoleBindings", bindings.list(&all)),
        target,
    );
    let facts = ClusterFacts {
        has_links: has_links?,
        links: links?,
        credentials: own?.items.into_iter().chain(linkerds?.items).collect(),
        accounts: AccountFacts {
            accounts: accounts?.items,
            tokens: tokens?.items,
            roles: roles?.items,
            bindings: bindings?.items,
        },
        target,
    };
    Ok(ReadCluster { cluster, facts })
}

async fn target(
    loaded: &LoadedFleet,
    cluster: &Cluster,
    access: &Access,
    link: &LoadedLink,
) -> anyhow::Result<TargetSide> {
    let (config, gateway, inside) = futures::try_join!(
        cluster.linkerd_config(&loaded.linkerd),
        gateway(cluster, &link.args),
        ApiServerFacts::read(cluster, &link.args),
    )?;
    let context = entry(access).context("cannot use its context")?;
    Ok(TargetSide {
        facts: LinkFacts {
            context,
            flags: cluster.flags.clone(),
            config,
            gateway,
        },
        inside,
    })
}
