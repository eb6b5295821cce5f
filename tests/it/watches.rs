//! Watches that are refused, watches that deliver nothing, and slices of Services without a selector.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use control_plane::{Asked, Interceptor, Passing, Verdict, eventually};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    controller::Controller,
    faults::{refusal, through},
    gateways::Gateways,
    installation::{CONTROLLER, CONTROLLER_GROUPS},
    links::{connected, is_lost, is_well, own_link, unlink},
    objects::{
        self, addresses, create, export, gone, namespace, patch, relabel, service, slices,
        slices_that, web,
    },
    planes::{alone, hub},
};

/// How soon a watch that delivers nothing has to be replaced, with any version of HTTP.
const NOTICED: Duration = Duration::from_secs(45);
/// How soon the controller has to follow changes when the local API server has recovered.
const RECOVERED: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn refused_watches_back_off_and_lists_replace_them() {
    let hub = hub().await;
    let (east, west) = hub.pair();
    namespace("refused-watch", &[east, west]).await;
    let server = east.intercept(None).unwrap();
    own_link(west, east, "nowatch", &[&through(&server.url())]).await;
    export(east, "refused-watch", &web("web", "nowatch")).await;
    service(west, "refused-watch", "web-nowatch", |_| true).await;
    is_well(west, "nowatch").await;

    let lists = Arc::new(Mutex::new(Vec::new()));
    let seen = lists.clone();
    server.judge(move |asked| {
        if asked.is_list("endpointslices") {
            seen.lock().unwrap().push(Instant::now());
        }
        if asked.watches() {
            return refusal(403, "Forbidden");
        }
        Verdict::Forward
    });
    server.cut();
    assert!(is_lost(west, "nowatch").await.contains("made up"));
    let lost = connected(west, "nowatch").await;
    // This takes seconds here. `controller::virtual_time` tests it over hours.
    let listed = eventually("lists", SOON, async || {
        let lists = lists.lock().unwrap().clone();
        Ok((lists.len() >= 4).then_some(lists))
    });
    let listed = listed.await.unwrap();
    let pauses: Vec<_> = listed.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(pauses[2] > pauses[0], "{pauses:?}");
    let now = connected(west, "nowatch").await;
    assert_eq!(now, lost, "it changes its mind again and again");
    // The controller lists again and again, and each list has all changes.
    export(east, "refused-watch", &web("listed", "nowatch")).await;
    service(west, "refused-watch", "listed-nowatch", |_| true).await;
    server.forward();
    is_well(west, "nowatch").await;
    unlink(west, "nowatch").await;
    gone(west, "refused-watch", "web-nowatch").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn local_api_server_that_refused_everything_is_followed_as_soon_as_it_recovers() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("refusing", &[source, far]).await;
    own_link(source, far, "refusing", &[]).await;
    let server = source
        .intercept(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    let _controller = Controller::start_through(source, &server.url(), &[]);
    export(far, "refusing", &web("web", "refusing")).await;
    service(source, "refusing", "web-refusing", |_| true).await;

    // The proxy answers like an API server that starts and does not know its roles yet. After five lists, the pauses of
    // watches are longer than `RECOVERED`. `controller::virtual_time` tests this over hours.
    let lists = Arc::new(AtomicUsize::new(0));
    let seen = lists.clone();
    server.judge(move |asked| {
        seen.fetch_add(usize::from(asked.is_list("namespaces")), Ordering::SeqCst);
        refusal(403, "Forbidden")
    });
    server.cut();
    eventually("retries", SOON, async || {
        Ok((lists.load(Ordering::SeqCst) >= 5).then_some(()))
    })
    .await
    .unwrap();
    server.forward();
    let healed = Instant::now();
    // The controller learns only from a watch that somebody edits a mirror.
    let ports = json!({ "spec": { "ports": [{ "name": "edited", "port": 1 }] } });
    patch(source, "refusing", "web-refusing", ports).await;
    service(source, "refusing", "web-refusing", |mirror| {
        objects::ports(mirror) != [("edited", 1)]
    })
    .await;
    let took = healed.elapsed();
    eprintln!("right again {took:?} after the API server stopped refusing");
    assert!(took < RECOVERED, "{took:?}");
    unlink(source, "refusing").await;
    gone(source, "refusing", "web-refusing").await;
}

/// From now on, holds back all events of this resource until long after the test. Its watches stay open and deliver
/// nothing.
fn silence(server: &Interceptor, resource: &'static str) {
    server.look(move |asked: &Asked, _| {
        if asked.is_watch(resource) {
            Passing::Late(Duration::from_secs(3600))
        } else {
            Passing::On
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn silent_watch_is_replaced_as_soon_over_http_1_as_over_http_2() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace("http-1", &[source, far]).await;
    let remote = far.intercept_http1(None).unwrap();
    let local = source
        .intercept_http1(Some((CONTROLLER, &CONTROLLER_GROUPS)))
        .unwrap();
    own_link(source, far, "old", &[&through(&remote.url())]).await;
    export(far, "http-1", &web("web", "old")).await;
    let gateways = Gateways::start();
    let flags = ["--probe-address", &gateways.address()];
    let controller = Controller::start_through(source, &local.url(), &flags);
    is_well(source, "old").await;
    service(source, "http-1", "web-old", |_| true).await;
    silence(&remote, "services");
    silence(&local, "services");
    let began = Instant::now();
    export(far, "http-1", &web("later", "old")).await;
    let evil = json!({ "spec": { "selector": { "app": "evil" } } });
    patch(source, "http-1", "web-old", evil).await;
    service(source, "http-1", "later-old", |_| true).await;
    let remote_took = began.elapsed();
    service(source, "http-1", "web-old", |s| {
        s.spec.as_ref().unwrap().selector.is_none()
    })
    .await;
    let took = began.elapsed();
    eprintln!("silent watches over HTTP/1.1: remote {remote_took:?}, local {took:?}");
    assert!(took < NOTICED, "{took:?}");
    remote.forward();
    local.forward();
    unlink(source, "old").await;
    for name in ["web-old", "later-old"] {
        gone(source, "http-1", name).await;
    }
    drop(controller);
}

/// How soon the controller has to update endpoints.
const FOLLOWED: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_services_without_selector_follow_within_seconds() {
    let (east, west) = hub().await.pair();
    namespace("custom", &[east, west]).await;
    let mut custom = web("custom", "true");
    custom.spec.as_mut().unwrap().selector = None;
    let slice = |labels: serde_json::Value, ready: bool| -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": "by-hand", "labels": labels },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": ["192.0.2.99"], "conditions": { "ready": ready } }],
            "ports": [{ "name": "http", "port": 8080 }],
        }))
        .unwrap()
    };
    let unlabelled = json!({ l::SLICE_SERVICE: "custom" });
    let labelled = json!({ l::SLICE_SERVICE: "custom", l::EXPORTED: "true" });
    let apply = async |labels: &serde_json::Value, ready: bool| {
        let slice = slice(labels.clone(), ready);
        let parameters = PostParams::default();
        slices(east, "custom")
            .delete("by-hand", &DeleteParams::default())
            .await
            .ok();
        slices(east, "custom")
            .create(&parameters, &slice)
            .await
            .unwrap();
    };
    let has_endpoints = async |expected: &[&str]| {
        slices_that(west, "custom", "custom-east", |s| {
            !s.is_empty() && addresses(s) == expected
        })
        .await;
    };
    // Without the label, the controller does not see the slices of this Service. So the mirror leads to the gateway,
    // although no endpoint is ready.
    apply(&unlabelled, false).await;
    create(east, "custom", &custom).await;
    has_endpoints(&["192.0.2.10"]).await;
    for round in 0..3 {
        let began = Instant::now();
        apply(&labelled, false).await;
        has_endpoints(&[]).await;
        let went = began.elapsed();
        let began = Instant::now();
        apply(&labelled, true).await;
        has_endpoints(&["192.0.2.10"]).await;
        let came = began.elapsed();
        eprintln!("round {round}: endpoints came after {came:?}, and went after {went:?}");
        assert!(came < FOLLOWED && went < FOLLOWED, "{came:?} {went:?}");
    }
    apply(&labelled, false).await;
    has_endpoints(&[]).await;
    apply(&unlabelled, false).await;
    has_endpoints(&["192.0.2.10"]).await;
    // The controller also applies changes that were made while the Service was not exported for a moment.
    relabel(east, "custom", "custom", None).await;
    apply(&labelled, false).await;
    relabel(east, "custom", "custom", Some("true")).await;
    has_endpoints(&[]).await;
}
