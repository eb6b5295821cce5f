//! What a drain would do: reads it for one source cluster, and shows it.

use std::{collections::BTreeSet, time::Duration};

use client::{Cluster, timing};
use hints::prose::listed;
use jiff::Timestamp;
use kube::ResourceExt as _;
use links::linked::links;
use mirror_core::api::{
    k8s::Service, labels, link::Link, members::remote_members, metadata::ResourceId, text::one_line,
};
use observe::{
    clusters::{
        collect_full::mirrors,
        snapshot::Known,
        traffic::{
            ServiceWanted, TrafficServices, chosen_clients, sampled_twice, traffic_services,
        },
    },
    drain::{
        DrainClients, DrainFacts, DrainForecast, DrainOutcome, FederatedForecast, MirrorForecast,
    },
    traffic::increase,
};

use super::source::DrainIn;
use crate::cli::common::table::{Column, Table};

/// Time between the two samples of the proxies.
const INTERVAL: Duration = Duration::from_secs(5);
/// Maximum number of clients whose proxies are read.
const CLIENTS: usize = 100;
/// Maximum number of callers of a mirror that the text names.
const NAMED: usize = 5;

/// What is read of a source cluster.
struct Read {
    mirrors: Vec<Service>,
    services: Known<TrafficServices>,
    drained: BTreeSet<String>,
}

/// Reads what a drain would do in a source cluster.
pub async fn forecast(source: &DrainIn<'_>) -> anyhow::Result<DrainForecast> {
    let read = read(source).await?;
    let clients = clients(source.cluster, &read.services).await;
    let cluster = source.name.to_string();
    Ok(DrainForecast::of(&read.facts(&cluster, &clients)))
}

/// The federated Services that would lose all ready endpoints, as far as that can be seen.
pub async fn losses(source: &DrainIn<'_>) -> anyhow::Result<Vec<ResourceId>> {
    let read = read(source).await?;
    if let Err(why) = &read.services {
        let why = why.clone();
        return Err(why.context("cannot read endpoints of members").into());
    }
    let unread = Ok(DrainClients::default());
    Ok(read.facts(&source.name.to_string(), &unread).only_here())
}

async fn read(source: &DrainIn<'_>) -> anyhow::Result<Read> {
    let (cluster, namespace) = (source.cluster, source.namespace);
    let wanted = ServiceWanted::default();
    let (all, services, links) = futures::join!(
        mirrors(&cluster.client, None),
        traffic_services(cluster, &wanted),
        links(cluster, namespace)
    );
    let mut all = all.map_err(|why| why.context("cannot list mirrors"))?;
    all.retain(|mirror| {
        let installation = mirror.metadata.annotation(labels::INSTALLATION);
        installation.is_empty() || installation == namespace
    });
    let services = match services {
        Ok(mut services) => {
            let concerned = of_cluster(&all, &source.name.to_string());
            let located = services.locate(cluster, |id| concerned.contains(id)).await;
            located.map(|()| services)
        }
        Err(why) => Err(why),
    };
    Ok(Read {
        mirrors: all,
        services,
        drained: drained(&links?, timing::now()),
    })
}

impl Read {
    fn facts<'r>(&'r self, cluster: &'r str, clients: &'r Known<DrainClients>) -> DrainFacts<'r> {
        DrainFacts {
            cluster,
            drained: &self.drained,
            mirrors: &self.mirrors,
            services: &self.services,
            clients,
        }
    }
}

/// The federated Services of which a cluster is a member.
fn of_cluster(mirrors: &[Service], cluster: &str) -> BTreeSet<ResourceId> {
    let concerned = mirrors.iter().filter(|mirror| {
        let annotation = |key: &str| mirror.metadata.annotations.get(key);
        remote_members(annotation).any(|(_, of)| of == cluster)
    });
    concerned
        .map(|mirror| mirror.metadata.resource_id())
        .collect()
}

/// The clusters that are drained now.
fn drained(links: &[Link], now: Timestamp) -> BTreeSet<String> {
    let is_drained = |link: &&Link| {
        let until = link.annotations().get(labels::DRAINED_UNTIL);
        let until = until.and_then(|until| until.parse::<Timestamp>().ok());
        until.is_some_and(|until| until > now)
    };
    let drained = links.iter().filter(is_drained);
    drained
        .map(|link| link.spec.target_cluster_name.clone())
        .collect()
}

/// What Pods have called, and call now.
async fn clients(cluster: &Cluster, services: &Known<TrafficServices>) -> Known<DrainClients> {
    let services = services.as_ref().map_err(Clone::clone)?;
    let chosen = chosen_clients(cluster, services, CLIENTS).await?;
    let samples = sampled_twice(cluster, services, &chosen, INTERVAL).await;
    let read = samples.read.into_iter().map(|(pod, first, second)| {
        let ever = increase(&second.zero(), &second);
        (pod, ever, increase(&first, &second))
    });
    Ok(DrainClients {
        meshed: chosen.meshed,
        read: read.collect(),
        unread: samples.unread,
    })
}

/// The forecast as text, below its answer.
pub fn text(forecast: &DrainForecast, cluster: &str, width: Option<usize>) -> String {
    let mut lines = Vec::new();
    let mut federated = Table::new([
        Column::key("FEDERATED SERVICE"),
        Column::number("RPS"),
        Column::elastic("WITHOUT THE CLUSTER"),
    ]);
    for of in &forecast.federated {
        federated.push(vec![
            format!("{}/{}", of.namespace, of.service).into(),
            rate(of.requests_per_second).into(),
            without(of, cluster).into(),
        ]);
    }
    let mut mirrors = Table::new([
        Column::key("MIRROR"),
        Column::new("MODE"),
        Column::number("RPS"),
        Column::elastic("CALLERS"),
    ]);
    for of in &forecast.mirrors {
        mirrors.push(vec![
            format!("{}/{}", of.namespace, of.service).into(),
            of.mode.as_str().into(),
            rate(of.requests_per_second).into(),
            callers(of).into(),
        ]);
    }
    for table in [federated, mirrors] {
        if !table.is_empty() {
            lines.push(String::new());
            lines.extend(table.lines(width));
        }
    }
    if !forecast.unseen.is_empty() {
        lines.push(String::new());
        let unseen = forecast.unseen.iter();
        lines.extend(unseen.map(|what| one_line(&format!("not seen: {what}"))));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn rate(per_second: Option<f64>) -> String {
    per_second.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.1}"))
}

/// Who would get the requests.
fn without(of: &FederatedForecast, cluster: &str) -> String {
    let others = of.others.iter().map(|other| {
        let endpoints = match other.ready_endpoints {
            None => "unknown".to_owned(),
            Some(ready) => format!("{ready} ready"),
        };
        format!(
            "{}: {endpoints}, {} RPS now",
            other.cluster,
            rate(other.requests_per_second)
        )
    });
    let others = others.collect::<Vec<_>>().join("; ");
    match of.outcome {
        DrainOutcome::Stays => format!("no other member: {cluster} stays"),
        DrainOutcome::LosesEndpoints => format!("no ready endpoint is left ({others})"),
        DrainOutcome::Moves | DrainOutcome::Unknown => others,
    }
}

fn callers(of: &MirrorForecast) -> String {
    match of.callers.len() {
        0 => "none seen".to_owned(),
        count => format!("{count}: {}", listed(&of.callers, NAMED)),
    }
}
