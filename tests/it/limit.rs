//! Limits on the objects that the controller accepts from a target cluster. The status names the objects that are
//! omitted, and existing mirrors stay.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use control_plane::{ControlPlane, Verdict, eventually};
use kube::ResourceExt as _;
use linkerd_mc::api::{labels as l, link::LinkStatus};
use serde_json::json;

use crate::support::{
    SOON,
    audit::{mark, writes_in},
    controller::Controller,
    faults::refusal,
    installation::{CONTROLLER, CONTROLLER_GROUPS},
    links::{self, condition, in_step, own_link, status_that, unlink},
    objects::{
        addresses, delete, endpoints, export, gone, hosts, namespace, patch, readiness, relabel,
        service, slices_that, stateful, web,
    },
    planes::alone,
};

/// The reason that the status gives for a Service.
fn reason<'a>(status: &'a LinkStatus, namespace: &str, service: &str) -> Option<&'a str> {
    let said = links::said(&status.mirror_services, namespace, service)?;
    Some(said.reason.as_str())
}

fn exceeded(status: &LinkStatus) -> &str {
    condition(status, "LimitExceeded").map_or("", |condition| condition.message.as_str())
}

#[tokio::test(flavor = "multi_thread")]
async fn services_over_the_limit_are_mirrored_once_there_is_room() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("limit", &[source, far]).await;
    own_link(source, far, "limit", &[]).await;
    for name in ["b", "c"] {
        export(far, "limit", &web(name, "limit")).await;
    }
    let two = ["--max-services-per-link=2"];
    let mut controller = Controller::start(source, &two);
    status_that(source, "limit", |s| s.mirrored == Some(2)).await;
    let since = mark(source);
    export(far, "limit", &web("a", "limit")).await;
    let over = |s: &LinkStatus| {
        exceeded(s) == "more than 2 Services are exported; omitted: 1"
            && reason(s, "limit", "a") == Some("LimitExceeded")
    };
    status_that(source, "limit", over).await;
    in_step(source, "limit", &two).await;

    // A restarted controller accepts the Services that already have mirrors, not the first ones in the list.
    controller.kill();
    let mut controller = Controller::start(source, &two);
    status_that(source, "limit", |s| over(s) && s.mirrored == Some(2)).await;
    assert_eq!(writes_in(source, "limit", since), []);

    // When there is room, the omitted Service is mirrored. Then a new Service exceeds the limit again.
    delete(far, "limit", "b").await;
    service(source, "limit", "a-limit", |_| true).await;
    gone(source, "limit", "b-limit").await;
    status_that(source, "limit", |s| {
        exceeded(s).is_empty() && s.mirrored == Some(2)
    })
    .await;
    export(far, "limit", &web("d", "limit")).await;
    status_that(source, "limit", |s| {
        reason(s, "limit", "d") == Some("LimitExceeded")
    })
    .await;
    relabel(far, "limit", "d", Some("no")).await;
    status_that(source, "limit", |s| {
        exceeded(s).is_empty() && reason(s, "limit", "d").is_none()
    })
    .await;

    controller.kill();
    export(far, "limit", &web("e", "limit")).await;
    let _controller = Controller::start(source, &[]);
    status_that(source, "limit", |s| s.mirrored == Some(3)).await;
    in_step(source, "limit", &[]).await;
    unlink(source, "limit").await;
    gone(source, "limit", "a-limit").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_have_priority_although_they_are_listed_later_than_links() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("priority", &[source, far]).await;
    own_link(source, far, "priority", &[]).await;
    for name in ["b", "c"] {
        export(far, "priority", &web(name, "priority")).await;
    }
    let two = ["--max-services-per-link=2"];
    let mut controller = Controller::start(source, &two);
    status_that(source, "priority", |s| s.mirrored == Some(2)).await;
    controller.kill();
    export(far, "priority", &web("a", "priority")).await;
    let since = mark(source);

    // The API server refuses to list the mirrors, three times or more. Meanwhile the controller lists everything else.
    let server = source
        .intercept(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    server.judge(move |asked| {
        let query = asked.uri.query().unwrap_or_default();
        if asked.is_list("services") && query.contains("mirrored-service") {
            seen.fetch_add(1, Ordering::SeqCst);
            return refusal(500, "InternalError");
        }
        Verdict::Forward
    });
    let _controller = Controller::start_through(source, &server.url(), &two);
    eventually("three attempts to list the mirrors", SOON, async || {
        Ok((asked.load(Ordering::SeqCst) >= 3).then_some(()))
    })
    .await
    .unwrap();
    server.forward();
    status_that(source, "priority", |s| {
        s.mirrored == Some(2) && reason(s, "priority", "a") == Some("LimitExceeded")
    })
    .await;
    in_step(source, "priority", &two).await;
    assert_eq!(writes_in(source, "priority", since), []);
    unlink(source, "priority").await;
    gone(source, "priority", "b-priority").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn services_over_the_metadata_or_memory_limit_are_mirrored_in_full_once_they_fit() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("heavy", &[source, far]).await;
    own_link(source, far, "heavy", &[]).await;
    let annotated = |name: &str, length: usize| {
        let mut service = web(name, "heavy");
        let annotations = service.annotations_mut();
        annotations.insert("example.com/long".to_owned(), "x".repeat(length));
        service
    };
    export(far, "heavy", &annotated("a", 20_000)).await;
    let mut controller = Controller::start(source, &[]);
    let bare = |annotations: &std::collections::BTreeMap<String, String>| {
        annotations.contains_key(l::OPAQUE_PORTS) && !annotations.contains_key("example.com/long")
    };
    service(source, "heavy", "a-heavy", |s| bare(s.annotations())).await;
    let too_large = "labels and annotations are not copied: they are too large";
    status_that(source, "heavy", |s| {
        let said = links::said(&s.mirror_services, "heavy", "a");
        s.mirrored == Some(1) && said.is_some_and(|said| said.message == too_large)
    })
    .await;
    in_step(source, "heavy", &[]).await;
    let shorter = json!({ "metadata": { "annotations": { "example.com/long": "x" } } });
    patch(far, "heavy", "a", shorter).await;
    service(source, "heavy", "a-heavy", |s| {
        s.annotations().contains_key("example.com/long")
    })
    .await;
    status_that(source, "heavy", |s| {
        reason(s, "heavy", "a") == Some("Mirrored")
    })
    .await;
    controller.kill();

    // A MiB has room for the metadata of four of these Services.
    let long =
        json!({ "metadata": { "annotations": { "example.com/long": "x".repeat(240_000) } } });
    patch(far, "heavy", "a", long).await;
    for name in ["b", "c", "d", "e"] {
        export(far, "heavy", &annotated(name, 240_000)).await;
    }
    let small = [
        "--max-metadata-kib-per-service=1024",
        "--max-mib-per-link=1",
    ];
    let _controller = Controller::start(source, &small);
    let over = |s: &LinkStatus| {
        exceeded(s).starts_with("exported objects exceed the memory limit of this Link (1 MiB)")
            && exceeded(s).ends_with("; omitted: 1")
            && s.mirrored == Some(4)
    };
    status_that(source, "heavy", over).await;
    delete(far, "heavy", "b").await;
    status_that(source, "heavy", |s| {
        exceeded(s).is_empty() && s.mirrored == Some(4)
    })
    .await;
    unlink(source, "heavy").await;
    gone(source, "heavy", "a-heavy").await;
}

/// Creates slices of a Service that have no ready endpoint, and that precede its other slices in a list.
async fn idle_slices(plane: &ControlPlane, namespace: &str, service: &str, exported: &str) {
    let slices: Vec<_> = (0..12)
        .map(|n| {
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {
                    "name": format!("a-{n:02}"),
                    "namespace": namespace,
                    "labels": {
                        l::EXPORTED: exported,
                        "idle": "true",
                        "kubernetes.io/service-name": service,
                        "endpointslice.kubernetes.io/managed-by": "test",
                    },
                },
                "addressType": "IPv4", "ports": [],
                "endpoints": [{ "addresses": [format!("192.0.2.{n}")], "conditions": { "ready": false } }],
            })
        })
        .collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": slices }).to_string();
    plane
        .kubectl_stdin(&["apply", "--server-side", "-f", "-"], &list)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn slices_over_the_limit_leave_endpoints_as_they_are() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("cut", &[source, far]).await;
    own_link(source, far, "cut", &[]).await;
    export(far, "cut", &web("web", "cut")).await;
    let mut controller = Controller::start(source, &[]);
    let stands =
        |found: &[k8s_openapi::api::discovery::v1::EndpointSlice]| readiness(found) == Some(true);
    let before = slices_that(source, "cut", "web-cut", stands).await;
    status_that(source, "cut", |s| s.mirrored == Some(1)).await;
    controller.kill();

    // The controller accepts only ten slices. The slice with the ready endpoint comes after the twelve idle ones.
    idle_slices(far, "cut", "web", "cut").await;
    let one = ["--max-services-per-link=1"];
    let since = mark(source);
    let _controller = Controller::start(source, &one);
    status_that(source, "cut", |s| {
        exceeded(s) == "too many EndpointSlices; incomplete Services: 1"
            && reason(s, "cut", "web") == Some("LimitExceeded")
    })
    .await;
    in_step(source, "cut", &one).await;
    assert_eq!(writes_in(source, "cut", since), []);

    // When the idle slices are deleted, the controller accepts all slices, and updates the endpoints again.
    let idle = ["-n", "cut", "delete", "endpointslices", "-l", "idle=true"];
    far.kubectl(&idle).await.unwrap();
    status_that(source, "cut", |s| {
        exceeded(s).is_empty() && reason(s, "cut", "web") == Some("Mirrored")
    })
    .await;
    let after = slices_that(source, "cut", "web-cut", stands).await;
    assert_eq!(addresses(&after), addresses(&before));
    endpoints(far, "cut", "web", 0).await;
    slices_that(source, "cut", "web-cut", |found| !stands(found)).await;
    in_step(source, "cut", &one).await;
    unlink(source, "cut").await;
    gone(source, "cut", "web-cut").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn hosts_count_against_the_memory_and_are_mirrored_once_they_fit() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("throng", &[source, far]).await;
    own_link(source, far, "throng", &["--enable-headless-services"]).await;
    stateful(far, "throng", "db", "throng").await;
    // Hosts that are not ready have no endpoint mirror, and count nevertheless.
    let idle: Vec<String> = (0..170).map(|n| format!("idle-{n}")).collect();
    let with_idle = |ready: &[&'static str]| {
        let ready = ready.iter().map(|host| (*host, true));
        let idle = idle.iter().map(|host| (host.as_str(), false));
        ready.chain(idle).collect::<Vec<_>>()
    };
    hosts(far, "throng", "db", &with_idle(&["db-0", "db-1"])).await;
    let one = ["--max-mib-per-link=1"];
    let _controller = Controller::start(source, &one);
    for name in ["db-throng", "db-0-throng", "db-1-throng"] {
        service(source, "throng", name, |_| true).await;
    }
    status_that(source, "throng", |s| exceeded(s).is_empty()).await;

    // A MiB has room for 341 hosts. Existing mirrors stay.
    stateful(far, "throng", "queue", "throng").await;
    hosts(far, "throng", "queue", &with_idle(&["q-0", "q-1"])).await;
    let over = |s: &LinkStatus| {
        exceeded(s).starts_with("exported objects exceed the memory limit of this Link (1 MiB)")
            && exceeded(s).ends_with("; incomplete Services: 1")
            && reason(s, "throng", "queue") == Some("LimitExceeded")
    };
    status_that(source, "throng", over).await;
    in_step(source, "throng", &one).await;
    hosts(far, "throng", "db", &[("db-0", true)]).await;
    for name in ["queue-throng", "q-0-throng", "q-1-throng"] {
        service(source, "throng", name, |_| true).await;
    }
    gone(source, "throng", "db-1-throng").await;
    status_that(source, "throng", |s| {
        exceeded(s).is_empty() && s.mirrored == Some(2)
    })
    .await;
    in_step(source, "throng", &one).await;
    unlink(source, "throng").await;
    gone(source, "throng", "queue-throng").await;
}
