//! `status`: the state of Links, and what they mirror.

mod args;
mod ask;
mod drawing;
mod fleet;
#[cfg(test)]
mod fleet_tests;
mod matrix;
mod view;
mod watch;

use std::{cell::RefCell, collections::BTreeSet, fmt, process::ExitCode, time::Duration};

use client::timing;
use hints::hint::fail;
use mirror_core::api::duration::format_go_duration;
use observe::clusters::{
    collect::{Depth, snapshots_of},
    kube_context::KubeContext,
    topology::Topology,
};

pub use self::{
    args::StatusArgs,
    ask::{ask_links, not_running_in, services_of},
};
use self::{
    args::{Goal, StatusFormat},
    ask::ask,
    view::{StatusView, absent, render},
};
use super::common::{
    args::Global,
    changes::next_change,
    contexts::flags_of_all,
    output,
    problems::called,
    table::terminal_width,
    wait::{Progress, spin},
};

/// Runs the command. Exit code 1 if a cluster did not respond, what was asked for does not exist, or `--wait` timed out.
pub async fn run(global: &Global, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    args.refuse_contradictions()?;
    let selected = args.contexts.select(global, args.request_timeout).await?;
    let contexts = selected.contexts;
    if let Some(fleet) = selected.fleet.as_ref().filter(|_| args.shows_fleet()) {
        let report = fleet::report(fleet, &contexts);
        let report = spin("reading the clusters", report).await;
        output::data(&match args.output {
            StatusFormat::Json => output::json(&report)?,
            StatusFormat::Yaml => output::yaml(&report)?,
            _ => matrix::text(&report, terminal_width()),
        })?;
        return Ok(output::exit_code(report.has_problems()));
    }
    if args.watch {
        watch::show(args, &contexts).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut status = if let Some(limit) = args.wait {
        wait(args, &contexts, limit).await?
    } else {
        let asked = async {
            let all = ask(args, &contexts).await?;
            require(args, &contexts, &all).await?;
            anyhow::Ok(all)
        };
        spin("reading the status", Box::pin(asked)).await?
    };
    if let Some(fleet) = selected.fleet.filter(|_| args.is_drawing()) {
        status.topology.compare(&fleet.links, &fleet.namespace);
    }
    let (now, width) = (timing::now(), terminal_width());
    output::data(&render(args, &contexts, &status, now, width)?)?;

    if args.is_table() {
        for error in status.topology.errors() {
            output::error(&anyhow::Error::msg(error));
        }
    }
    let silent = status.topology.has_silent_cluster();
    if let Some(note) = absent(args, &status).filter(|_| !silent) {
        output::note(note);
    }
    Ok(output::exit_code(silent))
}

/// Fails if the target cluster or the Service that was asked for does not exist in any cluster that responded.
async fn require(
    args: &StatusArgs,
    contexts: &[KubeContext],
    status: &StatusView,
) -> anyhow::Result<()> {
    if status.topology.has_silent_cluster() {
        return Ok(());
    }
    if let Some(cluster) = &args.cluster_name
        && status.topology.links.is_empty()
    {
        let linked = linked_clusters(contexts).await;
        let linked: Vec<&str> = linked.iter().map(String::as_str).collect();
        let hint = match linked.as_slice() {
            [] => match contexts {
                [only] => format!("no cluster is linked; link one with {}", only.flags.link()),
                _ => "no cluster is linked".to_owned(),
            },
            linked => format!("linked clusters: {}", linked.join(", ")),
        };
        return Err(fail(format!("no Link to {cluster}"), hint));
    }
    if let Some(name) = args.filter().name
        && status.services.as_ref().is_some_and(Vec::is_empty)
    {
        let namespace = args.filter().namespace;
        let place = namespace.as_ref();
        let place = place.map_or_else(String::new, |namespace| format!("{namespace}/"));
        let hint = if let ([only], Some(namespace)) = (contexts, namespace) {
            let diagnose = only.flags.mc("diagnose {}/{}", &[&namespace, &name]);
            format!("{diagnose} says why")
        } else {
            let all = flags_of_all(contexts).mc("status --services", &[]);
            format!("run {all} to see all")
        };
        return Err(fail(
            format!("no mirror or federated Service is, or comes from, {place}{name}"),
            format!("{hint}; only Services that are exported are mirrored"),
        ));
    }
    Ok(())
}

/// The target clusters of all Links.
async fn linked_clusters(contexts: &[KubeContext]) -> BTreeSet<String> {
    let snapshots = snapshots_of(contexts, Depth::Links).await;
    let links = snapshots
        .iter()
        .flat_map(|snapshot| snapshot.links.iter().flatten());
    links.map(|link| link.cluster().to_owned()).collect()
}

/// Waits until all Links meet the goal. Asks again whenever a Link changes.
async fn wait(
    args: &StatusArgs,
    contexts: &[KubeContext],
    limit: Duration,
) -> anyhow::Result<StatusView> {
    let last = RefCell::new(None);
    let progress = Progress::new("waiting for Links");
    let waiting = progress.during(async {
        let mut changes = watch::changes(contexts)?;
        loop {
            let status = ask(args, contexts).await?;
            let unmet = Unmet::of(args.goal, &status.topology);
            if unmet.is_empty() {
                return Ok(status);
            }
            progress.say(&format!("waiting: {unmet}"));
            last.replace(Some(unmet));
            next_change(&mut changes).await;
        }
    });
    let ended = tokio::time::timeout(limit, Box::pin(waiting)).await;
    ended.unwrap_or_else(|_| {
        let names: Vec<&str> = contexts.iter().map(|context| &*context.name).collect();
        let unmet = last.into_inner().map_or_else(
            || format!("no response from {}", names.join(", ")),
            |unmet| unmet.to_string(),
        );
        let waited = format_go_duration(limit);
        Err(fail(
            format!("{unmet}, after {waited}"),
            format!(
                "run {} for details",
                flags_of_all(contexts).mc("check", &[])
            ),
        ))
    })
}

/// What does not meet the goal.
#[derive(Debug)]
struct Unmet {
    goal: Goal,
    /// Clusters that did not respond.
    silent: Vec<String>,
    /// Links with the controller's reason if there is one.
    links: Vec<String>,
    /// The number of all Links.
    all: usize,
    /// Clusters that responded.
    clusters: Vec<String>,
}

impl Unmet {
    fn of(goal: Goal, topology: &Topology) -> Self {
        let names = |reachable| {
            let clusters = topology.clusters.iter();
            let clusters = clusters.filter(move |c| c.reachable == Some(reachable));
            clusters.map(|c| c.name.clone()).collect()
        };
        let links = &topology.links;
        let unmet = links.iter().filter(|edge| !goal.is_met(&edge.link));
        let unmet = unmet.map(|edge| {
            let name = called(edge, links);
            match edge.link.outdated().or(edge.link.message.as_deref()) {
                Some(why) => format!("{name} ({why})"),
                None => name,
            }
        });
        Self {
            goal,
            silent: names(false),
            links: unmet.collect(),
            all: links.len(),
            clusters: names(true),
        }
    }

    fn is_empty(&self) -> bool {
        self.silent.is_empty() && self.links.is_empty() && self.all > 0
    }
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.silent.is_empty() {
            parts.push(format!("no response from {}", self.silent.join(", ")));
        }
        if !self.links.is_empty() {
            let (count, all, goal) = (self.links.len(), self.all, self.goal);
            let links = self.links.join(", ");
            parts.push(format!("{count} of {all} Links not {goal:?}: {links}"));
        } else if self.all == 0 {
            parts.push(format!("no Link found in {}", self.clusters.join(", ")));
        }
        f.write_str(&parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use observe::clusters::{
        fixtures::{condition, link, snapshots},
        leader::Leader,
        link_summary::LinkSummary,
        topology::{Edge, Topology},
    };
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_of_an_earlier_version_of_the_link_meets_no_goal() {
        for (observed, generation, expected) in [
            (1, Some(1), ""),
            (-1, Some(2), ""),
            (
                1,
                Some(2),
                "1 of 1 Links not Ready: east (the controller has not seen its last change yet)",
            ),
        ] {
            let status = json!({
                "conditions": [condition("Ready", "True", "", 1)], "gateway": {"alive": true},
                "observedGeneration": observed,
            });
            let mut link = link("east", &status);
            link.link.metadata.generation = generation;
            let edge = Edge {
                link: LinkSummary::of(&link),
                ..Edge::default()
            };
            let topology = Topology {
                links: vec![edge],
                ..Topology::default()
            };
            let unmet = Unmet::of(Goal::Ready, &topology);
            assert_eq!(unmet.to_string(), expected);
        }
    }

    #[test]
    fn waiting_ends_when_every_link_meets_the_goal() {
        let edge = |status: serde_json::Value| Edge {
            link: LinkSummary::of(&link("east", &status)),
            ..Edge::default()
        };
        let of = |links: Vec<Edge>| Topology {
            links,
            ..Topology::default()
        };
        let other = |mut edge: Edge| {
            edge.link.cluster = "north".into();
            edge
        };
        let ready = || {
            edge(
                json!({"conditions": [condition("Ready", "True", "", 1)], "gateway": {"alive": true}}),
            )
        };
        let refused = || {
            edge(
                json!({"conditions": [condition("Ready", "False", "refused", 1)], "gateway": {"alive": false}}),
            )
        };
        for (goal, topology, expected) in [
            (Goal::Ready, of(vec![ready()]), ""),
            (
                Goal::Ready,
                of(vec![ready(), other(refused())]),
                "1 of 2 Links not Ready: north (refused)",
            ),
            (
                Goal::Connected,
                of(vec![ready()]),
                "1 of 1 Links not Connected: east",
            ),
            (
                Goal::CredentialsValid,
                of(vec![ready()]),
                "1 of 1 Links not CredentialsValid: east",
            ),
            (Goal::GatewayAlive, of(vec![ready()]), ""),
            (
                Goal::GatewayAlive,
                of(vec![refused()]),
                "1 of 1 Links not GatewayAlive: east (refused)",
            ),
        ] {
            let unmet = Unmet::of(goal, &topology);
            assert_eq!(unmet.to_string(), expected, "{goal:?}");
            assert_eq!(unmet.is_empty(), expected.is_empty(), "{goal:?}");
        }
        let mut silent = ready();
        silent.link.controller = Some(Leader::default());
        let unmet = Unmet::of(Goal::Ready, &of(vec![silent])).to_string();
        let old = "old: no controller is active";
        assert_eq!(unmet, format!("1 of 1 Links not Ready: east ({old})"));
        let mut without = ready();
        without.link.gateway = None;
        assert!(Unmet::of(Goal::GatewayAlive, &of(vec![without])).is_empty());
        let mut snapshots = snapshots();
        let unmet = Unmet::of(Goal::Ready, &Topology::of(&snapshots)).to_string();
        assert_eq!(unmet, "no response from south");
        snapshots.truncate(1);
        snapshots[0].links = Ok(vec![]);
        let none = Unmet::of(Goal::Ready, &Topology::of(&snapshots));
        assert_eq!(none.to_string(), "no Link found in east");
        assert!(!none.is_empty());
    }
}
