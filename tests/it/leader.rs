//! Leader election: one replica leads, and the others wait. And what a controller does when it is asked to stop.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, Passing, Verdict, eventually};
use http::Method;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::{sync::Notify, time::timeout};

use crate::support::{
    SOON,
    audit::{mark, watches, writes_of},
    controller::{Controller, signal},
    gateways::Gateways,
    installation::NAMESPACE,
    links::{condition_is, in_step, own_link, status_that, unlink},
    objects::{export, gone, namespace, service, services, web},
    planes::alone,
};

/// A replica with its own user and lease identity, so that the audit log shows which replica made a request.
fn replica(plane: &ControlPlane, name: &str, flags: &[&str]) -> Controller {
    let kubeconfig = plane.user_kubeconfig(name, &["system:masters"]).unwrap();
    let args = [&["--identity", name], flags].concat();
    Controller::start_as(&kubeconfig, &args)
}

async fn holder(plane: &ControlPlane) -> anyhow::Result<Option<String>> {
    let lease = Api::<Lease>::namespaced(plane.client(), NAMESPACE)
        .get_opt("service-mirror-write")
        .await?;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity))
}

async fn holder_is(plane: &ControlPlane, name: &str) {
    eventually(&format!("{name} to hold the lease"), SOON, async || {
        Ok((holder(plane).await?.as_deref() == Some(name)).then_some(()))
    })
    .await
    .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_leader_writes_and_it_hands_over_on_sigterm() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("leader", &[source, far]).await;
    own_link(source, far, "leader", &[]).await;
    let since = mark(source);
    let gateways = Gateways::start();
    let probed = ["--probe-address", &gateways.address()];
    let mut first = replica(source, "first", &probed);
    holder_is(source, "first").await;
    export(far, "leader", &web("one", "leader")).await;
    service(source, "leader", "one-leader", |_| true).await;

    // The second replica is ready to take over. It does not connect to the target cluster before it leads.
    let before = watches(far);
    let second = replica(source, "second", &probed);
    let answers = [
        ("/ready", 200, "ok\n"),
        ("/live", 200, "ok\n"),
        ("/ping", 200, "pong\n"),
    ];
    for (path, code, body) in answers {
        eventually(path, SOON, async || {
            let answer = second.get(path).await?;
            Ok((answer == (code, body.to_owned())).then_some(()))
        })
        .await
        .unwrap();
    }
    assert_eq!(second.get("/other").await.unwrap().0, 404);
    let leads =
        async |replica: &Controller| replica.metric("linkerd_mc_leader").await.unwrap() == Some(1);
    assert_eq!((leads(&first).await, leads(&second).await), (true, false));
    export(far, "leader", &web("two", "leader")).await;
    service(source, "leader", "two-leader", |_| true).await;
    status_that(source, "leader", |s| s.mirrored == Some(2)).await;
    gateways.kill("/ready");
    condition_is(source, "leader", "GatewayAlive", "False", "ProbeFailed").await;
    assert_eq!(watches(far), before);
    assert_eq!(writes_of(source, "second", since), []);

    // A lease that is not released is valid for 30 s. Two signals are one request: `timeout` sends its signal to the
    // program and to its process group.
    let asked = Instant::now();
    signal("TERM", first.pid());
    let (code, took) = first.terminate();
    assert_eq!(code, Some(0));
    assert!(took < Duration::from_secs(5), "it took {took:?} to stop");
    holder_is(source, "second").await;
    let handover = asked.elapsed();
    assert!(
        handover < Duration::from_secs(15),
        "it took {handover:?} to hand over"
    );
    eprintln!("stopped after {took:?}, handed over after {handover:?}");
    // The new leader uses the state that the first one wrote to the status, and writes nothing.
    second.in_step_within(SOON).await;
    assert_eq!(writes_of(source, "second", since), []);
    export(far, "leader", &web("three", "leader")).await;
    service(source, "leader", "three-leader", |_| true).await;
    assert!(leads(&second).await);
    in_step(source, "leader", &[]).await;
    unlink(source, "leader").await;
    gone(source, "leader", "three-leader").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn paused_leader_is_replaced_and_never_writes_again() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("silent", &[source, far]).await;
    own_link(source, far, "silent", &[]).await;
    let flags = [
        "--lease-duration=6s",
        "--lease-renew-deadline=4s",
        "--lease-retry=1s",
    ];
    let mut stopped = replica(source, "stopped", &flags);
    holder_is(source, "stopped").await;
    export(far, "silent", &web("one", "silent")).await;
    service(source, "silent", "one-silent", |_| true).await;
    let mut killed = replica(source, "killed", &flags);

    signal("STOP", stopped.pid());
    let fell_silent = Instant::now();
    holder_is(source, "killed").await;
    let took = fell_silent.elapsed();
    assert!(
        took > Duration::from_secs(3),
        "the lease was taken after {took:?}"
    );
    export(far, "silent", &web("two", "silent")).await;
    service(source, "silent", "two-silent", |_| true).await;
    killed.kill();

    // No controller works now. The old leader sees the new Service when it continues.
    export(far, "silent", &web("three", "silent")).await;
    let since = mark(source);
    signal("CONT", stopped.pid());
    let code = stopped.ended(SOON);
    assert_ne!(code, Some(0));
    assert!(stopped.log().contains("lease"), "{}", stopped.log());
    assert_eq!(writes_of(source, "stopped", since), []);
    assert!(
        services(source, "silent")
            .get_opt("three-silent")
            .await
            .unwrap()
            .is_none()
    );

    // When the lease of the killed leader has expired, another replica can take it.
    let third = replica(source, "third", &flags);
    holder_is(source, "third").await;
    service(source, "silent", "three-silent", |_| true).await;
    in_step(source, "silent", &[]).await;
    unlink(source, "silent").await;
    gone(source, "silent", "three-silent").await;
    drop(third);
}

#[tokio::test(flavor = "multi_thread")]
async fn change_during_the_release_of_the_lease_does_not_interrupt_it() {
    let alone = alone().await;
    let source = &alone.source;
    let way = source
        .intercept(Some(("releasing", &["system:masters"])))
        .unwrap();
    let kubeconfig = source
        .kubeconfig_through(&way.url(), "releasing", &["system:masters"])
        .unwrap();
    // With these flags, the leader does not renew its lease during this test.
    let flags = [
        "--identity=releasing",
        "--lease-duration=80s",
        "--lease-renew-deadline=60s",
        "--lease-retry=50s",
    ];
    let mut leader = Controller::start_as(&kubeconfig, &flags);
    holder_is(source, "releasing").await;
    leader.ready_within(SOON).await;

    // Holds back the leader's last request, the release of the lease, until the leader has received a change of the
    // source cluster.
    let (asked, permitted, seen) = <(Arc<Notify>, Arc<Notify>, Arc<Notify>)>::default();
    way.judge({
        let (asked, permitted) = (asked.clone(), permitted.clone());
        move |request| {
            if request.method == Method::PUT && request.uri.path().contains("/leases/") {
                asked.notify_one();
                Verdict::ForwardAfter(permitted.clone())
            } else {
                Verdict::Forward
            }
        }
    });
    way.look({
        let seen = seen.clone();
        move |_, event| {
            if event.contains("during-release") {
                seen.notify_one();
            }
            Passing::On
        }
    });
    signal("TERM", leader.pid());
    timeout(SOON, asked.notified()).await.unwrap();
    namespace("during-release", &[source]).await;
    timeout(SOON, seen.notified()).await.unwrap();
    // Gives the controller time to handle the change.
    tokio::time::sleep(Duration::from_secs(1)).await;
    permitted.notify_one();
    assert_eq!(leader.ended(SOON), Some(0), "{}", leader.log());
    assert_eq!(holder(source).await.unwrap().unwrap_or_default(), "");
}
