//! `fleet apply`: writes what the plan of a fleet shows.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use anyhow::anyhow;
use client::Cluster;
use futures::{StreamExt as _, stream};
use hints::{console::Console, hint::fail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use manifests::link::ClusterName;

use crate::{
    fleet::{
        facts::AccountFacts,
        gather::{ReadCluster, ReadClusters},
        link_plan::{LinkCase, LinkPlan},
        loaded::{LoadedFleet, LoadedLink},
        plan::{FleetPlan, PlannedAccount},
    },
    fleet_file::LinkEnds,
    link_credentials::TokenAccount,
    rotate::tokens::Tokens,
    steps::{LinkStep, StepPart},
};

/// Number of links that are written at the same time.
const SIDE_BY_SIDE: usize = 16;

/// What was done, and what could not be.
#[derive(Debug, Default)]
pub struct FleetOutcome {
    /// Number of objects that were written.
    pub written: usize,
    /// The links whose Links or credentials were written.
    pub links: BTreeSet<LinkEnds>,
    /// What failed, one line each.
    pub failed: Vec<String>,
}

/// The steps of one link: those of its account in the target cluster, and those in the source cluster.
struct LinkSteps<'s> {
    link: &'s LoadedLink,
    account: Vec<&'s LinkStep>,
    source: Vec<&'s LinkStep>,
}

impl<'s> LinkSteps<'s> {
    /// `None` if there are none.
    fn of(link: &'s LoadedLink, plan: &'s FleetPlan) -> Option<Self> {
        let writes =
            |cluster: &ClusterName, is_own: &dyn Fn(&StepPart) -> bool| -> Vec<&'s LinkStep> {
                let steps = plan.steps_in(cluster).into_iter().flatten();
                let writes = steps.filter(|step| step.deleted().is_none() && is_own(&step.part));
                writes.collect()
            };
        let [source, target] = [&link.ends.source, &link.ends.target].map(ToString::to_string);
        let steps = Self {
            link,
            account: writes(&link.ends.target, &|part| {
                *part == StepPart::Account(source.clone())
            }),
            source: writes(&link.ends.source, &|part| part.target() == Some(&target)),
        };
        let is_empty = steps.account.is_empty() && steps.source.is_empty();
        (!is_empty).then_some(steps)
    }

    /// The cluster under whose name progress is shown, and what of it.
    fn shown_for(&self, plan: &FleetPlan) -> (&'s ClusterName, &'static str) {
        match plan.steps_in(&self.link.ends.source) {
            Some(_) => (&self.link.ends.source, "links"),
            None => (&self.link.ends.target, "accounts"),
        }
    }

    /// Runs them. Returns the number of objects in the source cluster.
    async fn run(
        &self,
        loaded: &LoadedFleet,
        read: &ReadClusters,
        plan: &FleetPlan,
    ) -> anyhow::Result<usize> {
        let ends = &self.link.ends;
        let (source, target) = (of(read, &ends.source), of(read, &ends.target));
        if let Some(target) = target {
            for step in &self.account {
                step.run(&target.cluster).await?;
            }
        }
        let Some(source) = source else { return Ok(0) };
        let (Some(target), Some(account)) = (target, plan.accounts.get(ends)) else {
            return run_all(self.source.iter().copied(), source).await;
        };
        let made_now = match &account.token {
            Some(_) => None,
            None => Some(
                self.with_new_token(loaded, (source, target), account, plan.now)
                    .await?,
            ),
        };
        let token = account.token.as_ref();
        let token = token.or_else(|| made_now.as_ref()?.token.as_ref());
        if let (Some(token), Some(Ok(side))) = (token, &target.facts.target)
            && !self.source.is_empty()
        {
            let link = self.link.with_account(&account.name);
            link.check_way(side, token, target.cluster.console).await?;
        }
        match &made_now {
            Some(planned) => run_all(planned.source.iter(), source).await,
            None => run_all(self.source.iter().copied(), source).await,
        }
    }

    /// Plans the link again when its account, which was just made, has its token. Fails if other objects would be written
    /// than those that were shown.
    async fn with_new_token(
        &self,
        loaded: &LoadedFleet,
        (source, target): (&ReadCluster, &ReadCluster),
        account: &PlannedAccount,
        now: Timestamp,
    ) -> anyhow::Result<LinkPlan> {
        let known = &target.facts.accounts;
        let made = account_of(&target.cluster, loaded, &account.name, known).await?;
        let case = LinkCase {
            loaded,
            link: self.link,
            source: &source.facts,
            target: &target.facts,
            now,
        };
        let plan = case.plan(&made).map_err(|obstacle| anyhow!(obstacle.why))?;
        let is_shown = |step: &LinkStep| {
            let mut shown = self.source.iter();
            shown.any(|shown| shown.change.is_same_object(&step.change))
        };
        match plan.source.iter().find(|step| !is_shown(step)) {
            None => Ok(plan),
            Some(LinkStep { change, .. }) => Err(fail(
                format!(
                    "with the new token, the {} {} would change too, which the plan does not show",
                    change.kind, change.name
                ),
                "run the same command again, which shows it",
            )),
        }
    }
}

/// Runs steps in one cluster, and counts them.
async fn run_all<'s>(
    steps: impl Iterator<Item = &'s LinkStep>,
    read: &ReadCluster,
) -> anyhow::Result<usize> {
    let mut count = 0;
    for step in steps {
        step.run(&read.cluster).await?;
        count += 1;
    }
    Ok(count)
}

/// What was read of a cluster.
fn of<'r>(read: &'r ReadClusters, name: &ClusterName) -> Option<&'r ReadCluster> {
    read.get(name)?.as_ref().ok()
}

/// Runs the steps of all links side by side. One that fails delays no other.
pub async fn write_links(
    loaded: &LoadedFleet,
    read: &ReadClusters,
    plan: &FleetPlan,
    console: &dyn Console,
) -> FleetOutcome {
    let links = loaded.links.iter();
    let all = links.filter_map(|link| LinkSteps::of(link, plan));
    let all: Vec<LinkSteps<'_>> = all.collect();
    let mut waiting: BTreeMap<&ClusterName, (usize, usize)> = BTreeMap::new();
    for steps in &all {
        waiting.entry(steps.shown_for(plan).0).or_default().0 += 1;
    }
    let (waiting, outcome) = (RefCell::new(waiting), RefCell::new(FleetOutcome::default()));
    let writes = all.iter().map(|steps| {
        let (waiting, outcome) = (&waiting, &outcome);
        async move {
            let done = Box::pin(steps.run(loaded, read, plan)).await;
            let ends = &steps.link.ends;
            let mut outcome = outcome.borrow_mut();
            let mut waiting = waiting.borrow_mut();
            let (cluster, what) = steps.shown_for(plan);
            let (left, written) = waiting.entry(cluster).or_default();
            *left -= 1;
            match done {
                Ok(in_source) => {
                    let in_target = steps.account.len();
                    *written += if what == "accounts" {
                        in_target
                    } else {
                        in_source
                    };
                    outcome.written += in_source + in_target;
                    if in_source > 0 {
                        outcome.links.insert(ends.clone());
                    }
                }
                Err(error) => outcome.failed.push(format!("{ends}: {error:#}")),
            }
            if *left == 0 && *written > 0 {
                console.note(&format!(
                    "{cluster}: {written} objects of its {what} written"
                ));
            }
        }
    });
    stream::iter(writes)
        .buffer_unordered(SIDE_BY_SIDE)
        .collect::<Vec<()>>()
        .await;
    outcome.into_inner()
}

/// The `known` accounts with one that was made a moment ago, and a new token of it.
pub async fn account_of(
    cluster: &Cluster,
    loaded: &LoadedFleet,
    name: &str,
    known: &AccountFacts,
) -> anyhow::Result<AccountFacts> {
    let namespace = &loaded.accounts;
    let accounts = cluster.api::<ServiceAccount>(namespace);
    let account = cluster
        .request("read the ServiceAccount", accounts.get(name))
        .await?;
    let of = TokenAccount::named(namespace, name);
    let tokens = Tokens::of(cluster, &of, None, Some(loaded.fleet.name.clone()));
    let token = tokens.obtain(&tokens.list().await?).await?;
    Ok(known.with(account, token))
}
