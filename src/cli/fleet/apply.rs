//! `fleet apply`: writes what the plan of a fleet shows.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{
    Resource,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    change::{PlannedWrite, WriteAction},
    facts::AccountFacts,
    gather::{ReadCluster, ReadClusters},
    link_plan::LinkCase,
    loaded::{LoadedFleet, LoadedLink},
    part::{LinkPart, UsedClusters},
    part_plan::PartCase,
};
use crate::{
    api::{labels, link::Link},
    cli::{
        common::{
            cluster::Cluster,
            inventory, output,
            wait::{POLL_INTERVAL, poll},
        },
        link::{changes::check_stored, write as write_link},
    },
    fleet::LinkEnds,
    hint::fail,
    manifests::link::ClusterName,
    timing,
};

/// Number of links that are written at the same time.
const SIDE_BY_SIDE: usize = 16;
/// How long to wait for the token of a new account.
const TOKEN_WAIT: Duration = Duration::from_secs(30);

/// What was done, and what could not be.
#[derive(Debug, Default)]
pub(super) struct FleetOutcome {
    /// Number of objects that were written.
    pub(super) written: usize,
    /// The links whose Links or credentials were written.
    pub(super) links: BTreeSet<LinkEnds>,
    /// What failed, one line each.
    pub(super) failed: Vec<String>,
}

/// What can be written for a link, with the clusters that it needs.
enum LinkWork<'w> {
    Whole(&'w LoadedLink, [&'w ReadCluster; 2]),
    Part(&'w LoadedLink, LinkPart, &'w ReadCluster),
}

impl<'w> LinkWork<'w> {
    /// `None` if there is nothing, or a cluster was not read.
    fn of(link: &'w LoadedLink, read: &'w ReadClusters, used: &UsedClusters) -> Option<Self> {
        let of = |name| read.get(name)?.as_ref().ok();
        let (source, target) = (&link.ends.source, &link.ends.target);
        Some(match LinkPart::of(&link.ends, used)? {
            LinkPart::Whole => Self::Whole(link, [of(source)?, of(target)?]),
            part @ LinkPart::Source => Self::Part(link, part, of(source)?),
            part @ LinkPart::Target => Self::Part(link, part, of(target)?),
        })
    }

    fn link(&self) -> &'w LoadedLink {
        match self {
            Self::Whole(link, _) | Self::Part(link, ..) => link,
        }
    }

    /// The cluster under whose name progress is shown.
    fn shown_for(&self) -> &'w ClusterName {
        let ends = &self.link().ends;
        match self {
            Self::Part(_, LinkPart::Target, _) => &ends.target,
            _ => &ends.source,
        }
    }

    async fn write(&self, loaded: &LoadedFleet) -> anyhow::Result<WrittenLink> {
        match self {
            Self::Whole(link, [source, target]) => write_link(loaded, link, source, target).await,
            Self::Part(link, part, cluster) => write_part(loaded, link, *part, cluster).await,
        }
    }
}

/// Writes all links side by side, in the clusters that are used. One that fails delays no other.
pub(super) async fn write_links(
    loaded: &LoadedFleet,
    read: &ReadClusters,
    used: &UsedClusters,
) -> FleetOutcome {
    let links = loaded.links.iter();
    let all = links.filter_map(|link| LinkWork::of(link, read, used));
    let all: Vec<LinkWork<'_>> = all.collect();
    let mut waiting: BTreeMap<&ClusterName, (usize, usize)> = BTreeMap::new();
    for work in &all {
        waiting.entry(work.shown_for()).or_default().0 += 1;
    }
    let (waiting, outcome) = (RefCell::new(waiting), RefCell::new(FleetOutcome::default()));
    let writes = all.iter().map(|work| {
        let (waiting, outcome) = (&waiting, &outcome);
        async move {
            let done = Box::pin(work.write(loaded)).await;
            let ends = &work.link().ends;
            let mut outcome = outcome.borrow_mut();
            let mut waiting = waiting.borrow_mut();
            let (left, written) = waiting.entry(work.shown_for()).or_default();
            *left -= 1;
            match done {
                Ok(done) => {
                    *written += match work {
                        LinkWork::Part(_, LinkPart::Target, _) => done.in_target,
                        _ => done.in_source,
                    };
                    outcome.written += done.in_source + done.in_target;
                    if done.in_source > 0 {
                        outcome.links.insert(ends.clone());
                    }
                }
                Err(error) => outcome.failed.push(format!("{ends}: {error:#}")),
            }
            if *left == 0 && *written > 0 {
                let of = match work {
                    LinkWork::Part(_, LinkPart::Target, _) => "accounts",
                    _ => "links",
                };
                let cluster = work.shown_for();
                output::note(&format!("{cluster}: {written} objects of its {of} written"));
            }
        }
    });
    stream::iter(writes)
        .buffer_unordered(SIDE_BY_SIDE)
        .collect::<Vec<()>>()
        .await;
    outcome.into_inner()
}

/// Writes what can be written with one cluster of a link.
async fn write_part(
    loaded: &LoadedFleet,
    link: &LoadedLink,
    part: LinkPart,
    read: &ReadCluster,
) -> anyhow::Result<WrittenLink> {
    let case = PartCase {
        loaded,
        link,
        facts: &read.facts,
    };
    let mut written = WrittenLink::default();
    let Ok(plan) = case.plan(part) else {
        return Ok(written); // the plan has said why
    };
    for planned in &plan.writes {
        write(&read.cluster, &loaded.fleet.name, planned).await?;
    }
    let count = match part {
        LinkPart::Target => &mut written.in_target,
        _ => &mut written.in_source,
    };
    *count = plan.writes.len();
    Ok(written)
}

/// How many objects were written for a link.
#[derive(Default)]
struct WrittenLink {
    in_target: usize,
    in_source: usize,
}

async fn write_link(
    loaded: &LoadedFleet,
    link: &LoadedLink,
    source: &ReadCluster,
    target: &ReadCluster,
) -> anyhow::Result<WrittenLink> {
    let case = LinkCase {
        loaded,
        link,
        source: &source.facts,
        target: &target.facts,
        now: timing::now(),
    };
    let Ok(mut plan) = case.plan(&target.facts.accounts) else {
        return Ok(WrittenLink::default()); // the plan has said why
    };
    let account = case.account(&target.facts.accounts).name;
    for planned in &plan.account {
        write(&target.cluster, &loaded.fleet.name, planned).await?;
    }
    let in_target = plan.account.len();
    if plan.token.is_none() {
        let known = &target.facts.accounts;
        let made = account_of(&target.cluster, &loaded.namespace, &account, known).await?;
        plan = case
            .plan(&made)
            .map_err(|obstacle| anyhow::anyhow!(obstacle.why))?;
    }
    if let (Some(token), Some(Ok(side)), false) =
        (&plan.token, &target.facts.target, plan.source.is_empty())
    {
        let link = link.with_account(&account);
        link.check_way(side, token).await?;
    }
    for planned in &plan.source {
        write(&source.cluster, &loaded.fleet.name, planned).await?;
    }
    Ok(WrittenLink {
        in_target,
        in_source: plan.source.len(),
    })
}

/// The `known` accounts with one that was made a moment ago, when it has its token.
pub(super) async fn account_of(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    known: &AccountFacts,
) -> anyhow::Result<AccountFacts> {
    let accounts = cluster.api::<ServiceAccount>(namespace);
    let account = cluster
        .request("read the ServiceAccount", accounts.get(name))
        .await?;
    let secrets = cluster.api::<Secret>(namespace);
    let secret = format!("{name}-token");
    let attempt = async || {
        let read = cluster
            .request("read the token Secret", secrets.get(&secret))
            .await?;
        let token = read.data.as_ref().and_then(|data| data.get("token"));
        let is_filled = token.is_some_and(|token| !token.0.is_empty());
        anyhow::Ok(if is_filled { Ok(read) } else { Err(()) })
    };
    let token = poll(POLL_INTERVAL, TOKEN_WAIT, attempt, |()| ()).await?;
    let token = token.map_err(|()| {
        fail(
            format!("the Secret {namespace}/{secret} has no token yet"),
            "check that kube-controller-manager, which adds the token, is running",
        )
    })?;
    Ok(known.with(account, token))
}

pub(super) async fn write(
    cluster: &Cluster,
    fleet: &str,
    planned: &PlannedWrite,
) -> anyhow::Result<()> {
    let (namespace, name) = (&planned.change.namespace, &planned.change.name);
    match &planned.action {
        WriteAction::Apply(object) => inventory::apply(cluster, object).await.map(|_| ()),
        WriteAction::Link { old, new } => {
            let stored = write_link::write(cluster, old.as_deref(), new).await?;
            check_stored(&stored, new)
        }
        WriteAction::Note { uid } => {
            let mut patch = json!({ "metadata": { "labels": { labels::FLEET: fleet } } });
            if let Some(uid) = uid {
                patch["metadata"]["annotations"] = json!({ labels::CLUSTER_UID: uid });
            }
            match planned.change.kind.as_str() {
                "Link" => merge::<Link>(cluster, namespace, name, &patch).await,
                _ => merge::<Secret>(cluster, namespace, name, &patch).await,
            }
        }
    }
}

async fn merge<K>(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    patch: &serde_json::Value,
) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
{
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    let api = cluster.api::<K>(namespace);
    let what = format!("change {} {name}", K::kind(&()));
    cluster
        .request(&what, api.patch(name, &params, &patch))
        .await?;
    Ok(())
}
