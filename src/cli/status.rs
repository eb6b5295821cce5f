//! `status`: how Links are, and what they bring.

mod credentials;
mod services;
mod view;
mod watch;

use std::{process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use futures::future::join_all;
use jiff::Timestamp;

use self::{
    services::{ServiceRow, rows},
    view::{Shape, Status},
};
use super::{
    args::{Global, duration},
    cluster::block_on,
    complete,
    fleet::{Contexts, Member, survey_all},
    output,
    progress::{Progress, spin},
    table::terminal_width,
};
use crate::{
    check::{
        facts::{LinkFacts, Survey},
        gather,
        state::{Condition, LinkState},
        survey::Depth,
        topology::{Fleet, fleet},
    },
    controller::clock,
    hint::fail,
    manifests::yaml,
};

/// What stands for an empty table.
const NO_LINKS: &str = "no Links found";

const EXAMPLES: &str = "\
Examples:
  # The Links of the current context's cluster
  linkerd-mc status

  # Each mirror, where it comes from and whether it has endpoints
  linkerd-mc status --services

  # Two clusters at once, and whether they link to one another
  linkerd-mc status --context east,west

  # In a script: wait until all Links are ready
  linkerd-mc status --wait --for=Ready --timeout=2m";

/// Show how Links are: connected, gateway, credentials, what is mirrored
///
/// Below the table stands what is wrong. Of the credentials of a Link that is the first thing that `check` finds: in the
/// Secret of the controller, in that of Linkerd, or that Linkerd does not use the one it has. Nothing is said of Secrets
/// that you may not read.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    contexts: Contexts,
    /// Only Links to this target cluster
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::clusters))]
    cluster_name: Option<String>,
    /// Show each mirror and federated Service
    #[arg(long)]
    services: bool,
    /// Format of the output
    #[arg(short, long, value_name = "FORMAT", default_value = "table")]
    output: Format,
    /// Show again whenever something changes, until interrupted
    #[arg(short, long, conflicts_with = "wait")]
    watch: bool,
    /// Wait until all Links meet --for, and fail when they do not within --timeout
    #[arg(long)]
    wait: bool,
    /// Condition that --wait waits for
    #[arg(
        long = "for",
        value_name = "CONDITION",
        default_value = "Ready",
        ignore_case = true
    )]
    goal: Goal,
    /// Time limit of --wait
    #[arg(long, value_name = "DURATION", default_value = "5m0s", value_parser = duration)]
    timeout: Duration,
    /// Time limit of a request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration)]
    request_timeout: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A row a Link
    Table,
    /// All columns
    Wide,
    /// A JSON object
    Json,
    /// A YAML document
    Yaml,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Goal {
    /// Credentials valid, connected, and everything written that can be
    #[value(name = "Ready")]
    Ready,
    /// The target cluster's API server answers
    #[value(name = "Connected")]
    Connected,
    /// The credentials can be used
    #[value(name = "CredentialsValid")]
    CredentialsValid,
    /// The gateway answers probes (a Link without one meets it)
    #[value(name = "GatewayAlive")]
    GatewayAlive,
}

impl Goal {
    fn is_met(self, link: &LinkState) -> bool {
        let condition = match self {
            Self::Ready => Condition::Ready,
            Self::Connected => Condition::Connected,
            Self::CredentialsValid => Condition::CredentialsValid,
            Self::GatewayAlive if link.gateway.is_none() => return true,
            Self::GatewayAlive => Condition::GatewayAlive,
        };
        link.condition(condition) == Some(true)
    }
}

/// Shows the status. Exit code 1 when a cluster did not answer, or --wait was in vain.
pub(crate) fn run(global: &Global, args: &StatusArgs) -> anyhow::Result<ExitCode> {
    block_on(async {
        let members = args.contexts.members(global, args.request_timeout).await?;
        if args.watch {
            watch::show(args, &members).await?;
            return Ok(ExitCode::SUCCESS);
        }
        let status = if args.wait {
            wait(args, &members).await?
        } else {
            spin("asking for the status", ask(args, &members)).await?
        };
        output::data(&render(
            args,
            &members,
            &status,
            clock::now(),
            terminal_width(),
        )?)?;

        let silent = status
            .fleet
            .clusters
            .iter()
            .any(|c| c.reachable == Some(false));
        if args.is_table() && status.fleet.links.is_empty() && !silent {
            output::note(NO_LINKS);
        }
        Ok(if silent {
            ExitCode::FAILURE
        } else {
            ExitCode::SUCCESS
        })
    })
}

/// Asks all clusters once.
async fn ask(args: &StatusArgs, members: &[Member]) -> anyhow::Result<Status> {
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
            "is the cluster up, and are you permitted to list Links? `linkerd-mc check` says more",
        ));
    }
    let services = if args.services {
        Some(ask_services(args, members, &surveys).await?)
    } else {
        None
    };
    let mut fleet = fleet(&surveys);
    credentials::note(&mut fleet, &surveys, &destinations, clock::now());
    // Which way Links lead was judged by all of them.
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
            "--services needs to list Services and EndpointSlices in all namespaces",
        )
    };
    let mirrors = mirrors.map_err(|why| failed("the Services", why))?;
    let endpoints = endpoints.map_err(|why| failed("the EndpointSlices", why))?;
    Ok(rows(name, links, &mirrors, &endpoints, cluster))
}

/// What is printed of a status.
fn render(
    args: &StatusArgs,
    members: &[Member],
    status: &Status,
    now: Timestamp,
    width: Option<usize>,
) -> anyhow::Result<String> {
    Ok(match args.output {
        Format::Json => serde_json::to_string_pretty(status)? + "\n",
        Format::Yaml => yaml::to_yaml(status)?,
        Format::Table | Format::Wide => {
            let shape = args.shape(members);
            let table = match &status.services {
                Some(services) => view::services(services, shape),
                None => view::links(&status.fleet, shape, now),
            };
            let mut text = if table.is_empty() {
                String::new()
            } else {
                table.render(width)
            };
            let services = status.services.as_deref().unwrap_or_default();
            let mut notes = view::absences(services, shape, now);
            notes.extend(view::notes(&status.fleet, shape));
            if !notes.is_empty() && !text.is_empty() {
                text.push('\n');
            }
            for note in notes {
                text.push_str(&crate::check::printable(&note));
                text.push('\n');
            }
            text
        }
    })
}

impl StatusArgs {
    fn is_table(&self) -> bool {
        matches!(self.output, Format::Table | Format::Wide)
    }

    fn shape(&self, members: &[Member]) -> Shape {
        Shape {
            fleet: members.len() > 1,
            wide: self.output == Format::Wide,
        }
    }
}

/// Waits until all Links meet the goal. Asks again whenever a Link changes.
async fn wait(args: &StatusArgs, members: &[Member]) -> anyhow::Result<Status> {
    let mut last = Vec::new();
    let progress = Progress::new("waiting");
    let waiting = progress.during(async {
        let mut changes = watch::changes(members)?;
        loop {
            let status = ask(args, members).await?;
            last = unmet(args.goal, &status.fleet);
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
                "not {:?} within {}: {}",
                args.goal,
                crate::api::duration::format_go_duration(args.timeout),
                if last.is_empty() {
                    "no answer".to_owned()
                } else {
                    last.join(", ")
                }
            ),
            "`linkerd-mc check` says what is wrong",
        )),
    }
}

/// What does not meet the goal yet, with the reason where the controller gives one.
fn unmet(goal: Goal, fleet: &Fleet) -> Vec<String> {
    if fleet.links.is_empty() {
        return vec!["a Link".to_owned()];
    }
    let silent = fleet
        .clusters
        .iter()
        .filter(|c| c.reachable == Some(false))
        .map(|c| c.name.clone());
    let unmet = fleet
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
    use crate::check::{
        state::tests::{condition, link},
        topology::{Edge, tests::surveys},
    };

    #[test]
    fn waiting_ends_when_every_link_meets_the_goal() {
        let edge = |status: serde_json::Value| Edge {
            link: LinkState::of(&link("east", &status)),
            ..Edge::default()
        };
        let of = |links: Vec<Edge>| Fleet {
            links,
            ..Fleet::default()
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
        for (goal, fleet, expected) in [
            (Goal::Ready, of(vec![]), "a Link"),
            (Goal::Ready, of(vec![ready()]), ""),
            (Goal::Ready, of(vec![ready(), refused()]), "east (refused)"),
            (Goal::Connected, of(vec![ready()]), "east"),
            (Goal::CredentialsValid, of(vec![ready()]), "east"),
            (Goal::GatewayAlive, of(vec![ready()]), ""),
            (Goal::GatewayAlive, of(vec![refused()]), "east (refused)"),
        ] {
            assert_eq!(unmet(goal, &fleet).join(", "), expected, "{goal:?}");
        }
        let mut without = ready();
        without.link.gateway = None;
        assert_eq!(unmet(Goal::GatewayAlive, &of(vec![without])), [""; 0]);
        assert_eq!(unmet(Goal::Ready, &fleet(&surveys()))[0], "south");
    }
}
