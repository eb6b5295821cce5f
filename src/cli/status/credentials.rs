//! Problems of the credentials of each Link, as `check` finds them.

use futures::future::join_all;
use jiff::Timestamp;

use crate::clusters::{
    cluster_client::KubeContext,
    collect_full,
    credentials::problems,
    snapshot::{ClusterSnapshot, Destination, Known},
    topology::Topology,
};

/// Reads the credentials that Linkerd has in each cluster, concurrently.
pub(super) async fn ask(contexts: &[KubeContext]) -> Vec<Known<Destination>> {
    join_all(contexts.iter().map(async |context| match &context.client {
        Ok(cluster) => collect_full::destination(cluster).await,
        Err(why) => Err(why.clone()),
    }))
    .await
}

/// Adds to each Link of a topology the problem of its credentials. The topology must be made of these snapshots, so
/// that its Links are in their order.
pub(super) fn note(
    topology: &mut Topology,
    snapshots: &[ClusterSnapshot],
    destinations: &[Known<Destination>],
    now: Timestamp,
) {
    let links = snapshots
        .iter()
        .zip(destinations)
        .flat_map(|(snapshot, theirs)| {
            let links = snapshot.links.as_deref().unwrap_or_default();
            links.iter().map(move |link| (link, links, theirs))
        });
    for (edge, (link, links, theirs)) in topology.links.iter_mut().zip(links) {
        edge.link.credentials_problems = problems(link, links, theirs, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::topology::{Topology, tests::snapshots};

    #[test]
    fn each_link_has_the_problems_of_its_own_credentials() {
        let mut snapshots = snapshots();
        let now = Timestamp::UNIX_EPOCH;
        let north = &mut snapshots[1].links.as_mut().unwrap()[1];
        let credentials = north.credentials.as_mut().unwrap();
        credentials.as_mut().unwrap().expiry = Some(now);
        let mut destinations: Vec<Known<Destination>> = snapshots
            .iter()
            .map(|_| Ok(Destination::default()))
            .collect();
        destinations[0] = Err("forbidden".into());
        let mut topology = Topology::of(&snapshots);
        note(&mut topology, &snapshots, &destinations, now);
        let noted = topology.links.iter().map(|edge| {
            let problems = edge.link.credentials_problems.as_ref();
            (edge.target.as_str(), problems.map(Vec::len))
        });
        assert_eq!(
            noted.collect::<Vec<_>>(),
            [
                ("west", None),
                ("east", Some(0)),
                ("north", Some(1)),
                ("moon", Some(0))
            ]
        );
    }
}
