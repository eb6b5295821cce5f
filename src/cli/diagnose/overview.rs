//! `diagnose` without a Service: reads the Links, and what the proxies of clients count.

use std::{collections::BTreeSet, process::ExitCode, time::Duration};

use client::{Cluster, timing};
use futures::join;
use mirror_core::api::metadata::ResourceId;
use observe::{
    clusters::{
        collect::{Depth, namespaces, snapshot_of},
        gateway_clients::gateway_activity,
        history::{HistoryQuery, read_history},
        snapshot::{ClusterSnapshot, Known},
        topology::{Edge, Topology},
        traffic::{ServiceWanted, TrafficServices, list, sampled_twice},
    },
    diagnose::overview::{LinksSeen, Overview, RequestsSeen, WorstService, document, text},
    finding::{Finding, causes::Cause},
    timeline::{Timeline, history},
    traffic::{ClientActivity, FailingGroup, failing, increase},
};

use super::{
    args::{Called, Diagnose, PodName},
    reader::{PathReader, THIS_CLUSTER, source, source_context},
    view::fitted,
};
use crate::cli::common::{
    args::Global, output, problems::called, table::terminal_width, timeline as happened, wait::spin,
};

/// Time between the two samples of the proxies.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of clients whose proxies are read.
const CLIENTS: usize = 100;

/// Runs the command. Exit code 1 if something is broken.
pub async fn run(global: &Global, args: &Diagnose) -> anyhow::Result<ExitCode> {
    let cluster = source(global, args).await?;
    let reading = async {
        let of_links = async {
            let snapshot = snapshot_of(&cluster, Depth::Links).await;
            let name = source_context(global).unwrap_or_else(|| THIS_CLUSTER.to_owned());
            let timeline = timeline(&name, &cluster, &snapshot).await;
            (snapshot, timeline)
        };
        let ((snapshot, timeline), requests, gateway) = join!(
            of_links,
            requests(&cluster, args.from.as_ref()),
            gateway_activity(&cluster, INTERVAL)
        );
        let groups = requests.iter().flat_map(|seen| &seen.failing);
        let worst = worst(groups, &cluster, global, args).await;
        Overview {
            links: links(&snapshot),
            requests,
            gateway,
            worst,
            timeline,
        }
    };
    let overview = spin("reading Links and clients", Box::pin(reading)).await;
    if let (Err(why), Err(_)) = (&overview.links, &overview.requests) {
        return Err(anyhow::Error::msg(why.to_string()).context("nothing could be read"));
    }
    let document = document(&overview);
    output::data(&args.output.of(&document, || {
        let report = fitted(&text(&overview), terminal_width());
        if !overview.is_broken() {
            return report;
        }
        let whole = overview.whole_timeline();
        report + &happened::text(&whole, timing::now(), terminal_width())
    })?)?;
    Ok(output::exit_code(overview.is_broken()))
}

/// What happened to the Links, and to the controllers and gateways in their namespaces.
pub async fn timeline(name: &str, cluster: &Cluster, snapshot: &ClusterSnapshot) -> Timeline {
    let mut query = HistoryQuery::default();
    for namespace in namespaces(&snapshot.links) {
        query.events_of(&namespace, [""]);
        query.extension.insert(namespace);
    }
    let mut timeline = read_history(name, cluster, &query).await;
    let links = snapshot.links.iter().flatten();
    let links = links.flat_map(|link| history("Link", &link.link));
    let leaders = snapshot.leaders.values().flatten().flatten();
    let leaders = leaders.flat_map(|leader| leader.history.clone());
    timeline.add(name, links.chain(leaders).collect(), &[]);
    timeline
}

/// The Links, and what is wrong with them.
fn links(snapshot: &ClusterSnapshot) -> Known<LinksSeen> {
    snapshot.links.as_ref().map_err(Clone::clone)?;
    let edges = Topology::of(std::slice::from_ref(snapshot)).links;
    let is_ready = |edge: &&Edge| edge.link.ready == Some(true) && !edge.link.is_old();
    let mut findings: Vec<Finding> = Vec::new();
    for edge in &edges {
        for finding in &edge.link.findings {
            // One controller serves many Links.
            let found = match finding.cause {
                Some(Cause::ControllerDown) => finding.clone(),
                _ => finding.clone().of(&called(edge, &edges)),
            };
            if !findings.contains(&found) {
                findings.push(found);
            }
        }
    }
    Ok(LinksSeen {
        all: edges.len(),
        ready: edges.iter().filter(is_ready).count(),
        findings,
    })
}

/// What clients do: two samples of their proxies.
async fn requests(cluster: &Cluster, from: Option<&PodName>) -> Known<RequestsSeen> {
    let all = ServiceWanted::default();
    let namespace = from.and_then(|from| from.namespace.as_deref());
    let max = if from.is_some() { usize::MAX } else { CLIENTS };
    let (mut services, mut chosen) = list(cluster, &all, namespace, max).await?;
    if let Some(from) = from {
        chosen.proxies.retain(|proxy| proxy.pod.name == from.name);
        chosen.meshed = chosen.proxies.len();
    }
    let samples = sampled_twice(cluster, &services, &chosen, INTERVAL).await;
    let read = samples.read.into_iter();
    let read = read.map(|(pod, first, second)| (pod, increase(&first, &second)));
    let read: Vec<_> = read.collect();
    let keys = read.iter().flat_map(|(_, client)| client.by_key.keys());
    let used: BTreeSet<ResourceId> = keys.map(|key| key.service.clone()).collect();
    services.locate(cluster, |id| used.contains(id)).await?;
    Ok(seen(&services, &read, chosen.meshed, samples.unread))
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
