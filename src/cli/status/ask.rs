//! Reads from all clusters what `status` shows, with the problems of the credentials of each Link, as `check` finds them.

use std::{collections::BTreeSet, time::Duration};

use client::{ReadError, ReadErrorKind, timing};
use hints::hint::fail;
use jiff::Timestamp;
use mirror_core::mirror::is_through_gateway;
use observe::clusters::{
    collect::{Depth, kubeconfigs, snapshots_of},
    collect_full,
    controller_start::not_running,
    credentials::problems,
    kube_context::{KubeContext, side_by_side},
    misspelled::{misspelled, unlinked},
    service_rows::{ServiceFilter, ServiceRow, rows},
    snapshot::{ClusterSnapshot, Destination, Known, LinkSnapshot},
    target::labels_of,
    topology::Topology,
};

use super::{args::StatusArgs, view::StatusView};
use crate::cli::common::contexts::refuse_silence;

/// Maximum number of Links of a cluster whose targets are asked for misspelled labels.
const LOOKED_AT: usize = 8;
/// How long they have to answer.
const SOON: Duration = Duration::from_secs(2);

/// Reads from all clusters once.
pub async fn ask(args: &StatusArgs, contexts: &[KubeContext]) -> anyhow::Result<StatusView> {
    let mut snapshots = snapshots_of(contexts, Depth::Credentials).await;
    let destinations = destinations_of(contexts, &snapshots).await;
    let in_namespace = args.filter().namespace.is_some();
    if !(in_namespace && snapshots.iter().any(may_not_list_links)) {
        refuse_silence(&snapshots)?;
    }
    let services = if args.shows_services() {
        Some(ask_services(args, contexts, &snapshots).await?)
    } else {
        None
    };
    let mut hints = Vec::new();
    if args.is_table() && in_namespace {
        for snapshot in snapshots.iter_mut().filter(|it| may_not_list_links(it)) {
            snapshot.links = Ok(Vec::new());
            hints.push(format!(
                "{}: you may not list Links, so Services that should be mirrored and are not are missing here",
                snapshot.name
            ));
        }
    }
    if args.is_table() && !args.watch && args.wait.is_none() {
        hints.extend(not_running_in(contexts, &snapshots).await);
        hints.extend(misspelled_in(args, contexts, &snapshots, services.as_deref()).await);
    }
    let topology = judged(&snapshots, &destinations);
    // Filters last: all Links are needed to find one-way Links.
    let topology = match &args.cluster_name {
        Some(cluster) => only(topology, cluster),
        None => topology,
    };
    Ok(StatusView {
        topology,
        services,
        hints,
    })
}

/// Reads the Links of all clusters, without an error for one that does not answer.
pub async fn ask_links(contexts: &[KubeContext]) -> (Vec<ClusterSnapshot>, Topology) {
    let snapshots = snapshots_of(contexts, Depth::Credentials).await;
    let destinations = destinations_of(contexts, &snapshots).await;
    let topology = judged(&snapshots, &destinations);
    (snapshots, topology)
}

/// The topology of these clusters, with the problems of the credentials of each Link.
fn judged(snapshots: &[ClusterSnapshot], destinations: &[Known<Destination>]) -> Topology {
    let mut topology = Topology::of(snapshots);
    note_credentials(&mut topology, snapshots, destinations, timing::now());
    topology
}

/// Whether the user has no right to list Links, and the cluster answers.
fn may_not_list_links(snapshot: &ClusterSnapshot) -> bool {
    matches!(&snapshot.links, Err(why) if why.kind == ReadErrorKind::Forbidden)
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

/// Why no controller runs where none has reported: the most likely first failure of an installation.
pub async fn not_running_in(
    contexts: &[KubeContext],
    snapshots: &[ClusterSnapshot],
) -> Vec<String> {
    let mut said = Vec::new();
    for (context, snapshot) in contexts.iter().zip(snapshots) {
        let Ok(cluster) = &context.client else {
            continue;
        };
        for (namespace, leader) in &snapshot.leaders {
            let links = snapshot.links.iter().flatten();
            let mut links = links.filter(|link| link.namespace() == namespace);
            // Without a Lease, the service mirror of Linkerd may report.
            let may_run = match leader {
                Ok(Some(leader)) => leader.active,
                Ok(None) => {
                    links.any(|link| link.status().is_some_and(|s| !s.conditions.is_empty()))
                }
                Err(_) => true,
            };
            if !may_run && let Some(why) = not_running(cluster, namespace).await {
                let of = (contexts.len() > 1).then(|| format!("{}: ", snapshot.name));
                said.push(of.unwrap_or_default() + &why.finding.told());
            }
        }
    }
    said
}

/// What looks misspelled: labels and selectors, as the target clusters of Links show them, and clusters in preferences.
/// Silent about a cluster that does not answer soon: whether it does is what the controller reports.
async fn misspelled_in(
    args: &StatusArgs,
    contexts: &[KubeContext],
    snapshots: &[ClusterSnapshot],
    services: Option<&[ServiceRow]>,
) -> Vec<String> {
    let about = |snapshot: &ClusterSnapshot| match contexts {
        [_] => String::new(),
        _ => format!("{} → ", snapshot.name),
    };
    let mut said = Vec::new();
    for (context, snapshot) in contexts.iter().zip(snapshots) {
        let links = snapshot.links.as_deref().unwrap_or_default();
        let clusters: BTreeSet<&str> = links.iter().map(LinkSnapshot::cluster).collect();
        let rows = services.into_iter().flatten();
        let rows = rows.filter(|row| row.context == context.name);
        said.extend(rows.filter_map(|row| {
            let found = unlinked(row.preferred.preference.as_deref()?, &clusters)?;
            let service = row.service.as_deref().unwrap_or_default();
            Some(format!(
                "Service {}/{service} {}",
                row.namespace, found.text
            ))
        }));
        let Ok(cluster) = &context.client else {
            continue;
        };
        let is_wanted = |link: &&LinkSnapshot| {
            let name = args.cluster_name.as_ref();
            let is_connected = link
                .condition("Connected")
                .is_some_and(|(status, _)| status == "True");
            is_connected
                && !is_through_gateway(&link.link)
                && name.is_none_or(|name| name == link.cluster())
        };
        let links: Vec<&LinkSnapshot> = links.iter().filter(is_wanted).take(LOOKED_AT).collect();
        let kubeconfigs = kubeconfigs(cluster, &links).await;
        let labels = side_by_side(kubeconfigs.iter().map(async |kubeconfig| {
            labels_of(kubeconfig.as_ref()?.as_ref().ok()?, SOON)
                .await
                .ok()
        }));
        for (link, labels) in links.iter().zip(labels.await) {
            let found = labels.map(|labels| misspelled(&link.link, &labels));
            let found = found.into_iter().flatten();
            said.extend(
                found.map(|found| format!("{}{}: {found}", about(snapshot), link.cluster())),
            );
        }
    }
    said
}

async fn ask_services(
    args: &StatusArgs,
    contexts: &[KubeContext],
    snapshots: &[ClusterSnapshot],
) -> anyhow::Result<Vec<ServiceRow>> {
    let wanted = args.filter();
    let pairs = contexts.iter().zip(snapshots);
    let answers = side_by_side(pairs.map(async |(context, snapshot)| {
        let links = match &snapshot.links {
            Ok(links) => links.as_slice(),
            // A namespace has its own mirrors, without what the Links say of them.
            Err(_) if wanted.namespace.is_some() && may_not_list_links(snapshot) => &[],
            Err(_) => return Ok(vec![]),
        };
        let Ok(cluster) = &context.client else {
            return Ok(vec![]);
        };
        services_of(&context.name, cluster.client.clone(), links, &wanted).await
    }));
    let answers: Result<Vec<_>, _> = answers.await.into_iter().collect();
    Ok(answers?.into_iter().flatten().collect())
}

/// The Services of one cluster that are wanted.
pub async fn services_of(
    name: &str,
    client: kube::Client,
    links: &[LinkSnapshot],
    wanted: &ServiceFilter,
) -> anyhow::Result<Vec<ServiceRow>> {
    let namespace = wanted.namespace.as_deref();
    let (mirrors, endpoints) = futures::join!(
        collect_full::mirrors(&client, namespace),
        collect_full::endpoints(&client, namespace)
    );
    let failed = |what: &str, why: ReadError| {
        let place = namespace.map_or_else(
            || "all namespaces; with one, pass -n".to_owned(),
            |namespace| format!("the namespace {namespace}"),
        );
        fail(
            format!("cannot list {what} of {name}: {why}"),
            format!("this requires permission to list Services and EndpointSlices in {place}"),
        )
    };
    let mirrors = mirrors.map_err(|why| failed("the Services", why))?;
    let endpoints = endpoints.map_err(|why| failed("the EndpointSlices", why))?;
    Ok(rows(name, links, &mirrors, &endpoints, wanted))
}

/// Reads the credentials that Linkerd has in each cluster, concurrently.
async fn destinations_of(
    contexts: &[KubeContext],
    snapshots: &[ClusterSnapshot],
) -> Vec<Known<Destination>> {
    let pairs = contexts.iter().zip(snapshots);
    side_by_side(pairs.map(async |(context, snapshot)| {
        let cluster = context.client.as_ref().map_err(Clone::clone)?;
        // A cluster that does not answer is not asked again.
        let links = snapshot.links.as_ref().map_err(Clone::clone)?.iter();
        let clusters = links.map(|link| link.cluster().to_owned()).collect();
        let (client, namespace) = (&cluster.client, &cluster.linkerd_namespace);
        collect_full::destination(client, namespace, &clusters).await
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
