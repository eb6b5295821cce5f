//! How each link of a fleet is doing. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use super::loaded::LoadedFleet;
use crate::{
    api::conditions::CREDENTIALS_EXPIRING,
    clusters::{link_summary::LinkSummary, snapshot::ClusterSnapshot},
    manifests::link::ClusterName,
};

/// What is known of the clusters: their Links, and the versions of their controllers.
pub(super) struct ClusterStates {
    pub(super) snapshots: BTreeMap<ClusterName, ClusterSnapshot>,
    pub(super) versions: BTreeMap<ClusterName, String>,
}

/// How a link is doing, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FleetLinkState {
    /// There is no Link.
    Missing,
    NotReady,
    /// It is ready, and its gateway does not answer.
    DeadGateway,
    /// Nobody reports it now.
    Old,
    /// Its source cluster was not read, or its controller has not reported.
    Unknown,
    /// Its credentials expire soon, or have expired.
    Expiring,
    /// Some Services are not mirrored.
    Incomplete,
    Drained,
    Ready,
}

/// A link of the file, and how it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LinkReport {
    pub(super) source: String,
    pub(super) target: String,
    pub(super) state: FleetLinkState,
    /// What is wrong, if something is.
    pub(super) problem: Option<String>,
}

/// A cluster of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ClusterReport {
    pub(super) name: String,
    /// Version of its controller, if it is known.
    pub(super) version: Option<String>,
    /// Why its Links are not known.
    pub(super) error: Option<String>,
}

/// All clusters and links of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FleetReport {
    pub(super) fleet: String,
    pub(super) clusters: Vec<ClusterReport>,
    /// Worst first.
    pub(super) links: Vec<LinkReport>,
}

impl FleetReport {
    pub(super) fn of(loaded: &LoadedFleet, known: &ClusterStates) -> Self {
        let clusters = loaded.fleet.clusters.iter().map(|cluster| {
            let snapshot = known.snapshots.get(&cluster.name);
            ClusterReport {
                name: cluster.name.to_string(),
                version: known.versions.get(&cluster.name).cloned(),
                error: snapshot.and_then(|snapshot| snapshot.links.as_ref().err().cloned()),
            }
        });
        let clusters = clusters.collect();
        let links = loaded.links.iter().map(|link| {
            let (source, target) = (&link.ends.source, link.ends.target.to_string());
            let snapshot = known.snapshots.get(source);
            let (state, problem) = state(snapshot, &loaded.namespace, &target);
            LinkReport {
                source: source.to_string(),
                target,
                state,
                problem,
            }
        });
        let mut links: Vec<LinkReport> = links.collect();
        links.sort_by_key(|link| link.state);
        Self {
            fleet: loaded.fleet.name.clone(),
            clusters,
            links,
        }
    }

    /// Whether something has to be looked at.
    pub(super) fn has_problems(&self) -> bool {
        let has_failed = |link: &LinkReport| link.state < FleetLinkState::Expiring;
        self.clusters.iter().any(|cluster| cluster.error.is_some())
            || self.links.iter().any(has_failed)
    }
}

/// The state of the Link to a cluster, and what is wrong with it.
fn state(
    snapshot: Option<&ClusterSnapshot>,
    namespace: &str,
    target: &str,
) -> (FleetLinkState, Option<String>) {
    let Some(Ok(links)) = snapshot.map(|snapshot| &snapshot.links) else {
        return (FleetLinkState::Unknown, None); // the cluster says why
    };
    let found = links
        .iter()
        .find(|link| link.cluster() == target && link.namespace() == namespace);
    let (Some(link), Some(snapshot)) = (found, snapshot) else {
        return (FleetLinkState::Missing, Some("there is no Link".to_owned()));
    };
    let summary = LinkSummary::in_cluster(link, snapshot);
    let expiring = link.problem_condition(CREDENTIALS_EXPIRING);
    let said = |message: Option<&str>, or: &str| Some(message.unwrap_or(or).to_owned());
    let message = summary.message.as_deref();
    let gateway = summary.gateway.as_ref();
    match summary.ready {
        Some(false) => (FleetLinkState::NotReady, said(message, "it is not ready")),
        None => (
            FleetLinkState::Unknown,
            said(message, "the controller has not reported it"),
        ),
        Some(true) if summary.is_old() => {
            let why = "no controller is active, so this is old";
            (FleetLinkState::Old, Some(why.to_owned()))
        }
        Some(true) if gateway.is_some_and(|gateway| gateway.alive == Some(false)) => (
            FleetLinkState::DeadGateway,
            said(message, "its gateway does not answer"),
        ),
        Some(true) => {
            if let Some((_, message)) = expiring {
                (FleetLinkState::Expiring, Some(message.to_owned()))
            } else if let Some(unmirrored) = summary.unmirrored() {
                (FleetLinkState::Incomplete, Some(unmirrored))
            } else if let Some(until) = summary.drained {
                (FleetLinkState::Drained, Some(format!("drained {until}")))
            } else {
                (FleetLinkState::Ready, None)
            }
        }
    }
}
