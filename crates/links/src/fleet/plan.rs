//! What a fleet needs in each of its clusters. Pure.

use std::collections::{BTreeMap, BTreeSet};

use hints::console::Console;
use jiff::Timestamp;
use kube::ResourceExt as _;
use manifests::{kubeconfig::Secret, link::ClusterName};
use mirror_core::api::link::Link;
use serde::Serialize;

use crate::{
    fleet::{
        deletions::ClusterRemoval,
        facts::{ClusterFacts, fleet_of},
        hand_over::HandOvers,
        link_plan::LinkCase,
        loaded::{LoadedFleet, LoadedLink},
        part::{LinkPart, UsedClusters},
        part_plan::{NotDone, PartCase},
        recorded::renamed,
        remaining::RemainingStep,
        removal::{KnownClusters, removal},
    },
    fleet_file::LinkEnds,
    link::remark::Remark,
    steps::{Action, LinkStep},
};

/// What would be written in all clusters.
#[derive(Debug, Default, Serialize)]
pub struct FleetPlan {
    pub fleet: String,
    pub clusters: Vec<ClusterPlan>,
    /// Steps for the owners of other clusters, in this order.
    pub remaining: Vec<RemainingStep>,
    /// Clusters of the file that are not used.
    #[serde(rename = "notUsed")]
    pub not_used: Vec<String>,
    /// What the user has to know about the links, by their target clusters.
    #[serde(skip)]
    pub remarks: BTreeSet<(ClusterName, Remark)>,
    /// The accounts of links that are planned in both of their clusters.
    #[serde(skip)]
    pub accounts: BTreeMap<LinkEnds, PlannedAccount>,
    /// When the plan was made.
    #[serde(skip)]
    pub now: Timestamp,
}

/// The account with whose token a link is made.
#[derive(Debug)]
pub struct PlannedAccount {
    pub name: String,
    /// Its token, if it has one already.
    pub token: Option<Secret>,
}

/// What would be written in one cluster.
#[derive(Debug, Default, Serialize)]
pub struct ClusterPlan {
    pub name: String,
    /// Why it is not known.
    pub error: Option<String>,
    #[serde(rename = "changes")]
    pub steps: Vec<LinkStep>,
    /// What cannot be done, and why.
    pub problems: BTreeSet<String>,
    /// What the file does not name any more, and stays without --prune.
    pub unwanted: Vec<LinkStep>,
    /// What is not done, because clusters that it needs are not used.
    #[serde(rename = "notDone")]
    pub not_done: Vec<String>,
}

/// Links of other files with the name of this one, which are never deleted.
fn of_namesakes(loaded: &LoadedFleet, name: &ClusterName, facts: &ClusterFacts) -> Vec<String> {
    let own = loaded.fleet.name.as_str();
    let plain = |fleet: &str| fleet.split('.').next().map(str::to_owned);
    let links = facts.links.iter();
    let links = links.filter(|link| !loaded.wants(name, &link.spec.target_cluster_name));
    let stays = links.filter_map(|link| {
        let other = fleet_of(link).filter(|other| *other != own && plain(other) == plain(own))?;
        Some(format!(
            "the Link {} stays: it belongs to the fleet {other}, another file with this name",
            link.name_any()
        ))
    });
    stays.collect()
}

impl ClusterPlan {
    /// The number of steps that do more than to note to whom an object belongs.
    pub fn differing(&self) -> usize {
        self.steps.iter().filter(|step| !step.is_note()).count()
    }
}

impl FleetPlan {
    /// Plans the links of a file, and the removal of what is not in it any more, in the clusters that are used.
    pub fn of(
        loaded: &LoadedFleet,
        known: &KnownClusters<'_>,
        used: &UsedClusters,
        now: Timestamp,
    ) -> Self {
        let mut planning = Planning::new(loaded, known, used, now);
        for link in &loaded.links {
            match LinkPart::of(&link.ends, used) {
                Some(LinkPart::Whole) => planning.whole(link),
                Some(part) => planning.part(link, part),
                None => {}
            }
        }
        planning.removals();
        planning.done()
    }

    /// Says what the user has to know about the links.
    pub fn say_remarks(&self, console: &dyn Console) {
        for (target, remark) in &self.remarks {
            remark.say_of(console, &target.to_string());
        }
    }

    /// All steps.
    fn steps(&self) -> impl Iterator<Item = &LinkStep> {
        self.clusters.iter().flat_map(|cluster| &cluster.steps)
    }

    /// The steps in one cluster; `None` if it is not used, or not known.
    pub fn steps_in(&self, cluster: &ClusterName) -> Option<&[LinkStep]> {
        let cluster = cluster.to_string();
        let mut clusters = self.clusters.iter();
        let plan = clusters.find(|plan| plan.name == cluster)?;
        Some(&plan.steps)
    }

    /// The Links whose settings change, as they will be, with their source clusters.
    pub fn changed(&self) -> impl Iterator<Item = (&str, &Link)> {
        let clusters = self.clusters.iter();
        let steps = clusters.flat_map(|plan| plan.steps.iter().map(move |step| (plan, step)));
        steps.filter_map(|(plan, step)| match &step.action {
            Action::Link { old: Some(_), new } => Some((plan.name.as_str(), &**new)),
            _ => None,
        })
    }

    /// The number of steps with this verb.
    pub fn count(&self, verb: &str) -> usize {
        self.steps().filter(|step| step.change.verb == verb).count()
    }

    /// Whether settings of an existing object would change, or an object would go.
    pub fn is_destructive(&self) -> bool {
        let is_destructive =
            |step: &LinkStep| step.deleted().is_some() || !step.change.fields.is_empty();
        self.steps().any(is_destructive)
    }

    /// The clusters in which Linkerd's Secrets get other credentials or domains. Linkerd reads a Secret once.
    pub fn outdates_linkerd(&self, linkerd: &str) -> Vec<&str> {
        let is_renewed = |step: &LinkStep| {
            matches!(step.action, Action::Renew(_)) && step.change.namespace == linkerd
        };
        let clusters = self.clusters.iter();
        let clusters = clusters.filter(|cluster| cluster.steps.iter().any(is_renewed));
        clusters.map(|cluster| cluster.name.as_str()).collect()
    }

    /// The links that take the place of others, whose clusters have new names.
    pub fn successors(&self) -> BTreeSet<LinkEnds> {
        let clusters = self.clusters.iter();
        let steps = clusters.flat_map(|plan| plan.steps.iter().map(move |of| (plan, of)));
        let ends = steps.filter_map(|(plan, step)| {
            Some(LinkEnds {
                source: plan.name.parse().ok()?,
                target: step.change.replaced_by.as_ref()?.parse().ok()?,
            })
        });
        ends.collect()
    }

    /// The number of objects that the file does not name any more, and that stay.
    pub fn stays(&self) -> usize {
        let clusters = self.clusters.iter();
        clusters.map(|cluster| cluster.unwanted.len()).sum()
    }

    /// The number of Links that would be deleted.
    pub fn unlinks(&self) -> usize {
        self.steps().filter(|step| step.unlinks()).count()
    }

    /// Whether there is something to do.
    pub fn is_pending(&self) -> bool {
        self.steps().next().is_some()
    }

    /// Whether something is not known, or cannot be done.
    pub fn has_problems(&self) -> bool {
        let mut clusters = self.clusters.iter();
        clusters.any(|cluster| cluster.error.is_some() || !cluster.problems.is_empty())
    }
}

/// A plan that is being made.
struct Planning<'p> {
    loaded: &'p LoadedFleet,
    known: &'p KnownClusters<'p>,
    used: &'p UsedClusters,
    now: Timestamp,
    clusters: BTreeMap<&'p ClusterName, ClusterPlan>,
    /// What is not done in a cluster, with the other clusters that it needs.
    not_done: BTreeMap<(&'p ClusterName, NotDone), BTreeSet<String>>,
    remarks: BTreeSet<(ClusterName, Remark)>,
    accounts: BTreeMap<LinkEnds, PlannedAccount>,
    hand_overs: HandOvers,
}

impl<'p> Planning<'p> {
    fn new(
        loaded: &'p LoadedFleet,
        known: &'p KnownClusters<'p>,
        used: &'p UsedClusters,
        now: Timestamp,
    ) -> Self {
        let clusters = known.iter().map(|(name, facts)| {
            let plan = ClusterPlan {
                name: name.to_string(),
                error: facts.as_ref().err().map(|why| (*why).to_owned()),
                ..ClusterPlan::default()
            };
            (*name, plan)
        });
        Self {
            loaded,
            known,
            used,
            now,
            clusters: clusters.collect(),
            not_done: BTreeMap::new(),
            remarks: BTreeSet::new(),
            accounts: BTreeMap::new(),
            hand_overs: HandOvers::default(),
        }
    }

    /// Plans a link in both of its clusters.
    fn whole(&mut self, link: &'p LoadedLink) {
        let (source, target) = (&link.ends.source, &link.ends.target);
        let (Some(Ok(of_source)), Some(Ok(of_target))) =
            (self.known.get(source), self.known.get(target))
        else {
            return; // the cluster that was not read says why
        };
        let case = LinkCase {
            loaded: self.loaded,
            link,
            source: of_source,
            target: of_target,
            now: self.now,
        };
        match case.plan(&of_target.accounts) {
            Ok(plan) => {
                let remarks = plan.remarks.into_iter();
                self.remarks
                    .extend(remarks.map(|remark| (target.clone(), remark)));
                self.add(target, plan.account);
                self.add(source, plan.source);
                let account = PlannedAccount {
                    name: plan.name,
                    token: plan.token,
                };
                self.accounts.insert(link.ends.clone(), account);
            }
            Err(obstacle) => {
                if let Some(cluster) = self.clusters.get_mut(&obstacle.cluster) {
                    cluster.problems.insert(obstacle.why);
                }
            }
        }
    }

    /// Plans what can be done for a link in the one of its clusters that is used.
    fn part(&mut self, link: &'p LoadedLink, part: LinkPart) {
        let (source, target) = (&link.ends.source, &link.ends.target);
        let (own, other) = match part {
            LinkPart::Target => (target, source),
            _ => (source, target),
        };
        let Some(Ok(facts)) = self.known.get(own) else {
            return; // it says why
        };
        let case = PartCase {
            loaded: self.loaded,
            link,
            facts,
        };
        match case.plan(part) {
            Ok(plan) => {
                self.add(own, plan.writes);
                for what in plan.not_done {
                    let others = self.not_done.entry((own, what)).or_default();
                    others.insert(other.to_string());
                }
                if plan.needs_credentials {
                    self.hand_overs.credentials(source, target);
                    if part == LinkPart::Source {
                        self.hand_overs.accounts(target);
                    }
                }
            }
            Err(why) => {
                let cluster = self.clusters.entry(own).or_default();
                cluster.problems.insert(why);
            }
        }
    }

    fn add(&mut self, cluster: &'p ClusterName, steps: Vec<LinkStep>) {
        self.clusters
            .entry(cluster)
            .or_default()
            .steps
            .extend(steps);
    }

    /// Plans the removal of what is not in the file.
    fn removals(&mut self) {
        let renamed = renamed(self.loaded, self.known);
        for (name, cluster) in &mut self.clusters {
            let ClusterRemoval {
                steps,
                problems,
                targets,
                sources,
                not_done,
            } = removal(self.loaded, name, self.known, self.used, &renamed);
            if let Some(Ok(facts)) = self.known.get(*name) {
                cluster
                    .not_done
                    .extend(of_namesakes(self.loaded, name, facts));
            }
            if self.loaded.consent.prunes.is_none() {
                let stays = steps.into_iter().filter(|step| step.deleted().is_some());
                cluster.unwanted.extend(stays);
                continue;
            }
            cluster.not_done.extend(not_done);
            cluster.steps.extend(steps);
            cluster.problems.extend(problems);
            for target in &targets {
                self.hand_overs.unused_accounts(target);
            }
            for source in &sources {
                self.hand_overs.revoked(source, name);
                let stays = (*name, NotDone::AccountRemoval);
                let others = self.not_done.entry(stays).or_default();
                others.insert(source.to_string());
            }
        }
    }

    fn done(mut self) -> FleetPlan {
        for ((cluster, what), others) in self.not_done {
            let plan = self.clusters.entry(cluster).or_default();
            plan.not_done.push(what.text(&others));
        }
        let names = self.loaded.fleet.clusters.iter();
        let names = names.map(|cluster| &cluster.name);
        let not_used = names.filter(|name| !self.used.contains(name));
        FleetPlan {
            fleet: self.loaded.fleet.name.clone(),
            clusters: self.clusters.into_values().collect(),
            remaining: self.hand_overs.steps(self.loaded),
            not_used: not_used.map(ToString::to_string).collect(),
            remarks: self.remarks,
            accounts: self.accounts,
            now: self.now,
        }
    }
}
