//! What the page shows, as the commands found it. The command fills this; nothing here is judged again.

use std::collections::{BTreeMap, VecDeque};

use hints::suggest::ClusterFlags;
use jiff::Timestamp;
use observe::{
    clusters::{link_state::LinkStanding, service_rows::ServiceRow, topology::Topology},
    finding::Finding,
    timeline::Timeline,
    traffic::TrafficRow,
};

/// How many samples of the traffic are kept.
pub const SAMPLES: usize = 30;

/// All that the page shows.
#[derive(Clone, Debug, Default)]
pub struct PageFacts {
    /// When it was read.
    pub read: Timestamp,
    /// After how many seconds it is old, because it should have been read again.
    pub old_after: u64,
    /// What is shown: the name of a fleet, or contexts.
    pub title: String,
    /// Flags with which commands use the same clusters.
    pub flags: ClusterFlags,
    /// Clusters and Links: those of clusters that do not answer as they were when they did.
    pub topology: Topology,
    /// How each Link of the topology is doing, in the same order, and what is wrong.
    pub states: Vec<(LinkStanding, Option<String>)>,
    /// Clusters that do not answer, and when the Links that are shown were read, if they ever were.
    pub unanswered: BTreeMap<String, Option<Timestamp>>,
    /// What is wrong, worst first.
    pub problems: Vec<Finding>,
    /// Mirrors and federated Services of all clusters.
    pub services: Vec<ServiceRow>,
    /// What clients do.
    pub traffic: Traffic,
    /// What happened.
    pub timeline: Timeline,
    /// The controllers.
    pub controllers: Vec<ControllerFacts>,
    /// What could not be read, and why.
    pub unseen: Vec<String>,
}

/// A controller of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerFacts {
    /// Its cluster.
    pub cluster: String,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its version.
    pub version: Option<String>,
    /// Why it is not known.
    pub error: Option<String>,
}

/// Who serves the requests to a Service: the clients' cluster, namespace, Service, and the serving cluster.
pub type TrafficPlace = (String, String, String, Option<String>);

/// What clients do.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    /// The last sample; `None` until there is one.
    pub rows: Option<Vec<TrafficRow>>,
    /// What could not be counted, and why.
    pub unseen: Vec<String>,
    /// Requests per second of the last samples, oldest first.
    pub rates: BTreeMap<TrafficPlace, VecDeque<f64>>,
}

impl PageFacts {
    /// Whether no cluster answers, so that nothing is known.
    pub fn is_silent(&self) -> bool {
        let mut asked = self.topology.clusters.iter();
        asked.any(|node| node.reachable.is_some())
            && self
                .topology
                .clusters
                .iter()
                .all(|node| node.reachable != Some(true))
    }

    /// What is said in place of an empty list.
    pub fn absent(&self, none: &'static str) -> &'static str {
        if self.is_silent() {
            "No cluster could be read."
        } else if !self.unseen.is_empty() {
            "None in what could be read."
        } else {
            none
        }
    }
}

impl Traffic {
    /// The place of a row.
    pub fn place(row: &TrafficRow) -> TrafficPlace {
        (
            row.context.clone(),
            row.namespace.clone(),
            row.service.clone(),
            row.served.cluster.clone(),
        )
    }

    /// Adds a sample. Places without requests for as long as samples are kept are forgotten.
    pub fn add(&mut self, rows: Vec<TrafficRow>) {
        let mut now: BTreeMap<TrafficPlace, f64> = BTreeMap::new();
        for row in &rows {
            *now.entry(Self::place(row)).or_default() += row.requests_per_second;
        }
        for (place, rate) in &mut self.rates {
            rate.push_back(now.remove(place).unwrap_or_default());
            while rate.len() > SAMPLES {
                rate.pop_front();
            }
        }
        let new = now.into_iter();
        self.rates
            .extend(new.map(|(place, rate)| (place, VecDeque::from([rate]))));
        self.rates
            .retain(|_, rates| rates.iter().any(|rate| *rate > 0.0));
        self.rows = Some(rows);
    }
}

/// A mirror or federated Service of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamedService {
    /// Its cluster, as the page names it.
    pub cluster: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(rate: f64) -> TrafficRow {
        TrafficRow {
            context: "west".to_owned(),
            service: "web".to_owned(),
            requests_per_second: rate,
            ..TrafficRow::default()
        }
    }

    #[test]
    fn samples_are_bounded_and_places_without_requests_are_forgotten() {
        let mut traffic = Traffic::default();
        for rate in 1..=99_u8 {
            traffic.add(vec![row(rate.into())]);
        }
        let rates = traffic.rates.values().next().unwrap();
        assert_eq!((rates.len(), rates.back()), (SAMPLES, Some(&99.0)));
        for _ in 0..SAMPLES {
            assert_eq!(traffic.rates.len(), 1);
            traffic.add(Vec::new());
        }
        assert!(traffic.rates.is_empty());
    }
}
