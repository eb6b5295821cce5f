//! Work that cannot make progress uses no CPU time, and does not delay other work.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use control_plane::{Verdict, eventually};
use futures::{StreamExt as _, stream};
use kube::api::{ListParams, PostParams};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    controller::Controller,
    faults::refusal,
    gateways::Gateways,
    installation::{CONTROLLER, CONTROLLER_GROUPS},
    links::{edit, in_step, is_well, own_link, unlink},
    objects::{export, gone, namespace, relabel, service, services, web},
    planes::alone,
};

/// How long a controller that cannot make progress is observed.
const OBSERVED: Duration = Duration::from_secs(10);
/// CPU time that it may use in this time.
const IDLE: Duration = Duration::from_millis(200);

/// User and system time of a process so far.
fn cpu(pid: u32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Fields 14 and 15, counted from 1. The name before them may contain spaces. A tick is 1/100 s on Linux.
    let (_, after) = stat.rsplit_once(')').unwrap();
    let ticks = after.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}

/// Asserts that a controller that cannot make progress uses almost no CPU time.
async fn is_idle(controller: &Controller) {
    let before = cpu(controller.pid());
    tokio::time::sleep(OBSERVED).await;
    let took = cpu(controller.pid()).saturating_sub(before);
    eprintln!("{took:?} of processor time in {OBSERVED:?}");
    assert!(took < IDLE, "{took:?} in {OBSERVED:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_uses_no_cpu_while_all_write_slots_are_taken() {
    const SLOTS: usize = 2;
    const SERVICES: usize = 8;
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("slots", &[source, far]).await;
    own_link(source, far, "slots", &[]).await;
    let server = source
        .intercept(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    let gateways = Gateways::start();
    let slots = format!("--max-in-flight-writes={SLOTS}");
    let flags = ["--probe-address", &gateways.address(), &slots];
    let controller = Controller::start_through(source, &server.url(), &flags);
    is_well(source, "slots").await;

    // The API server fails the first writes, so their keys wait. It never answers the next writes, which take all
    // slots.
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    server.judge(move |asked| {
        if !asked.is_write() || !asked.uri.path().contains("/namespaces/slots/") {
            return Verdict::Forward;
        }
        if seen.fetch_add(1, Ordering::SeqCst) < SERVICES - SLOTS {
            refusal(500, "InternalError")
        } else {
            Verdict::Hold
        }
    });
    let name = |number: usize| format!("web-{number}");
    for number in 0..SERVICES {
        export(far, "slots", &web(&name(number), "slots")).await;
    }
    eventually("all slots to be taken", SOON, async || {
        Ok((asked.load(Ordering::SeqCst) >= SERVICES).then_some(()))
    })
    .await
    .unwrap();
    is_idle(&controller).await;

    server.forward();
    server.cut();
    for number in 0..SERVICES {
        let mirror = format!("{}-slots", name(number));
        service(source, "slots", &mirror, |_| true).await;
    }
    in_step(source, "slots", &[]).await;
    unlink(source, "slots").await;
    gone(source, "slots", "web-0-slots").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn leader_uses_no_cpu_while_it_cannot_list_its_own_cluster() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("unlisted", &[source, far]).await;
    own_link(source, far, "unlisted", &[]).await;
    export(far, "unlisted", &web("web", "unlisted")).await;
    let server = source
        .intercept(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    server.judge(|asked| {
        if asked.is_list("namespaces") {
            refusal(403, "Forbidden")
        } else {
            Verdict::Forward
        }
    });
    let gateways = Gateways::start();
    let flags = ["--probe-address", &gateways.address()];
    let controller = Controller::start_through(source, &server.url(), &flags);
    // Waits until the controller has listed everything except for the refused kind.
    eventually("the target cluster to be listed", SOON, async || {
        let log = controller.log();
        Ok(
            (log.contains("listed the target cluster link=") && log.contains("watch Namespaces"))
                .then_some(()),
        )
    })
    .await
    .unwrap();
    is_idle(&controller).await;

    server.forward();
    service(source, "unlisted", "web-unlisted", |_| true).await;
    in_step(source, "unlisted", &[]).await;
    unlink(source, "unlisted").await;
    gone(source, "unlisted", "web-unlisted").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unresponsive_cluster_delays_its_own_removals_and_nothing_else() {
    const SERVICES: usize = 150;
    /// How soon changes of the other cluster have to be mirrored. If all clusters answer, it takes 0.3 s.
    const PROMPT: Duration = Duration::from_secs(5);
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("unanswered", &[source, far]).await;
    own_link(source, far, "hangs", &[]).await;
    // The source cluster is also the other target cluster, because there are only two.
    own_link(source, source, "other", &[]).await;
    let names = || (0..SERVICES).map(|number| format!("web-{number}"));
    stream::iter(names())
        .for_each_concurrent(8, async |name| {
            let made = web(&name, "hangs");
            let created = services(far, "unanswered")
                .create(&PostParams::default(), &made)
                .await;
            created.unwrap();
        })
        .await;
    let gateways = Gateways::start();
    let controller = Controller::start(source, &["--probe-address", &gateways.address()]);
    for cluster in ["hangs", "other"] {
        is_well(source, cluster).await;
    }
    let mirrors = async || {
        let of = format!("{}=hangs", l::CLUSTER_NAME);
        let all = ListParams::default().labels(&of);
        let found = services(source, "unanswered").list(&all).await;
        found.unwrap().items.len()
    };
    assert_eq!(mirrors().await, SERVICES);

    far.pause_api_server().unwrap();
    let stat = format!("/proc/{}/stat", far.pids().api_server);
    eventually("the API server to stand still", SOON, async || {
        let stat = std::fs::read_to_string(&stat)?;
        Ok(stat.contains(") T ").then_some(()))
    })
    .await
    .unwrap();
    let nothing = json!({ "matchLabels": { "mirror.linkerd.io/exported": "nothing" } });
    edit(source, "hangs", json!({ "selector": nothing })).await;
    controller
        .metric_is("linkerd_mc_queue_depth", |depth| depth > Some(100.0))
        .await;
    let asked = Instant::now();
    export(source, "unanswered", &web("late", "other")).await;
    service(source, "unanswered", "late-other", |_| true).await;
    let mirrored = asked.elapsed();
    relabel(source, "unanswered", "late", None).await;
    gone(source, "unanswered", "late-other").await;
    let removed = asked.elapsed();
    eprintln!("mirrored after {mirrored:?}, withdrawn after {removed:?}");
    assert!(mirrored < PROMPT, "mirrored after {mirrored:?}");
    assert!(removed < 2 * PROMPT, "withdrawn after {removed:?}");
    assert_eq!(mirrors().await, SERVICES);

    far.resume_api_server().unwrap();
    eventually("the removal of what is not exported", SOON, async || {
        Ok((mirrors().await == 0).then_some(()))
    })
    .await
    .unwrap();
    for cluster in ["hangs", "other"] {
        in_step(source, cluster, &[]).await;
    }
    for cluster in ["hangs", "other"] {
        unlink(source, cluster).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn write_that_fails_with_changing_messages_is_logged_once_and_so_is_its_recovery() {
    const FAILURES: usize = 6;
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("retries", &[source, far]).await;
    own_link(source, far, "retries", &[]).await;
    let server = source
        .intercept(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    let gateways = Gateways::start();
    let flags = ["--probe-address", &gateways.address()];
    let controller = Controller::start_through(source, &server.url(), &flags);
    is_well(source, "retries").await;
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    server.judge(move |asked| {
        let is_one = asked.is_write() && asked.uri.path().contains("/namespaces/retries/");
        let attempt = if is_one {
            seen.fetch_add(1, Ordering::SeqCst)
        } else {
            FAILURES
        };
        if attempt < FAILURES {
            refusal(500, &format!("InternalError of attempt {attempt}"))
        } else {
            Verdict::Forward
        }
    });
    export(far, "retries", &web("web", "retries")).await;
    service(source, "retries", "web-retries", |_| true).await;
    // The controller logs the recovery shortly after the last write.
    eventually("the rest of the writes", SOON, async || {
        let depth = controller.metric::<u64>("linkerd_mc_queue_depth").await?;
        let running = controller.metric::<u64>("linkerd_mc_in_flight").await?;
        Ok(((depth, running) == (Some(0), Some(0))).then_some(()))
    })
    .await
    .unwrap();
    let log = controller.log();
    let told = |what: &str| {
        let lines = log.lines().filter(|line| line.contains(what));
        lines
            .filter(|l| l.contains("key=retries/web@retries"))
            .count()
    };
    assert_eq!((told(" WARN "), told(" recovered ")), (1, 1), "{log}");
    assert!(asked.load(Ordering::SeqCst) > FAILURES);
    in_step(source, "retries", &[]).await;
    unlink(source, "retries").await;
    gone(source, "retries", "web-retries").await;
}
