//! Reads the clusters while a page is visible: one reader for all tabs.

use std::{cell::RefCell, collections::BTreeMap, time::Duration};

use client::timing;
use dashboard::{
    facts::{ControllerFacts, PageFacts},
    hub::{Hub, Question},
};
use futures::{future::join_all, join};
use jiff::Timestamp;
use mirror_core::api::metadata::ResourceId;
use observe::{
    clusters::{
        kube_context::{KubeContext, side_by_side},
        link_state::LinkStanding,
        service_rows::{ServiceFilter, ServiceRow},
        snapshot::ClusterSnapshot,
        topology::{Edge, Topology},
    },
    diagnose::Diagnosis,
    timeline::Timeline,
};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use super::facts::problems;
use crate::cli::{
    common::{
        args::Global,
        changes::{REDRAW, link_changes, next_change_within},
        contexts::flags_of_all,
    },
    diagnose::{self, Called, Diagnose, PathReader},
    fleet::{FleetLinks, SelectedClusters},
    status,
    traffic::{Observer, TrafficArgs},
    version::all_controllers,
};

/// Longest time between two looks at the Links of large clusters.
const SELDOM: Duration = Duration::from_secs(60);
/// Shortest time between two looks.
const LEAST: Duration = Duration::from_millis(500);
/// A look takes at most this part of the time.
const SHARE: u32 = 10;
/// Time between two looks at what happened, and at versions.
const SLOW: Duration = Duration::from_secs(60);
/// Time between two samples of the clients' proxies.
const SAMPLE: Duration = Duration::from_secs(10);
/// Clients of a cluster whose proxies are read.
const CLIENTS: u32 = 100;

/// Reads the clusters of the page.
pub struct PageReader<'a> {
    global: &'a Global,
    contexts: Vec<KubeContext>,
    fleet: Option<FleetLinks>,
    deadline: Duration,
    facts: RefCell<PageFacts>,
}

/// The Links of a cluster, and how they were when it last answered.
type Kept = BTreeMap<String, (Timestamp, Vec<(Edge, (LinkStanding, Option<String>))>)>;

impl<'a> PageReader<'a> {
    pub fn new(global: &'a Global, selected: SelectedClusters, deadline: Duration) -> Self {
        let SelectedClusters { contexts, fleet } = selected;
        let names: Vec<&str> = contexts.iter().map(|context| &*context.name).collect();
        let facts = PageFacts {
            title: match &fleet {
                Some(fleet) => fleet.name.clone(),
                None => names.join(", "),
            },
            flags: flags_of_all(&contexts),
            ..PageFacts::default()
        };
        Self {
            global,
            contexts,
            fleet,
            deadline,
            facts: RefCell::new(facts),
        }
    }

    /// Shows the clusters, and answers questions. It never ends.
    pub async fn show(&self, hub: &Hub, questions: mpsc::Receiver<Question>) {
        join!(
            Box::pin(self.links(hub)),
            Box::pin(self.traffic(hub)),
            Box::pin(self.answers(questions))
        );
    }

    /// Reads Links and Services when a Link changes, or after some time; and seldom, what happened and versions.
    async fn links(&self, hub: &Hub) {
        let mut kept = Kept::new();
        let mut slow = None;
        loop {
            hub.watched().await;
            let clients = self.contexts.iter();
            let mut changes = link_changes(clients.filter_map(|it| it.client.as_ref().ok()));
            while hub.is_watched() {
                let started = Instant::now();
                let snapshots = self.look(&mut kept).await;
                let took = started.elapsed();
                let pause = (took * SHARE).clamp(REDRAW, SELDOM.max(took));
                self.facts.borrow_mut().old_after = (pause + took).as_secs() * 2 + 10;
                self.publish(hub);
                if slow.is_none_or(|last: Instant| last.elapsed() >= SLOW) {
                    slow = Some(Instant::now());
                    self.look_seldom(&snapshots).await;
                    self.publish(hub);
                }
                // Links that change all the time, and clusters that refuse watches, are not read all the time.
                sleep(took.max(LEAST)).await;
                next_change_within(&mut changes, pause).await;
            }
        }
    }

    fn publish(&self, hub: &Hub) {
        // Before the first look there is nothing to say.
        let facts = self.facts.borrow();
        if facts.read > Timestamp::UNIX_EPOCH {
            hub.show(facts.clone());
        }
    }

    /// Reads Links and Services.
    async fn look(&self, kept: &mut Kept) -> Vec<ClusterSnapshot> {
        let (snapshots, mut topology) = status::ask_links(&self.contexts).await;
        let services = self.services(&snapshots).await;
        let hints = status::not_running_in(&self.contexts, &snapshots).await;
        if let Some(fleet) = &self.fleet {
            topology.compare(&fleet.links, &fleet.namespace);
        }
        let links = snapshots.iter().flat_map(|it| it.links.iter().flatten());
        let edges = topology.links.iter().zip(links);
        let mut states = edges
            .map(|(edge, link)| LinkStanding::of(link, &edge.link))
            .collect();
        let now = timing::now();
        let unanswered = keep(kept, &mut topology, &mut states, now);
        let mut facts = self.facts.borrow_mut();
        let mut rows: Vec<ServiceRow> = Vec::new();
        let mut unseen = Vec::new();
        for (context, services) in self.contexts.iter().zip(services) {
            match services {
                Some(Ok(services)) => rows.extend(services),
                Some(Err(why)) => unseen.push(why),
                // As they were, like its Links.
                None => rows.extend(
                    facts
                        .services
                        .iter()
                        .filter(|row| row.context == context.name)
                        .cloned(),
                ),
            }
        }
        facts.read = now;
        facts.topology = topology;
        facts.states = states;
        facts.unanswered = unanswered;
        facts.services = rows;
        facts.unseen = unseen;
        judge(&mut facts, &hints);
        drop(facts);
        snapshots
    }

    /// The Services of each cluster, or why they cannot be listed; `None` if the cluster did not answer.
    async fn services(
        &self,
        snapshots: &[ClusterSnapshot],
    ) -> Vec<Option<Result<Vec<ServiceRow>, String>>> {
        let all = ServiceFilter::default();
        let pairs = self.contexts.iter().zip(snapshots);
        side_by_side(pairs.map(async |(context, snapshot)| {
            let (Ok(cluster), Ok(links)) = (&context.client, &snapshot.links) else {
                return None;
            };
            let client = cluster.client.clone();
            let rows = status::services_of(&context.name, client, links, &all).await;
            Some(rows.map_err(|error| format!("{error:#}")))
        }))
        .await
    }

    /// Reads what happened, and which controllers run.
    async fn look_seldom(&self, snapshots: &[ClusterSnapshot]) {
        let pairs = self.contexts.iter().zip(snapshots);
        let timelines = side_by_side(pairs.map(async |(context, snapshot)| {
            let cluster = context.client.as_ref().ok()?;
            let answers = snapshot.links.is_ok();
            Some(Box::pin(diagnose::timeline(&context.name, cluster, snapshot)).await)
                .filter(|_| answers)
        }));
        let (timelines, controllers) = join!(timelines, all_controllers(&self.contexts));
        let mut all = Timeline::default();
        for timeline in timelines.iter().flatten() {
            all.merge(timeline);
        }
        let controllers = controllers.into_iter().map(|row| ControllerFacts {
            cluster: row.context,
            namespace: row.namespace,
            version: row.version,
            error: row.error,
        });
        let mut facts = self.facts.borrow_mut();
        facts.timeline = all;
        facts.controllers = controllers.collect();
    }

    /// Reads what the clients' proxies count.
    async fn traffic(&self, hub: &Hub) {
        let args = TrafficArgs::of_all(CLIENTS, self.deadline);
        let observers = self.contexts.iter();
        let mut observers: Vec<_> = observers.map(|it| Observer::new(it, &args)).collect();
        let mut is_first = true;
        loop {
            hub.watched().await;
            let next = Instant::now() + SAMPLE;
            let seen = join_all(observers.iter_mut().map(Observer::observe)).await;
            let rows = seen.iter().flat_map(|seen| seen.rows.iter().cloned());
            // The first sample has nothing to be compared with.
            if !std::mem::take(&mut is_first) {
                let mut facts = self.facts.borrow_mut();
                facts.traffic.add(rows.collect());
                facts.traffic.unseen = seen.iter().filter_map(unseen).collect();
                drop(facts);
                self.publish(hub);
            }
            sleep_until(next).await;
        }
    }

    /// Diagnoses Services, one after the other.
    async fn answers(&self, mut questions: mpsc::Receiver<Question>) {
        while let Some(Question { service, answer }) = questions.recv().await {
            let id = ResourceId::new(&service.namespace, &service.name);
            let found = Box::pin(self.diagnosis(&service.cluster, id)).await;
            // The tab may be closed.
            let _ = answer.send(found);
        }
    }

    async fn diagnosis(&self, cluster: &str, service: ResourceId) -> Result<Diagnosis, String> {
        let mut contexts = self.contexts.iter();
        let context = contexts.find(|context| context.name == cluster);
        let context = context.ok_or("this cluster is not one of the page")?;
        let cluster = context.client.as_ref().map_err(ToString::to_string)?;
        let args = Diagnose::of_service(service.clone(), self.deadline);
        let called = Called {
            service,
            port: None,
        };
        let reader = PathReader::of_cluster(self.global, &args, cluster.clone(), called);
        let found = reader.diagnose().await;
        found.map_err(|error| format!("{error:#}"))
    }
}

/// Says what is wrong, by what was read last.
fn judge(facts: &mut PageFacts, hints: &[String]) {
    let rows = facts.traffic.rows.as_deref().unwrap_or_default();
    let mut found = problems(&facts.topology, hints, &facts.services, rows);
    for finding in &mut found {
        let about = finding.about.as_ref();
        let since = about.and_then(|name| *facts.unanswered.get(name)?);
        finding.since = finding.since.or(since);
    }
    facts.problems = found;
}

/// Keeps the Links of clusters that answer, and adds those of clusters that do not, as they were. Returns these clusters, and
/// when they last answered.
fn keep(
    kept: &mut Kept,
    topology: &mut Topology,
    states: &mut Vec<(LinkStanding, Option<String>)>,
    now: Timestamp,
) -> BTreeMap<String, Option<Timestamp>> {
    let mut unanswered = BTreeMap::new();
    let read = topology.links.clone();
    let read_states = states.clone();
    for node in topology.clusters.clone() {
        match node.reachable {
            Some(true) => {
                let own = read.iter().cloned().zip(read_states.iter().cloned());
                let own = own.filter(|(edge, _)| edge.source == node.name).collect();
                kept.insert(node.name, (now, own));
            }
            Some(false) => {
                let last = kept.get(&node.name);
                unanswered.insert(node.name, last.map(|(at, _)| *at));
                for (edge, state) in last.into_iter().flat_map(|(_, links)| links) {
                    topology.links.push(edge.clone());
                    states.push(state.clone());
                }
            }
            None => {}
        }
    }
    unanswered
}

/// Why nothing is known of the clients of a cluster, or of some of them.
fn unseen(seen: &crate::cli::traffic::Observation) -> Option<String> {
    let of = &seen.context;
    if let Some(problem) = &seen.problem {
        return Some(format!("requests of {of}: {problem}"));
    }
    let (_, first) = seen.unread.first_key_value()?;
    let count = seen.unread.len();
    Some(format!("requests of {count} Pods of {of}: {first}"))
}
