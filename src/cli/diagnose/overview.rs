//! `diagnose` without a Service: reads the Links, and what the proxies of clients count.

use std::{process::ExitCode, time::Duration};

use client::{Cluster, timing};
use futures::join;
use jiff::Timestamp;
use mirror_core::api::metadata::ResourceId;
use observe::{
    clusters::{
        collect::{Depth, snapshot_of},
        snapshot::{ClusterSnapshot, Known},
        topology::{Edge, Topology},
        traffic::{ServiceWanted, TrafficServices, list, samples},
    },
    diagnose::overview::{LinksSeen, Overview, RequestsSeen, WorstService, document, text},
    traffic::{ClientActivity, FailingGroup, failing, increase},
};
use tokio::time::sleep;

use super::{
    args::{Called, Diagnose, DiagnosisFormat, PodName},
    reader::{PathReader, source},
};
use crate::cli::common::{
    args::Global,
    output,
    problems::{about, dead_gateway, silences},
    wait::spin,
};

/// Time between the two samples of the proxies.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of clients whose proxies are read.
const CLIENTS: usize = 100;

/// Runs the command. Exit code 1 if something is broken.
pub async fn run(global: &Global, args: &Diagnose) -> anyhow::Result<ExitCode> {
    let cluster = source(global, args).await?;
    let reading = async {
        let (snapshot, requests) = join!(
            snapshot_of(&cluster, Depth::Links),
            requests(&cluster, args.from.as_ref())
        );
        let groups = requests.iter().flat_map(|seen| &seen.failing);
        let worst = worst(groups, &cluster, global, args).await;
        Overview {
            links: links(&snapshot, timing::now()),
            requests,
            worst,
        }
    };
    let overview = spin("reading Links and clients", Box::pin(reading)).await;
    if let (Err(why), Err(_)) = (&overview.links, &overview.requests) {
        return Err(anyhow::Error::msg(why.to_string()).context("nothing could be read"));
    }
    output::data(&match args.output {
        DiagnosisFormat::Text => text(&overview),
        DiagnosisFormat::Json => output::json(&document(&overview))?,
        DiagnosisFormat::Yaml => output::yaml(&document(&overview))?,
    })?;
    Ok(output::exit_code(overview.is_broken()))
}

/// The Links that do not work, and why.
fn links(snapshot: &ClusterSnapshot, now: Timestamp) -> Known<LinksSeen> {
    snapshot.links.as_ref().map_err(Clone::clone)?;
    let topology = Topology::of(std::slice::from_ref(snapshot));
    let edges = &topology.links;
    // What nobody reports any more is no fact.
    let mut problems = silences(&topology, false, now);
    let reported = edges.iter().filter(|edge| is_reported(edge));
    problems.extend(reported.filter_map(|edge| {
        let problem = problem(edge, now)?;
        Some(about(edge, edges, false) + &problem)
    }));
    let ready = edges.iter().filter(|edge| is_reported(edge));
    let ready = ready.filter(|edge| edge.link.ready == Some(true));
    Ok(LinksSeen {
        all: edges.len(),
        ready: ready.count(),
        problems,
    })
}

fn is_reported(edge: &Edge) -> bool {
    edge.link.controller.as_ref().is_none_or(|of| of.active)
}

fn problem(edge: &Edge, now: Timestamp) -> Option<String> {
    if edge.link.ready != Some(true) {
        let told = edge.link.message.clone();
        return Some(told.unwrap_or_else(|| "not ready, and nothing says why".to_owned()));
    }
    dead_gateway(edge, now)
}

/// What clients do: two samples of their proxies.
async fn requests(cluster: &Cluster, from: Option<&PodName>) -> Known<RequestsSeen> {
    let all = ServiceWanted::default();
    let namespace = from.and_then(|from| from.namespace.as_deref());
    let max = if from.is_some() { usize::MAX } else { CLIENTS };
    let (services, mut chosen) = list(cluster, &all, namespace, max).await?;
    if let Some(from) = from {
        chosen.proxies.retain(|proxy| proxy.pod.name == from.name);
        chosen.meshed = chosen.proxies.len();
    }
    let sample = || {
        samples(
            &cluster.client,
            &chosen.proxies,
            &services,
            cluster.deadline,
        )
    };
    let first = sample().await;
    if !first.is_empty() {
        sleep(INTERVAL).await;
    }
    let second = sample().await;
    let pairs = first.into_iter().zip(second).zip(&chosen.proxies);
    let (mut read, mut unread) = (Vec::new(), None);
    for ((first, second), proxy) in pairs {
        match (first, second) {
            (Ok(first), Ok(second)) => read.push((proxy.pod.clone(), increase(&first, &second))),
            (Err(why), _) | (_, Err(why)) => {
                unread.get_or_insert_with(|| format!("{}: {why}", proxy.pod));
            }
        }
    }
    Ok(seen(&services, &read, chosen.meshed, unread))
}

fn seen(
    services: &TrafficServices,
    read: &[(ResourceId, ClientActivity)],
    meshed: usize,
    unread: Option<String>,
) -> RequestsSeen {
    let lasted = read.iter().map(|(_, client)| client.lasted);
    let activities = read.iter().flat_map(|(_, client)| client.by_key.values());
    RequestsSeen {
        meshed,
        read: read.len(),
        unread,
        seconds: lasted.max().unwrap_or(INTERVAL).as_secs_f64(),
        requests: activities.map(observe::traffic::Activity::requests).sum(),
        failing: failing(services, read),
    }
}

/// Diagnoses the Service that loses most requests, for the client that loses most.
async fn worst<'g>(
    mut groups: impl Iterator<Item = &'g FailingGroup>,
    cluster: &Cluster,
    global: &Global,
    args: &Diagnose,
) -> Option<WorstService> {
    let service = groups.next()?.services.first()?;
    let from = service.clients.first()?;
    let called = Called {
        service: ResourceId::new(&service.service.namespace, &service.service.name),
        port: None,
    };
    let pod = Some(from.clone());
    let diagnosis = async {
        let reader = PathReader::connect(global, args, cluster.clone(), called, pod).await?;
        reader.diagnose().await
    };
    Some(WorstService {
        from: from.to_string(),
        diagnosis: Box::pin(diagnosis)
            .await
            .map_err(|error| format!("{error:#}")),
    })
}
