//! `status`: the state of Links, and what they mirror.

mod args;
mod ask;
mod services;
mod view;
mod watch;

use std::process::ExitCode;

pub(crate) use self::args::StatusArgs;
use self::{
    args::Goal,
    ask::ask,
    view::{StatusView, absent, render},
};
use super::common::{
    args::Global,
    output,
    table::terminal_width,
    wait::{Progress, spin},
};
use crate::{
    clusters::{cluster_client::KubeContext, topology::Topology},
    hint::fail,
    timing,
};

/// Runs the command. Exit code 1 if a cluster did not respond, or `--wait` timed out.
pub(crate) async fn run(global: &Global, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    let contexts = args.contexts.select(global, args.request_timeout).await?;
    if args.watch {
        watch::show(args, &contexts).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = if args.wait {
        wait(args, &contexts).await?
    } else {
        spin("reading the status", ask(args, &contexts)).await?
    };
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

/// Waits until all Links meet the goal. Asks again whenever a Link changes.
async fn wait(args: &StatusArgs, contexts: &[KubeContext]) -> anyhow::Result<StatusView> {
    let mut last = Vec::new();
    let progress = Progress::new("waiting");
    let waiting = progress.during(async {
        let mut changes = watch::changes(contexts)?;
        loop {
            let status = ask(args, contexts).await?;
            last = unmet(args.goal, &status.topology);
            if last.is_empty() {
                return Ok(status);
            }
            progress.say(&format!("waiting for {}", last.join(", ")));
            watch::next(&mut changes).await;
        }
    });
    match tokio::time::timeout(args.timeout, waiting).await {
        Ok(result) => result,
        Err(_) => Err(fail(
            format!(
                "not {:?} after {}: {}",
                args.goal,
                crate::api::duration::format_go_duration(args.timeout),
                if last.is_empty() {
                    "no response".to_owned()
                } else {
                    last.join(", ")
                }
            ),
            "run `linkerd-mc check` for details",
        )),
    }
}

/// The Links and clusters that do not meet the goal yet, with the controller's reason if there is one.
fn unmet(goal: Goal, topology: &Topology) -> Vec<String> {
    if topology.links.is_empty() {
        return vec!["a Link".to_owned()];
    }
    let silent = topology
        .clusters
        .iter()
        .filter(|c| c.reachable == Some(false))
        .map(|c| c.name.clone());
    let unmet = topology
        .links
        .iter()
        .filter(|edge| !goal.is_met(&edge.link))
        .map(|edge| {
            let cluster = &edge.link.cluster;
            match &edge.link.message {
                Some(message) => format!("{cluster} ({message})"),
                None => cluster.clone(),
            }
        });
    silent.chain(unmet).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::clusters::{
        link_summary::{
            LinkSummary,
            tests::{condition, link},
        },
        topology::{Edge, Topology, tests::snapshots},
    };

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
            (Goal::Ready, of(vec![]), "a Link"),
            (Goal::Ready, of(vec![ready()]), ""),
            (Goal::Ready, of(vec![ready(), refused()]), "east (refused)"),
            (Goal::Connected, of(vec![ready()]), "east"),
            (Goal::CredentialsValid, of(vec![ready()]), "east"),
            (Goal::GatewayAlive, of(vec![ready()]), ""),
            (Goal::GatewayAlive, of(vec![refused()]), "east (refused)"),
        ] {
            assert_eq!(unmet(goal, &topology).join(", "), expected, "{goal:?}");
        }
        let mut without = ready();
        without.link.gateway = None;
        assert_eq!(unmet(Goal::GatewayAlive, &of(vec![without])), [""; 0]);
        assert_eq!(unmet(Goal::Ready, &Topology::of(&snapshots()))[0], "south");
    }
}
