//! The cases: each one changes or disturbs the rig while there is a load, checks the result, and restores the rig.

mod controller;
mod definition;
mod discovery;
mod drain;
mod export;
mod exported;
mod faults;
mod fleet;
mod form;
mod gateway;
mod gather;
mod identities;
mod many;
mod migrate;
mod modes;
mod newcomer;
mod order;
mod outages;
mod permitted;
mod prefer;
mod private;
mod reach;
mod rotate;
mod soak;
mod traffic;
mod traps;
mod unlink;
mod verify;
mod walls;

use std::{
    collections::BTreeMap, future::Future, pin::Pin, process::ExitCode, sync::Arc, time::Instant,
};

use anyhow::{Context as _, ensure};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    isolation::{self, Place},
    load::Tally,
    rig::{Posture, Rig, Trust},
    second,
    table::{self, Row},
};

/// With this variable, each cluster has its own trust domain, the gateway forwards only what is exported, and the link has
/// the strict profile.
const STRICT: &str = "LINKERD_MC_MESH_STRICT";

/// A case returns a row of the table, or an error if a check failed.
type Case = fn(&mut Rig) -> Pin<Box<dyn Future<Output = anyhow::Result<Row>> + '_>>;

/// All cases, in the order in which they run.
const CASES: &[(&str, Case)] = &[
    ("all modes are reached and authenticated", |rig| {
        Box::pin(reach::all_modes(rig))
    }),
    ("a StatefulSet's host by its mirror", |rig| {
        Box::pin(reach::host(rig))
    }),
    ("traffic beside the load's own count", |rig| {
        Box::pin(traffic::counted(rig))
    }),
    ("verify with canaries", |rig| {
        Box::pin(verify::with_canaries(rig))
    }),
    ("export label to first answer", |rig| {
        Box::pin(export::to_first_answer(rig))
    }),
    ("controller killed 5 times", |rig| {
        Box::pin(controller::killed(rig))
    }),
    ("leader killed, then a rolling update", |rig| {
        Box::pin(controller::replicas(rig))
    }),
    ("CRD upgraded", |rig| Box::pin(definition::upgraded(rig))),
    ("gateway's proxy killed and back", |rig| {
        Box::pin(gateway::killed(rig))
    }),
    ("local DNS away 45 s", |rig| Box::pin(outages::dns(rig))),
    (
        "back to Linkerd's service mirror and take over again",
        |rig| Box::pin(migrate::there_and_back(rig)),
    ),
    (
        "back to `linkerd multicluster link` and over again",
        |rig| Box::pin(migrate::with_link(rig)),
    ),
    ("mode switched 10 times, each held 30 s", |rig| {
        Box::pin(modes::switched(rig))
    }),
    ("members leave and join", |rig| {
        Box::pin(modes::members(rig))
    }),
    ("federated through the gateway", |rig| {
        Box::pin(form::through_gateway(rig))
    }),
    ("federated form switched 10 times", |rig| {
        Box::pin(form::switched(rig))
    }),
    ("linked again beside a stream with slices", |rig| {
        Box::pin(form::linked_again(rig))
    }),
    ("drain and its end", |rig| Box::pin(drain::under_load(rig))),
    ("local Pods preferred, dead and back", |rig| {
        Box::pin(prefer::local_pods(rig))
    }),
    ("another cluster preferred, dead and back", |rig| {
        Box::pin(prefer::other_cluster(rig))
    }),
    ("three clusters that reach only gateways", |rig| {
        Box::pin(walls::only_gateways(rig))
    }),
    (
        "a fleet of three, rotated, renamed, and then of two",
        |rig| Box::pin(fleet::of_three(rig)),
    ),
    ("the Link loses its gateway, and gets it back", |rig| {
        Box::pin(modes::gateway_lost(rig))
    }),
    ("headless, with a ClusterIP, and back", |rig| {
        Box::pin(modes::headless_and_back(rig))
    }),
    ("a mirror gets a port that clients ask for already", |rig| {
        Box::pin(traps::port_added(rig))
    }),
    ("Services deleted behind the gateway", |rig| {
        Box::pin(traps::service_deleted(rig))
    }),
    ("Linkerd starts while the target is away", |rig| {
        Box::pin(traps::started_in_an_outage(rig))
    }),
    ("diagnose names the causes of faults", |rig| {
        Box::pin(faults::are_named(rig))
    }),
    ("diagnose names two causes at once", |rig| {
        Box::pin(faults::pairs::lead_to_one(rig))
    }),
    ("diagnose finds nothing where all is well", |rig| {
        Box::pin(faults::well::nothing_is_found(rig))
    }),
    ("gather of both clusters", |rig| {
        Box::pin(gather::of_both(rig))
    }),
    ("credentials rotated", |rig| {
        Box::pin(rotate::under_load(rig))
    }),
    ("unlink --apply and link", |rig| {
        Box::pin(unlink::applied(rig))
    }),
    ("linked over a long way", |rig| {
        Box::pin(unlink::far_away(rig))
    }),
    ("unlink piped to kubectl delete, and link", |rig| {
        Box::pin(unlink::printed(rig))
    }),
    ("all objects of a link deleted at once", |rig| {
        Box::pin(unlink::at_once(rig))
    }),
    ("the gateway forwards only what is exported", |rig| {
        Box::pin(exported::only_exported(rig))
    }),
    ("only the gateway can be reached", |rig| {
        Box::pin(private::linked(rig))
    }),
    ("only the gateway, killed 5 times", |rig| {
        Box::pin(private::gateway_killed(rig))
    }),
    ("only the gateway, at new addresses", |rig| {
        Box::pin(private::gateway_moved(rig))
    }),
    ("only controllers reach a private API server", |rig| {
        Box::pin(private::controllers_only(rig))
    }),
    ("only the gateway, rotated and restarted", |rig| {
        Box::pin(private::restarted(rig))
    }),
    ("only the gateway, for Linkerd too", |rig| {
        Box::pin(discovery::through_gateway(rig))
    }),
    ("only the gateway, first sync", |rig| {
        Box::pin(private::compared(rig))
    }),
    // This case is the last one: after it, Linkerd's watches come back one by one, within half a minute.
    ("target API server away 60 s", |rig| {
        Box::pin(outages::target_api(rig))
    }),
];

/// A case without the rig: it starts what it needs.
type Alone = fn(&Arc<Place>) -> Pin<Box<dyn Future<Output = anyhow::Result<Row>> + '_>>;

/// All cases without the rig. They run first.
const ALONE: &[(&str, Alone)] = &[
    ("mirrors compared with those of Linkerd", |place| {
        Box::pin(second::opinions(place))
    }),
    ("a trust domain for each cluster", |place| {
        Box::pin(identities::one_domain_each(place))
    }),
    ("moved to a trust domain for each cluster", |place| {
        Box::pin(identities::moved(place))
    }),
    (
        "the gateway forwards for the clusters that exports name",
        |place| Box::pin(permitted::by_cluster(place)),
    ),
];

/// This case runs only if it is chosen by name.
const SOAK: (&str, Case) = ("soak", |rig| Box::pin(soak::run(rig)));

/// Prints the names of all cases.
pub(crate) fn list() {
    let alone = ALONE.iter().map(|(name, _)| name);
    for name in alone.chain(CASES.iter().map(|(name, _)| name)) {
        println!("{name}: test");
    }
}

/// Whether a name has one of these parts.
fn has(name: &str, parts: &[String]) -> bool {
    parts.iter().any(|part| name.contains(part))
}

/// The cases with one of these parts in their names; all cases if there are no parts.
fn of_parts<C: Copy>(
    cases: &'static [(&'static str, C)],
    parts: &[String],
) -> impl Iterator<Item = (&'static str, C)> {
    let chosen = cases
        .iter()
        .filter(move |(name, _)| parts.is_empty() || has(name, parts));
    chosen.copied()
}

/// The chosen cases with the rig.
fn chosen(parts: &[String]) -> impl Iterator<Item = (&'static str, Case)> {
    of_parts(CASES, parts).chain(has(SOAK.0, parts).then_some(SOAK))
}

/// The chosen cases without the rig.
fn chosen_alone(parts: &[String]) -> impl Iterator<Item = (&'static str, Alone)> {
    of_parts(ALONE, parts)
}

/// Whether any case is chosen.
pub(crate) fn any_is_chosen(parts: &[String]) -> bool {
    chosen(parts).next().is_some() || chosen_alone(parts).next().is_some()
}

/// Runs the chosen cases.
pub(crate) fn run(place: &Arc<Place>, parts: &[String]) -> ExitCode {
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("mesh: failed to start the async runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let logs = place.logs.clone();
    let done = runtime.block_on(async {
        tokio::select! {
            done = run_all(place, parts) => done,
            () = stopped() => isolation::stop(&logs),
        }
    });
    let passed = done.unwrap_or_else(|error| {
        eprintln!("mesh: failed to start the rig: {error:#}");
        false
    });
    if passed {
        let _ = std::fs::remove_dir_all(&logs);
        ExitCode::SUCCESS
    } else {
        eprintln!("mesh: logs are in {}", logs.display());
        ExitCode::FAILURE
    }
}

/// Runs the chosen cases, and returns whether all passed.
async fn run_all(place: &Arc<Place>, parts: &[String]) -> anyhow::Result<bool> {
    let mut rows = Vec::new();
    for (name, case) in chosen_alone(parts) {
        let began = Instant::now();
        let outcome = case(place).await;
        tell(name, began, &outcome);
        rows.push((name, outcome));
    }
    if chosen(parts).next().is_none() {
        return Ok(rows.iter().all(|(_, outcome)| outcome.is_ok()));
    }
    let started = Instant::now();
    let (trust, posture) = if std::env::var_os(STRICT).is_some() {
        (Trust::Own, Posture::Strict)
    } else {
        (Trust::Common, Posture::Open)
    };
    let mut rig = Box::pin(Rig::start(place.clone(), trust, posture)).await?;
    println!("the rig stands after {} s", started.elapsed().as_secs());
    let measured = table::measured(place, rig.west.plane.minor_version().await?)?;
    for (name, case) in chosen(parts) {
        let began = Instant::now();
        let outcome = case(&mut rig).await;
        tell(name, began, &outcome);
        let failed = outcome.is_err();
        rows.push((name, outcome));
        if failed && let Err(error) = rig.heal().await {
            println!("the rig cannot be put right, so no other case is run: {error:#}");
            break;
        }
    }
    table::publish(&rows, &measured)?;
    Ok(rows.iter().all(|(_, outcome)| outcome.is_ok()))
}

/// Says how a case has ended.
fn tell(name: &str, began: Instant, outcome: &anyhow::Result<Row>) {
    let took = began.elapsed().as_secs();
    match outcome {
        Ok(row) => println!(
            "{name}: ok ({took} s), {} of {} requests failed; {}",
            row.failed, row.requests, row.measured
        ),
        Err(error) => println!("{name}: FAILED ({took} s): {error:#}"),
    }
}

/// Waits until the process is asked to stop.
async fn stopped() {
    let [interrupt, terminate] =
        [SignalKind::interrupt(), SignalKind::terminate()].map(|kind| signal(kind));
    let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}

/// A row of the table. Fails if a request failed.
fn without_failures(tallies: &BTreeMap<String, Tally>) -> anyhow::Result<Row> {
    let row = Row::of(tallies);
    let told: Vec<String> = tallies
        .iter()
        .map(|(name, tally)| format!("\n    {name}: {tally}"))
        .collect();
    ensure!(row.failed == 0, "requests failed:{}", told.concat());
    let without = tallies.iter().find(|(_, tally)| tally.requests == 0);
    ensure!(without.is_none(), "not all got requests:{}", told.concat());
    Ok(row)
}

/// The tally of a mirror. Fails if there is none.
fn of<'a>(tallies: &'a BTreeMap<String, Tally>, name: &str) -> anyhow::Result<&'a Tally> {
    tallies
        .get(name)
        .with_context(|| format!("no requests to {name}"))
}
