//! A target cluster drops a member of a federated Service, and does not confirm that when the controller asks. The
//! controller writes all other changes of this federated Service as usual.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use control_plane::{Interceptor, Verdict, eventually};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    controller::Controller,
    faults::through,
    gateways::Gateways,
    links::{in_step, is_well, own_link, unlink},
    objects::{
        addresses, annotation, delete, endpoints, gone, has_members, join, members_are, namespace,
        patch, ports, regroup, service, slices_that,
    },
    planes::alone,
};

/// How soon the controller has to write other changes: well before its question to the cluster times out.
const PROMPT: Duration = Duration::from_secs(5);
const SERVICE: &str = "web-federated";

/// What the cluster answers when the controller asks whether it exports a Service.
#[derive(Clone, Copy, Debug)]
enum Answer {
    /// The cluster does not answer.
    Nothing,
    /// The cluster exports the Service, which is not true.
    Exported,
}

/// Counts the requests for the Service `web`, and answers them in this way.
fn answer(server: &Interceptor, answer: Answer, group: &'static str) -> Arc<AtomicUsize> {
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    server.judge(move |asked| {
        if asked.is_write() || !asked.uri.path().ends_with("/services/web") {
            return Verdict::Forward;
        }
        seen.fetch_add(1, Ordering::SeqCst);
        match answer {
            Answer::Nothing => Verdict::Hold,
            Answer::Exported => {
                // The path is /api/v1/namespaces/NAMESPACE/services/web.
                let namespace = asked.uri.path().split('/').nth(4);
                let labels = json!({ l::FEDERATED: group });
                let service = json!({
                    "apiVersion": "v1", "kind": "Service",
                    "metadata": { "name": "web", "namespace": namespace, "labels": labels },
                    "spec": { "ports": [{ "name": "http", "port": 80 }] },
                });
                let headers = vec![("content-type", "application/json".to_owned())];
                Verdict::Answer(200, headers, service.to_string())
            }
        }
    });
    asked
}

/// Waits until the controller has asked the cluster.
async fn is_asked(asked: &AtomicUsize) {
    eventually("a question to the cluster", SOON, async || {
        Ok((asked.load(Ordering::SeqCst) > 0).then_some(()))
    })
    .await
    .unwrap();
}

/// Waits for a change, and asserts that it comes at once.
async fn prompt<T>(what: &str, change: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let changed = change.await;
    let took = begun.elapsed();
    eprintln!("{what}: {took:?}");
    assert!(took < PROMPT, "{what}: {took:?}");
    changed
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn cluster_that_does_not_confirm_its_leave_delays_no_other_member() {
    const NAME: &str = "unconfirmed";
    const LOCAL: &str = "--federated-service-selector=mirror.linkerd.io/federated=local";
    // Each Link selects members of its own group, and both Links select the group `both`.
    let selects = |group: &str| {
        format!("--federated-service-selector=mirror.linkerd.io/federated in ({group},both)")
    };
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace(NAME, &[source, far]).await;
    let server = far.intercept(None).unwrap();
    let flags = [&*through(&server.url()), &*selects("hangs")];
    own_link(source, far, "hangs", &flags).await;
    own_link(source, far, "other", &[&selects("other")]).await;
    join(far, NAME, "web", "both", "no").await;
    let gateways = Gateways::start();
    let flags = [LOCAL, "--probe-address", &gateways.address()];
    let mut controller = Controller::start(source, &flags);
    let members = async |remote, local| members_are(source, NAME, SERVICE, remote, local).await;
    let both = Some("web@hangs,web@other");
    for said in [Answer::Nothing, Answer::Exported] {
        eprintln!("asked whether it exports the Service, the cluster says: {said:?}");
        members(both, None).await;
        let asked = answer(&server, said, "hangs");
        regroup(far, NAME, "web", Some("other")).await;
        is_asked(&asked).await;

        join(source, NAME, "web", "local", "no").await;
        prompt("the local cluster joins", members(both, Some("web"))).await;
        let sql = json!({ "spec": { "ports": [{ "name": "sql", "port": 5432 }] } });
        patch(source, NAME, "web", sql).await;
        let changed = service(source, NAME, SERVICE, |now| ports(now) == [("sql", 5432)]);
        prompt("its ports change", changed).await;
        regroup(far, NAME, "web", None).await;
        let left = members(Some("web@hangs"), Some("web"));
        prompt("a cluster that confirms it leaves", left).await;
        regroup(far, NAME, "web", Some("other")).await;
        prompt("it joins again", members(both, Some("web"))).await;
        regroup(source, NAME, "web", None).await;
        prompt("the local cluster leaves", members(both, None)).await;
        delete(source, NAME, "web").await;

        // A new controller asks the cluster again. The other Link does not wait for the answer.
        drop(controller);
        controller = Controller::start(source, &flags);
        let synced = eventually("the sync of the other Link", SOON, async || {
            let log = controller.log();
            let mut lines = log.lines();
            let synced = |line: &str| {
                line.contains("synced with the target cluster") && line.contains(r#"link="other""#)
            };
            Ok(lines.any(synced).then_some(()))
        });
        prompt("another Link is synced", synced).await.unwrap();

        server.forward();
        server.cut();
        members(Some("web@other"), None).await;
        regroup(far, NAME, "web", Some("both")).await;
    }
    members(both, None).await;
    for link in ["hangs", "other"] {
        is_well(source, link).await;
        in_step(source, link, &[LOCAL]).await;
        unlink(source, link).await;
    }
    gone(source, NAME, SERVICE).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn slices_follow_pods_and_gateways_while_a_cluster_does_not_confirm_its_leave() {
    const NAME: &str = "unconfirmed-slices";
    const LOCAL: &str =
        "--federated-service-selector=mirror.linkerd.io/federated=unconfirmed-slices";
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace(NAME, &[source, far]).await;
    let server = far.intercept(None).unwrap();
    let flags = ["--federated-through=gateway", &through(&server.url())];
    own_link(source, far, NAME, &flags).await;
    for plane in [source, far] {
        join(plane, NAME, "web", NAME, "no").await;
        endpoints(plane, NAME, "web", 2).await;
    }
    let gateways = Gateways::start();
    let flags = [LOCAL, "--probe-address", &gateways.address()];
    let _controller = Controller::start(source, &flags);
    let ready = async |expected: &[&str]| {
        slices_that(source, NAME, SERVICE, |slices| {
            let mut ready = slices.to_vec();
            for slice in &mut ready {
                slice.endpoints.retain(|endpoint| {
                    let conditions = endpoint.conditions.as_ref();
                    conditions.and_then(|conditions| conditions.ready) != Some(false)
                });
            }
            let mut ready = addresses(&ready);
            ready.sort_unstable();
            ready == expected
        })
        .await
    };
    let [gateway, first, second] = ["192.0.2.50", "192.0.2.100", "192.0.2.101"];
    ready(&[first, second, gateway]).await;
    let asked = answer(&server, Answer::Nothing, NAME);
    regroup(far, NAME, "web", None).await;
    is_asked(&asked).await;

    endpoints(source, NAME, "web", 1).await;
    prompt("a local Pod is not ready", ready(&[first, gateway])).await;
    endpoints(source, NAME, "web", 2).await;
    prompt("it is ready again", ready(&[first, second, gateway])).await;
    gateways.kill("/ready");
    ready(&[first, second]).await;
    gateways.revive("/ready");
    ready(&[first, second, gateway]).await;
    let stands = service(source, NAME, SERVICE, |_| true).await;
    assert_eq!(
        annotation(&stands, l::MEMBERS),
        Some("web@unconfirmed-slices")
    );

    server.forward();
    server.cut();
    service(source, NAME, SERVICE, |now| {
        has_members(now, None, Some("web"))
    })
    .await;
    unlink(source, NAME).await;
    delete(source, NAME, "web").await;
    gone(source, NAME, SERVICE).await;
}
