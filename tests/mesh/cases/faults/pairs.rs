//! Two faults at once. `diagnose` has to name one of them, or a symptom of both with what may have caused it, and never
//! anything else; when that is fixed as it says, it has to name the other one, unless requests are answered.
//!
//! `LINKERD_MC_MESH_PAIRS` sets the number of pairs, and `LINKERD_MC_MESH_SEED` repeats those of an earlier run.
//! `LINKERD_MC_FAULT` chooses pairs of which both names have one of its parts.

use std::{
    env,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;
use tokio::time::timeout;

use super::{CHOSEN, Fault, faults, paste_all, scene, scene::Scene, text};
use crate::{
    load::{Load, until_answered},
    rig::{
        Rig,
        mirrors::{FEDERATED, FLAT, GATED, MODES},
        wait::SOON,
        workloads::PORT,
    },
    table::{Row, seconds},
};

/// Causes that are symptoms, and list what may have caused them.
const SYMPTOMS: [&str; 5] = [
    "NothingDiscovered",
    "GatewayUnreachable",
    "ProbesFail",
    "ConnectionFailed",
    "RequestsFail",
];

/// How long the first of two faults may take to be mended, until the other one is.
const HELD_UP: Duration = Duration::from_secs(45);

/// How long requests may take to be answered where nothing is wrong any more, before `diagnose` is asked again.
const SETTLED: Duration = Duration::from_secs(10);

/// A Service and its port.
type Called = (&'static str, u16);
type Pair<'f> = [&'f Fault; 2];

/// What is counted.
#[derive(Default)]
struct Counts {
    symptoms: usize,
    commands: usize,
    slowest: Duration,
}

/// Makes pairs of faults, one pair after the other.
pub(crate) async fn lead_to_one(rig: &mut Rig) -> anyhow::Result<Row> {
    let number = |name: &str| env::var(name).ok()?.parse::<u64>().ok();
    let count = number("LINKERD_MC_MESH_PAIRS").unwrap_or(1);
    let seed = number("LINKERD_MC_MESH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("pairs of faults: {count}, LINKERD_MC_MESH_SEED={seed}");
    let all = faults();
    let (mut counts, mut wrong) = (Counts::default(), Vec::new());
    let pairs = spread(&all, seed, usize::try_from(count)?);
    for (pair, called) in &pairs {
        let what = format!("{} + {}", pair[0].name, pair[1].name);
        let began = Instant::now();
        if let Err(error) = hold(rig, *pair, *called, &mut counts).await {
            println!("  {what}: FAILED: {error:#}");
            wrong.push(what);
            rig.heal().await?;
            continue;
        }
        println!("  {what}: right ({})", seconds(began.elapsed()));
    }
    scene::forget_destination(rig).await?;
    ensure!(!pairs.is_empty(), "no pair is chosen");
    ensure!(wrong.is_empty(), "wrong: {}", wrong.join(", "));
    Ok(Row {
        requests: count,
        failed: 0,
        oracle: "right".to_owned(),
        measured: format!(
            "{} pairs, {} symptoms named, {} commands run, the slowest diagnosis after {}",
            pairs.len(),
            counts.symptoms,
            counts.commands,
            seconds(counts.slowest)
        ),
    })
}

/// What of the rig a fault takes for itself. Two that take the same cannot be made at once.
fn takes(fault: &Fault) -> &'static [&'static str] {
    match fault.found.1 {
        "ControllerDown"
        | "LeaseHeldByNobody"
        | "TargetApiUnreachable"
        | "CertificateInvalid"
        | "CredentialsExpired"
        | "CredentialsRefused"
        | "CredentialsUnusable" => &["controller"],
        "NamespaceMissing"
        | "NameConflict"
        | "NotExported"
        | "MissingInTarget"
        | "ForeignEndpoints"
        | "RouteBackendMissing" => &["late"],
        "PortNotDeclared" => &["late", "port"],
        // Only this client was refused.
        "PortRefusalKept" => &["late", "port", "client"],
        "OutboundPortSkipped" => &["port", "client"],
        "NotInjected" | "ClientTerminating" => &["client"],
        "DestinationDown" => &["late", "destination"],
        "LinkerdSecretMissing" | "LinkerdSecretStale" => &["destination"],
        "Drained" | "RouteConflict" | "ServiceProfileConflict" | "FailedOver" => &["preference"],
        "GatewayDown"
        | "ProbePortClosed"
        | "GatewayPortClosed"
        | "GatewayIdentityWrong"
        | "GatewayPortWrong" => &["gateway"],
        "NetworksOverlap" | "NoReadyPods" => &["pods"],
        "ServerDenies" => &["policy"],
        _ => &[],
    }
}

impl Fault {
    fn takes(&self, what: &str) -> bool {
        takes(self).contains(&what)
    }

    /// Whether it is one of whatever Service is called: of the Pod that calls, or of the controller.
    fn is_everywhere(&self) -> bool {
        self.takes("controller") || self.takes("client") && !self.takes("late")
    }

    /// Faults that start another client come before those of the client, and those that need the controller to work come
    /// before those that stop it.
    fn stage(&self) -> u8 {
        u8::from(self.takes("client")) + 2 * u8::from(self.takes("controller"))
    }
}

/// The Service whose requests meet both faults, if they hold at once.
fn common([first, second]: Pair<'_>) -> Option<Called> {
    if takes(first).iter().any(|what| second.takes(what)) {
        return None;
    }
    match [first.called, second.called] {
        [one, other] if one == other => Some(one),
        [one, (GATED, PORT)] if second.is_everywhere() => Some(one),
        [(GATED, PORT), other] if first.is_everywhere() => Some(other),
        [(FLAT, PORT), (FEDERATED, PORT)] | [(FEDERATED, PORT), (FLAT, PORT)] => {
            Some((FEDERATED, PORT))
        }
        [(GATED, PORT), other] if ![FLAT, FEDERATED].contains(&other.0) => Some(other),
        [one, (GATED, PORT)] if ![FLAT, FEDERATED].contains(&one.0) => Some(one),
        [one, _] if second.is_everywhere() => Some(one),
        [_, other] if first.is_everywhere() => Some(other),
        _ => None,
    }
}

/// This many pairs that hold at once. The seed shuffles all; then each one taken is the first of the two layers that were
/// taken least, and among those the first whose faults were taken least.
fn spread(all: &[Fault], seed: u64, count: usize) -> Vec<(Pair<'_>, Called)> {
    let chosen = env::var(CHOSEN).unwrap_or_default();
    let is_chosen = |fault: &&Fault| chosen.split(',').any(|part| fault.name.contains(part));
    let all: Vec<&Fault> = all.iter().filter(is_chosen).collect();
    let mut left = Vec::new();
    for (at, first) in all.iter().enumerate() {
        for second in &all[at + 1..] {
            let mut pair = [*first, *second];
            pair.sort_by_key(|fault| fault.stage());
            left.extend(common(pair).map(|called| (pair, called)));
        }
    }
    println!("{} pairs hold at once", left.len());
    fastrand::Rng::with_seed(seed).shuffle(&mut left);
    let layers = |pair: Pair<'_>| {
        let mut layers = pair.map(|fault| fault.found.0);
        layers.sort_unstable();
        layers
    };
    let mut taken: Vec<(Pair<'_>, Called)> = Vec::new();
    while taken.len() < count && !left.is_empty() {
        let rank = |(pair, _): &(Pair<'_>, Called)| {
            let with = |fault: &Fault| {
                let pairs = taken.iter().flat_map(|(pair, _)| pair);
                pairs.filter(|other| other.name == fault.name).count()
            };
            let same = taken
                .iter()
                .filter(|(other, _)| layers(*other) == layers(*pair));
            (same.count(), with(pair[0]) + with(pair[1]))
        };
        let ranks: Vec<_> = left.iter().map(rank).collect();
        let least = (0..left.len()).min_by_key(|at| ranks[*at]);
        taken.push(left.remove(least.unwrap_or_default()));
    }
    taken
}

/// Makes both faults, ends them as `diagnose` says, and looks whether all is well again.
async fn hold(
    rig: &mut Rig,
    pair: Pair<'_>,
    called: Called,
    counts: &mut Counts,
) -> anyhow::Result<()> {
    let mut scene = Scene::begin(rig).await?;
    let ended = end_both(&mut scene, pair, called, counts).await;
    for fault in pair {
        if ended.is_err() {
            let _ = (fault.mend)(&mut scene).await;
        }
        let restored = (fault.end)(&mut scene).await;
        if ended.is_ok() {
            restored.context("failed to restore the rig")?;
        }
    }
    let cleaned = scene.clean().await;
    if !ended? {
        rig.heal().await?;
    }
    cleaned?;
    let mut scene = Scene::begin(rig).await?;
    for mirror in MODES {
        let target = scene.target(mirror, PORT).await?;
        until_answered(&scene.client(), &target).await?;
        let what = format!("{} + {}", pair[0].name, pair[1].name);
        scene.is_well(mirror, PORT, &what).await?;
    }
    Ok(())
}

/// Returns whether both were named: after a symptom, the rig has to be healed.
async fn end_both(
    scene: &mut Scene<'_>,
    pair: Pair<'_>,
    mut called: Called,
    counts: &mut Counts,
) -> anyhow::Result<bool> {
    let mut left = pair.to_vec();
    let (mut fails, mut held_up) = (false, Vec::new());
    for fault in pair {
        let made = (fault.make)(scene).await;
        made.with_context(|| format!("failed to make {}", fault.name))?;
        let is_met = called == fault.called && called.0 != FEDERATED;
        fails |= fault.breaks && (is_met || !fault.takes("controller") && called.0 != FEDERATED);
        fails |= fault.takes("client");
    }
    if fails {
        scene.is_not_answered(called.0, called.1).await?;
    }
    while let Some(next) = left.first() {
        let Some((found, at)) = named(scene, &left, called, counts).await? else {
            // The first fix has brought requests another way, or has fixed both.
            if called == next.called {
                left.remove(0);
            }
            called = left.first().map_or(called, |next| next.called);
            continue;
        };
        println!("    {}", text(&found, "cause"));
        let Some(at) = at else {
            counts.symptoms += 1;
            return Ok(false);
        };
        ensure!(
            !fails || left.len() < 2 || text(&found, "level") == "error",
            "requests fail: {found:#}"
        );
        let fault = left.remove(at);
        counts.commands += paste_all(scene, &found).await?;
        // It may wait for what the other fault holds up.
        match timeout(HELD_UP, (fault.mend)(scene)).await {
            Ok(Ok(())) => {}
            _ => held_up.push(fault),
        }
    }
    for fault in held_up {
        (fault.mend)(scene).await.context("failed to mend it")?;
    }
    let target = scene.target(called.0, called.1).await?;
    until_answered(&scene.client(), &target).await?;
    Ok(true)
}

/// The cause that is named, and which of the faults it is: none if it is a symptom. `None` if nothing is wrong any more. A
/// fix may need a moment, but the first answer has to be right at once.
async fn named(
    scene: &mut Scene<'_>,
    left: &[&Fault],
    called: Called,
    counts: &mut Counts,
) -> anyhow::Result<Option<(Value, Option<usize>)>> {
    let end = Instant::now() + SOON;
    loop {
        let found = asked(scene, called, counts).await?;
        let finding = &found["finding"];
        let name = text(finding, "cause");
        let at = left.iter().position(|fault| fault.found.1 == name);
        if at.is_some() || left.len() == 2 && SYMPTOMS.contains(&name) {
            return Ok(Some((finding.clone(), at)));
        }
        // A proxy may ask Linkerd again only now, so that it counts nothing yet.
        if finding.is_null() && left.len() == 1 {
            let target = scene.target(called.0, called.1).await?;
            let answered = timeout(SETTLED, until_answered(&scene.client(), &target)).await;
            if answered.is_ok_and(|answered| answered.is_ok()) {
                return Ok(None);
            }
        }
        if left.len() == 2 || Instant::now() > end {
            bail!("{name:?} is named: {found:#}");
        }
    }
}

/// A diagnosis while the Service is called, if it exists.
async fn asked(
    scene: &mut Scene<'_>,
    (service, port): Called,
    counts: &mut Counts,
) -> anyhow::Result<Value> {
    let target = scene.existing(service, port).await?;
    let load = target.map(|target| Load::start(&scene.client(), &[target]));
    let (found, took) = scene.diagnose(service, port).await?;
    drop(load);
    counts.slowest = counts.slowest.max(took);
    Ok(found)
}
