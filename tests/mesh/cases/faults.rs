//! Faults on the way of a request. For each, `diagnose` has to name the right cause in the right layer, within ten seconds;
//! the commands that it prints are run; and the request is answered.
//!
//! `LINKERD_MC_FAULT` chooses faults by parts of their names, separated by commas.

mod client;
mod credentials;
mod linkerd;
mod network;
mod objects;
pub(super) mod pairs;
mod policies;
mod routes;
mod scene;
mod target;
pub(super) mod well;

use std::{env, future::Future, pin::Pin, time::Duration};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use self::scene::Scene;
use crate::{
    load::until_answered,
    rig::Rig,
    table::{Row, seconds},
};

/// How long a diagnosis may take.
const LIMIT: Duration = Duration::from_secs(10);
/// Chooses faults by parts of their names.
const CHOSEN: &str = "LINKERD_MC_FAULT";

/// Faults that `diagnose` has to find without the name of a Service.
const FOUND_UNASKED: [&str; 2] = [
    "gateway down",
    "gateway's port closed, and its probe's open",
];

/// Something that is done to the rig.
type Step = for<'a> fn(&'a mut Scene<'_>) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>>;

/// A fault, and what has to be found.
struct Fault {
    name: &'static str,
    /// The Service and port that are called.
    called: (&'static str, u16),
    /// The layer and the cause.
    found: (&'static str, &'static str),
    /// Whether requests fail; otherwise they go elsewhere, or changes do not arrive.
    breaks: bool,
    /// Makes the fault, and waits until it is in force.
    make: Step,
    /// Does what printed commands leave to people, kubelets and time.
    mend: Step,
    /// Restores the rig, after the request was answered.
    end: Step,
}

const fn broken(
    name: &'static str,
    called: (&'static str, u16),
    found: (&'static str, &'static str),
    make: Step,
) -> Fault {
    Fault {
        name,
        called,
        found,
        breaks: true,
        make,
        mend: nothing,
        end: nothing,
    }
}

const fn degraded(
    name: &'static str,
    called: (&'static str, u16),
    found: (&'static str, &'static str),
    make: Step,
) -> Fault {
    Fault {
        breaks: false,
        ..broken(name, called, found, make)
    }
}

impl Fault {
    const fn mended_by(self, mend: Step) -> Self {
        Self { mend, ..self }
    }

    const fn ended_by(self, end: Step) -> Self {
        Self { end, ..self }
    }
}

fn nothing<'a>(_: &'a mut Scene<'_>) -> Pin<Box<dyn Future<Output = anyhow::Result<()>> + 'a>> {
    Box::pin(async { Ok(()) })
}

/// All faults, in the order in which they are made.
fn faults() -> Vec<Fault> {
    [
        objects::faults(),
        credentials::faults(),
        routes::faults(),
        client::faults(),
        linkerd::faults(),
        network::faults(),
        policies::faults(),
        target::faults(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Makes all faults, one after the other.
pub(super) async fn are_named(rig: &mut Rig) -> anyhow::Result<Row> {
    let chosen = env::var(CHOSEN).unwrap_or_default();
    let (mut failures, mut slowest, mut count) = (Vec::new(), Duration::ZERO, 0);
    for fault in faults() {
        if !chosen.split(',').any(|part| fault.name.contains(part)) {
            continue;
        }
        count += 1;
        let mut scene = Scene::begin(rig).await?;
        match hold(&mut scene, &fault).await {
            Ok(took) => {
                println!("  {}: {} ({})", fault.name, fault.found.1, seconds(took));
                slowest = slowest.max(took);
            }
            Err(error) => {
                println!("  {}: FAILED: {error:#}", fault.name);
                failures.push(fault.name);
                // Whatever can be undone.
                let _ = (fault.mend)(&mut scene).await;
                let _ = (fault.end)(&mut scene).await;
                let _ = scene.clean().await;
                rig.heal().await?;
                continue;
            }
        }
        scene.clean().await?;
    }
    scene::forget_destination(rig).await?;
    ensure!(count > 0, "no fault is named like {chosen}");
    ensure!(failures.is_empty(), "wrong: {}", failures.join(", "));
    Ok(Row {
        requests: count,
        failed: 0,
        oracle: "right".to_owned(),
        measured: format!(
            "{count} causes named, the slowest after {}",
            seconds(slowest)
        ),
    })
}

/// Makes one fault, and ends it as `diagnose` says. Returns how long the diagnosis took.
async fn hold(scene: &mut Scene<'_>, fault: &Fault) -> anyhow::Result<Duration> {
    let (service, port) = fault.called;
    (fault.make)(scene)
        .await
        .context("failed to make the fault")?;
    if fault.breaks {
        scene.is_not_answered(service, port).await?;
    }
    let (found, took) = scene.diagnose(service, port).await?;
    let finding = &found["finding"];
    let (layer, name) = (text(&found, "layer"), text(finding, "cause"));
    ensure!(
        (layer, name) == fault.found,
        "{layer} {name} is named: {found:#}"
    );
    let level = if fault.breaks { "error" } else { "warning" };
    ensure!(text(finding, "level") == level, "{found:#}");
    ensure!(took <= LIMIT, "the diagnosis took {took:?}");

    if FOUND_UNASKED.contains(&fault.name) {
        let overview = scene.overview(service, port).await?;
        let (group, worst) = (&overview["requests"]["failing"][0], &overview["worst"]);
        let seen = (
            text(group, "cluster"),
            text(&group["services"][0], "service"),
            text(&worst["diagnosis"]["finding"], "cause"),
        );
        ensure!(
            seen == ("east", service, name) && overview["success"] == false,
            "{overview:#}"
        );
    }

    paste_all(scene, finding).await?;
    (fault.mend)(scene).await.context("failed to mend it")?;
    let target = scene.target(service, port).await?;
    let client = scene.client();
    until_answered(&client, &target).await?;
    scene.is_well(service, port, fault.found.1).await?;
    (fault.end)(scene)
        .await
        .context("failed to restore the rig")?;
    Ok(took)
}

/// Runs the commands that are printed for a cause. Returns how many.
async fn paste_all(scene: &mut Scene<'_>, finding: &Value) -> anyhow::Result<usize> {
    let commands = finding["commands"].as_array().context("no commands")?;
    ensure!(!commands.is_empty(), "no command is printed: {finding:#}");
    for command in commands {
        scene.paste(text(command, "command")).await?;
    }
    // Deployments are followed until the script ends, which may be too early for what it has changed.
    scene.paste("true").await?;
    Ok(commands.len())
}

/// A field of a document.
fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document[field].as_str().unwrap_or_default()
}
