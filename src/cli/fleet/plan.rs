//! What a fleet needs in each of its clusters. Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::{
    change::{FleetChange, NEW_CREDENTIALS, TAKEN_OVER},
    link_plan::LinkCase,
    loaded::LoadedFleet,
    removal::{KnownClusters, removal},
};
use crate::{cli::link_gen::Remark, manifests::link::ClusterName};

/// What would be written in all clusters.
#[derive(Debug, Default, Serialize)]
pub(super) struct FleetPlan {
    pub(super) fleet: String,
    pub(super) clusters: Vec<ClusterPlan>,
    /// What the user has to know about the links, by their target clusters.
    #[serde(skip)]
    pub(super) remarks: BTreeSet<(ClusterName, Remark)>,
}

/// What would be written in one cluster.
#[derive(Debug, Default, Serialize)]
pub(super) struct ClusterPlan {
    pub(super) name: String,
    /// Why it is not known.
    pub(super) error: Option<String>,
    pub(super) changes: Vec<FleetChange>,
    /// What cannot be done, and why.
    pub(super) problems: BTreeSet<String>,
}

impl ClusterPlan {
    /// The number of changes that do more than to label what is there.
    pub(super) fn differing(&self) -> usize {
        let changes = self.changes.iter();
        changes.filter(|change| change.why != TAKEN_OVER).count()
    }
}

impl FleetPlan {
    /// Plans the links of a file, and the removal of what is not in it any more.
    pub(super) fn of(loaded: &LoadedFleet, known: &KnownClusters<'_>, now: Timestamp) -> Self {
        let mut clusters: BTreeMap<&ClusterName, ClusterPlan> = known
            .iter()
            .map(|(name, facts)| {
                let plan = ClusterPlan {
                    name: name.to_string(),
                    error: facts.as_ref().err().map(|why| (*why).to_owned()),
                    ..ClusterPlan::default()
                };
                (*name, plan)
            })
            .collect();
        let mut remarks = BTreeSet::new();
        for link in &loaded.links {
            let (source, target) = (&link.ends.source, &link.ends.target);
            let (Some(Ok(of_source)), Some(Ok(of_target))) = (known.get(source), known.get(target))
            else {
                continue; // the cluster that was not read says why
            };
            let case = LinkCase {
                loaded,
                link,
                source: of_source,
                target: of_target,
                now,
            };
            match case.plan(&of_target.accounts) {
                Ok(plan) => {
                    remarks.extend(
                        plan.remarks
                            .into_iter()
                            .map(|remark| (target.clone(), remark)),
                    );
                    let own = clusters.entry(target).or_default();
                    own.changes
                        .extend(plan.account.into_iter().map(|write| write.change));
                    clusters
                        .entry(source)
                        .or_default()
                        .changes
                        .extend(plan.source.into_iter().map(|write| write.change));
                }
                Err(obstacle) => {
                    if let Some(cluster) = clusters.get_mut(&obstacle.cluster) {
                        cluster.problems.insert(obstacle.why);
                    }
                }
            }
        }
        for (name, cluster) in &mut clusters {
            let removal = removal(loaded, name, known);
            cluster.changes.extend(removal.changes);
            cluster.problems.extend(removal.problems);
        }
        Self {
            fleet: loaded.fleet.name.clone(),
            clusters: clusters.into_values().collect(),
            remarks,
        }
    }

    /// The number of changes with this verb.
    pub(super) fn count(&self, verb: &str) -> usize {
        let changes = self.clusters.iter().flat_map(|cluster| &cluster.changes);
        changes.filter(|change| change.verb == verb).count()
    }

    /// Whether settings of an existing object would change, or an object would go.
    pub(super) fn is_destructive(&self) -> bool {
        let mut changes = self.clusters.iter().flat_map(|cluster| &cluster.changes);
        changes.any(|change| change.verb == "delete" || !change.fields.is_empty())
    }

    /// The clusters in which Linkerd's Secrets get other credentials. Linkerd reads a Secret once.
    pub(super) fn outdates_linkerd(&self, linkerd: &str) -> Vec<&str> {
        let is_replaced = |change: &FleetChange| {
            change.kind == "Secret" && change.namespace == linkerd && change.why == NEW_CREDENTIALS
        };
        let clusters = self.clusters.iter();
        let clusters = clusters.filter(|cluster| cluster.changes.iter().any(is_replaced));
        clusters.map(|cluster| cluster.name.as_str()).collect()
    }

    /// Whether there is something to do.
    pub(super) fn is_pending(&self) -> bool {
        self.clusters
            .iter()
            .any(|cluster| !cluster.changes.is_empty())
    }

    /// Whether something is not known, or cannot be done.
    pub(super) fn has_problems(&self) -> bool {
        let mut clusters = self.clusters.iter();
        clusters.any(|cluster| cluster.error.is_some() || !cluster.problems.is_empty())
    }
}
