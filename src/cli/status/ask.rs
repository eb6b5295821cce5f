//! Reads from all clusters what `status` shows.

use futures::future::join_all;

use super::{
    args::StatusArgs,
    credentials,
    services::{ServiceRow, rows},
    view::Status,
};
use crate::{
    clusters::{
        cluster_client::KubeContext,
        collect::{Depth, snapshots_of},
        collect_full,
        snapshot::{ClusterSnapshot, LinkSnapshot},
        topology::Topology,
    },
    controller::clock,
    hint::fail,
};

/// Reads from all clusters once.
pub(super) async fn ask(args: &StatusArgs, contexts: &[KubeContext]) -> anyhow::Result<Status> {
    let (snapshots, destinations) = futures::join!(
        snapshots_of(contexts, Depth::Credentials),
        credentials::ask(contexts)
    );
    if let (
        [
            ClusterSnapshot {
                links: Err(why), ..
            },
        ],
        [context],
    ) = (snapshots.as_slice(), contexts)
    {
        return Err(fail(
            format!("cannot list the Links of {}: {why}", context.name),
            "check that the cluster is up and that you may list Links; `linkerd-mc check` shows details",
        ));
    }
    let services = if args.services {
        Some(ask_services(args, contexts, &snapshots).await?)
    } else {
        None
    };
    let mut topology = Topology::of(&snapshots);
    credentials::note(&mut topology, &snapshots, &destinations, clock::now());
    // Filters last: all Links are needed to find one-way Links.
    let topology = match &args.cluster_name {
        Some(cluster) => only(topology, cluster),
        None => topology,
    };
    Ok(Status { topology, services })
}

fn only(topology: Topology, cluster: &str) -> Topology {
    let links = topology.links.into_iter();
    Topology {
        clusters: topology.clusters,
        links: links.filter(|edge| edge.link.cluster == cluster).collect(),
    }
}

async fn ask_services(
    args: &StatusArgs,
    contexts: &[KubeContext],
    snapshots: &[ClusterSnapshot],
) -> anyhow::Result<Vec<ServiceRow>> {
    let target = args.cluster_name.as_deref();
    let pairs = contexts.iter().zip(snapshots);
    let answers = join_all(pairs.map(async |(context, snapshot)| {
        let (Ok(cluster), Ok(links)) = (&context.client, &snapshot.links) else {
            return Ok(vec![]);
        };
        services_of(&context.name, cluster.client.clone(), links, target).await
    }));
    let answers: Result<Vec<_>, _> = answers.await.into_iter().collect();
    Ok(answers?.into_iter().flatten().collect())
}

async fn services_of(
    name: &str,
    client: kube::Client,
    links: &[LinkSnapshot],
    cluster: Option<&str>,
) -> anyhow::Result<Vec<ServiceRow>> {
    let (mirrors, endpoints) = futures::join!(
        collect_full::mirrors(&client),
        collect_full::endpoints(&client)
    );
    let failed = |what: &str, why: String| {
        fail(
            format!("cannot list {what} of {name}: {why}"),
            "--services requires permission to list Services and EndpointSlices in all namespaces",
        )
    };
    let mirrors = mirrors.map_err(|why| failed("the Services", why))?;
    let endpoints = endpoints.map_err(|why| failed("the EndpointSlices", why))?;
    Ok(rows(name, links, &mirrors, &endpoints, cluster))
}
