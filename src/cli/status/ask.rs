//! Reads from all clusters what `status` shows, with the problems of the credentials of each Link, as `check` finds them.

use client::{ReadError, timing};
use hints::hint::fail;
use jiff::Timestamp;
use observe::clusters::{
    collect::{Depth, snapshots_of},
    collect_full,
    credentials::problems,
    kube_context::{KubeContext, side_by_side},
    snapshot::{ClusterSnapshot, Destination, Known, LinkSnapshot},
    topology::Topology,
};

use super::{
    args::{ServiceFilter, StatusArgs},
    services::{ServiceRow, rows},
    view::StatusView,
};
use crate::cli::common::contexts::refuse_silence;

/// Reads from all clusters once.
pub async fn ask(args: &StatusArgs, contexts: &[KubeContext]) -> anyhow::Result<StatusView> {
    let (snapshots, destinations) = futures::join!(
        snapshots_of(contexts, Depth::Credentials),
        destinations_of(contexts)
    );
    refuse_silence(&snapshots)?;
    let services = if args.shows_services() {
        Some(ask_services(args, contexts, &snapshots).await?)
    } else {
        None
    };
    let mut topology = Topology::of(&snapshots);
    note_credentials(&mut topology, &snapshots, &destinations, timing::now());
    // Filters last: all Links are needed to find one-way Links.
    let topology = match &args.cluster_name {
        Some(cluster) => only(topology, cluster),
        None => topology,
    };
    Ok(StatusView { topology, services })
}

fn only(topology: Topology, cluster: &str) -> Topology {
    let Topology {
        clusters,
        mut links,
        missing,
    } = topology;
    links.retain(|edge| edge.link.cluster == cluster);
    Topology {
        clusters,
        links,
        missing,
    }
}

async fn ask_services(
    args: &StatusArgs,
    contexts: &[KubeContext],
    snapshots: &[ClusterSnapshot],
) -> anyhow::Result<Vec<ServiceRow>> {
    let wanted = args.filter();
    let pairs = contexts.iter().zip(snapshots);
    let answers = side_by_side(pairs.map(async |(context, snapshot)| {
        let (Ok(cluster), Ok(links)) = (&context.client, &snapshot.links) else {
            return Ok(vec![]);
        };
        services_of(&context.name, cluster.client.clone(), links, &wanted).await
    }));
    let answers: Result<Vec<_>, _> = answers.await.into_iter().collect();
    Ok(answers?.into_iter().flatten().collect())
}

async fn services_of(
    name: &str,
    client: kube::Client,
    links: &[LinkSnapshot],
    wanted: &ServiceFilter,
) -> anyhow::Result<Vec<ServiceRow>> {
    let (mirrors, endpoints) = futures::join!(
        collect_full::mirrors(&client),
        collect_full::endpoints(&client)
    );
    let failed = |what: &str, why: ReadError| {
        fail(
            format!("cannot list {what} of {name}: {why}"),
            "--services requires permission to list Services and EndpointSlices in all namespaces",
        )
    };
    let mirrors = mirrors.map_err(|why| failed("the Services", why))?;
    let endpoints = endpoints.map_err(|why| failed("the EndpointSlices", why))?;
    Ok(rows(name, links, &mirrors, &endpoints, wanted))
}

/// Reads the credentials that Linkerd has in each cluster, concurrently.
async fn destinations_of(contexts: &[KubeContext]) -> Vec<Known<Destination>> {
    side_by_side(contexts.iter().map(async |context| match &context.client {
        Ok(cluster) => collect_full::destination(&cluster.client, &cluster.linkerd_namespace).await,
        Err(why) => Err(why.clone()),
    }))
    .await
}

/// The credentials that could not be read, and why.
fn unseen(link: &LinkSnapshot, theirs: &Known<Destination>) -> Vec<String> {
    let own = link.credentials.as_ref().and_then(|own| own.as_ref().err());
    let own = own.map(|why| format!("the Secret of the Link: {why}"));
    let theirs = theirs.as_ref().err();
    let theirs = theirs.map(|why| format!("the credentials of Linkerd: {why}"));
    own.into_iter().chain(theirs).collect()
}

/// Adds to each Link of a topology the problem of its credentials. The topology must be made of these snapshots, so
/// that its Links are in their order.
fn note_credentials(
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
            links
                .iter()
                .map(move |link| (link, snapshot, links, theirs))
        });
    for (edge, (link, snapshot, links, theirs)) in topology.links.iter_mut().zip(links) {
        match problems(link, links, theirs, now, &snapshot.flags) {
            Some(found) => edge.link.findings.extend(found),
            None => edge.link.unseen.extend(unseen(link, theirs)),
        }
    }
}

#[cfg(test)]
mod tests {
    use observe::clusters::fixtures::snapshots;

    use super::*;

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
        note_credentials(&mut topology, &snapshots, &destinations, now);
        let noted = topology.links.iter().map(|edge| {
            (
                edge.target.as_str(),
                edge.link.findings.len(),
                edge.link.unseen.len(),
            )
        });
        assert_eq!(
            noted.collect::<Vec<_>>(),
            [
                ("west", 1, 1),
                ("east", 1, 0),
                ("north", 2, 0),
                ("moon", 1, 0)
            ]
        );
    }
}
