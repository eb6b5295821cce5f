//! Reads from all clusters what `status` shows.

use futures::future::join_all;

use super::{
    args::StatusArgs,
    credentials,
    services::{ServiceRow, rows},
    view::Status,
};
use crate::{
    check::{
        facts::{LinkFacts, Survey},
        gather,
        survey::Depth,
        topology::{Fleet, fleet},
    },
    cli::fleet::{Member, survey_all},
    controller::clock,
    hint::fail,
};

/// Reads from all clusters once.
pub(super) async fn ask(args: &StatusArgs, members: &[Member]) -> anyhow::Result<Status> {
    let (surveys, destinations) = futures::join!(
        survey_all(members, Depth::Credentials),
        credentials::ask(members)
    );
    if let (
        [
            Survey {
                links: Err(why), ..
            },
        ],
        [member],
    ) = (surveys.as_slice(), members)
    {
        return Err(fail(
            format!("cannot list the Links of {}: {why}", member.name),
            "check that the cluster is up and that you may list Links; `linkerd-mc check` shows details",
        ));
    }
    let services = if args.services {
        Some(ask_services(args, members, &surveys).await?)
    } else {
        None
    };
    let mut fleet = fleet(&surveys);
    credentials::note(&mut fleet, &surveys, &destinations, clock::now());
    // Filters last: all Links are needed to find one-way Links.
    let fleet = match &args.cluster_name {
        Some(cluster) => only(fleet, cluster),
        None => fleet,
    };
    Ok(Status { fleet, services })
}

fn only(fleet: Fleet, cluster: &str) -> Fleet {
    let links = fleet.links.into_iter();
    Fleet {
        clusters: fleet.clusters,
        links: links.filter(|edge| edge.link.cluster == cluster).collect(),
    }
}

async fn ask_services(
    args: &StatusArgs,
    members: &[Member],
    surveys: &[Survey],
) -> anyhow::Result<Vec<ServiceRow>> {
    let cluster = args.cluster_name.as_deref();
    let pairs = members.iter().zip(surveys);
    let answers = join_all(pairs.map(async |(member, survey)| {
        let (Ok(source), Ok(links)) = (&member.source, &survey.links) else {
            return Ok(vec![]);
        };
        services_of(&member.name, source.client.clone(), links, cluster).await
    }));
    let answers: Result<Vec<_>, _> = answers.await.into_iter().collect();
    Ok(answers?.into_iter().flatten().collect())
}

async fn services_of(
    name: &str,
    client: kube::Client,
    links: &[LinkFacts],
    cluster: Option<&str>,
) -> anyhow::Result<Vec<ServiceRow>> {
    let (mirrors, endpoints) = futures::join!(gather::mirrors(&client), gather::endpoints(&client));
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
