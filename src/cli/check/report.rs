//! Prints the results of checks: rows as they come, or one document at the end.

use std::process::ExitCode;

use clap::ValueEnum;
use hints::prose::wrapped;
use observe::{
    check::{
        report::{self, CATEGORY, Category},
        rules::{CheckResult, evaluate_topology},
    },
    clusters::{snapshot::ClusterSnapshot, topology::Topology},
    finding::Level,
};

use super::progress::TopicResults;
use crate::cli::{
    common::{output, table::terminal_width},
    fleet::{FleetLinks, SelectedClusters},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// All checks
    Table,
    /// Same as table
    Basic,
    /// Only checks that fail
    Short,
    /// JSON in the format of `linkerd check -o json`
    Json,
    /// The same as YAML
    Yaml,
    /// An XML report for CI
    Junit,
}

/// The results so far, and how they are printed.
pub struct Report {
    format: CheckFormat,
    clusters: Vec<ReportedCluster>,
    /// The links that the clusters should have.
    fleet: Option<FleetLinks>,
}

struct ReportedCluster {
    /// Its name, if there are several.
    name: Option<String>,
    /// Its results, topic by topic.
    topics: Vec<Category>,
}

impl Report {
    pub fn new(format: CheckFormat, selected: &SelectedClusters) -> Self {
        let contexts = &selected.contexts;
        let several = contexts.len() > 1;
        let clusters = contexts.iter().map(|context| ReportedCluster {
            name: several.then(|| context.name.clone()),
            topics: Vec::new(),
        });
        Self {
            format,
            clusters: clusters.collect(),
            fleet: selected.fleet.clone(),
        }
    }

    /// Whether rows are printed as they come.
    pub fn is_streamed(&self) -> bool {
        match self.format {
            CheckFormat::Table | CheckFormat::Basic | CheckFormat::Short => true,
            CheckFormat::Json | CheckFormat::Yaml | CheckFormat::Junit => false,
        }
    }

    /// Takes the results of a topic, and prints them.
    pub fn take(&mut self, found: TopicResults) -> anyhow::Result<()> {
        let TopicResults { at, topic, results } = found;
        let cluster = &mut self.clusters[at];
        let category = Category {
            name: of_cluster(topic.name(), cluster.name.as_deref()),
            results,
            cluster: cluster.name.clone(),
        };
        let text = rows(self.format, &category);
        cluster.topics.push(category);
        output::data(&wrapped(&text, terminal_width(), 0))
    }

    /// Prints what is left, after the results of all clusters. Exit code 1 if there are errors.
    pub fn end(self, snapshots: &[ClusterSnapshot]) -> anyhow::Result<ExitCode> {
        let between = between(snapshots, self.fleet.as_ref());
        let (format, is_streamed) = (self.format, self.is_streamed());
        let all = if is_streamed {
            let topics = self.clusters.into_iter().flat_map(|cluster| cluster.topics);
            topics.chain(between.clone()).collect()
        } else {
            let clusters = self
                .clusters
                .into_iter()
                .map(ReportedCluster::into_category);
            clusters.chain(between.clone()).collect::<Vec<_>>()
        };
        let text = match format {
            CheckFormat::Json => output::json(&report::document(&all))?,
            CheckFormat::Yaml => output::yaml(&report::document(&all))?,
            CheckFormat::Junit => report::junit(&all),
            CheckFormat::Table | CheckFormat::Basic | CheckFormat::Short => {
                let last = between.iter().map(|category| rows(format, category));
                let mut last: String = last.collect();
                if format != CheckFormat::Short {
                    last += &report::problems(&all);
                }
                wrapped(&(last + &report::conclusion(&all)), terminal_width(), 0)
            }
        };
        output::data(&text)?;
        Ok(output::exit_code(report::worst(&all) == Some(Level::Error)))
    }
}

impl ReportedCluster {
    /// The results of a cluster in the order of `linkerd multicluster check`.
    fn into_category(self) -> Category {
        let topics = self.topics.into_iter();
        let mut results: Vec<CheckResult> = topics.flat_map(|topic| topic.results).collect();
        results.sort_by_key(|result| result.rank);
        let name = match &self.name {
            Some(name) => format!("{CATEGORY}: {name}"),
            None => CATEGORY.to_owned(),
        };
        Category {
            name,
            results,
            cluster: self.name,
        }
    }
}

fn rows(format: CheckFormat, category: &Category) -> String {
    match format {
        CheckFormat::Table | CheckFormat::Basic => report::rows(category),
        CheckFormat::Short => report::short_rows(category),
        CheckFormat::Json | CheckFormat::Yaml | CheckFormat::Junit => String::new(),
    }
}

fn of_cluster(topic: &str, cluster: Option<&str>) -> String {
    match cluster {
        Some(cluster) => format!("{cluster}: {topic}"),
        None => topic.to_owned(),
    }
}

/// The checks of the Links between several clusters.
fn between(snapshots: &[ClusterSnapshot], fleet: Option<&FleetLinks>) -> Option<Category> {
    if snapshots.len() < 2 {
        return None;
    }
    let mut topology = Topology::of(snapshots);
    if let Some(fleet) = fleet {
        topology.compare(&fleet.links, &fleet.namespace);
    }
    let results = evaluate_topology(&topology);
    (!results.is_empty()).then(|| Category {
        name: format!("{CATEGORY}: between clusters"),
        results,
        ..Category::default()
    })
}

#[cfg(test)]
mod tests {
    use observe::{check::rules::Topic, clusters::fixtures::snapshots};

    use super::*;

    fn result(rank: usize) -> CheckResult {
        CheckResult {
            rank,
            description: rank.to_string(),
            level: None,
            ..CheckResult::default()
        }
    }

    #[test]
    fn documents_have_a_category_for_each_cluster_in_the_order_of_linkerd() {
        let of = |name: Option<&str>| {
            let topic = |ranks: &[usize]| Category {
                results: ranks.iter().map(|rank| result(*rank)).collect(),
                ..Category::default()
            };
            let cluster = ReportedCluster {
                name: name.map(str::to_owned),
                topics: vec![topic(&[0, 3]), topic(&[1]), topic(&[2])],
            };
            let category = cluster.into_category();
            let ranks: Vec<_> = category.results.iter().map(|r| r.rank).collect();
            (category.name, ranks)
        };
        let ordered = vec![0, 1, 2, 3];
        assert_eq!(
            of(None),
            ("linkerd-multicluster".to_owned(), ordered.clone())
        );
        assert_eq!(
            of(Some("east")),
            ("linkerd-multicluster: east".to_owned(), ordered)
        );
    }

    #[test]
    fn several_clusters_have_a_category_together() {
        let all = snapshots();
        let name = |count| between(&all[..count], None).map(|category| category.name);
        assert_eq!(name(1), None);
        assert_eq!(
            name(2).as_deref(),
            Some("linkerd-multicluster: between clusters")
        );
    }

    #[test]
    fn a_topic_names_its_cluster_if_there_are_several() {
        assert_eq!(of_cluster(Topic::Gateways.name(), None), "gateways");
        assert_eq!(
            of_cluster(Topic::Gateways.name(), Some("west")),
            "west: gateways"
        );
    }
}
