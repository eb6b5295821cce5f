//! How each link of a fleet is doing.

use std::collections::BTreeMap;

use observe::clusters::{
    collect::{Depth, snapshots_of},
    kube_context::KubeContext,
    link_state::LinkStanding,
    link_summary::LinkSummary,
    snapshot::ClusterSnapshot,
};
use serde::Serialize;

use crate::cli::{fleet::FleetLinks, version::all_controllers};

/// Reads all clusters of the file side by side.
pub async fn report(fleet: &FleetLinks, contexts: &[KubeContext]) -> FleetReport {
    let (snapshots, controllers) = futures::join!(
        snapshots_of(contexts, Depth::Links),
        all_controllers(contexts)
    );
    let own = controllers.into_iter();
    let own = own.filter(|row| row.namespace.as_deref() == Some(&fleet.namespace));
    let versions = own.filter_map(|row| Some((row.context, row.version?)));
    FleetReport::of(fleet, &snapshots, &versions.collect())
}

/// A link of the file, and how it is doing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LinkReport {
    pub source: String,
    pub target: String,
    pub state: LinkStanding,
    /// What is wrong, if something is.
    pub problem: Option<String>,
}

/// A cluster of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ClusterReport {
    pub name: String,
    /// Version of its controller, if it is known.
    pub version: Option<String>,
    /// Why its Links are not known.
    pub error: Option<String>,
}

/// All clusters and links of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FleetReport {
    pub fleet: String,
    pub clusters: Vec<ClusterReport>,
    /// Worst first.
    pub links: Vec<LinkReport>,
}

impl FleetReport {
    /// The report of these clusters, with the versions of their controllers as far as they are known.
    pub fn of(
        fleet: &FleetLinks,
        snapshots: &[ClusterSnapshot],
        versions: &BTreeMap<String, String>,
    ) -> Self {
        let clusters = snapshots.iter().map(|snapshot| ClusterReport {
            name: snapshot.name.clone(),
            version: versions.get(&snapshot.name).cloned(),
            error: snapshot.links.as_ref().err().map(ToString::to_string),
        });
        let links = fleet.links.iter().map(|(source, target)| {
            let snapshot = snapshots.iter().find(|snapshot| snapshot.name == *source);
            let (state, problem) = state(snapshot, &fleet.namespace, target);
            LinkReport {
                source: source.clone(),
                target: target.clone(),
                state,
                problem,
            }
        });
        let mut links: Vec<LinkReport> = links.collect();
        links.sort_by_key(|link| link.state);
        Self {
            fleet: fleet.name.clone(),
            clusters: clusters.collect(),
            links,
        }
    }

    /// Whether something has to be looked at.
    pub fn has_problems(&self) -> bool {
        let has_failed = |link: &LinkReport| link.state < LinkStanding::Expiring;
        self.clusters.iter().any(|cluster| cluster.error.is_some())
            || self.links.iter().any(has_failed)
    }
}

/// The state of the Link to a cluster, and what is wrong with it.
fn state(
    snapshot: Option<&ClusterSnapshot>,
    namespace: &str,
    target: &str,
) -> (LinkStanding, Option<String>) {
    let Some(Ok(links)) = snapshot.map(|snapshot| &snapshot.links) else {
        return (LinkStanding::Unknown, None); // the cluster says why
    };
    let found = links
        .iter()
        .find(|link| link.cluster() == target && link.namespace() == namespace);
    let (Some(link), Some(snapshot)) = (found, snapshot) else {
        return (LinkStanding::Missing, Some("there is no Link".to_owned()));
    };
    LinkStanding::of(link, &LinkSummary::in_cluster(link, snapshot))
}
