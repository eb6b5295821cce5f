//! Watches that are refused, watches that deliver nothing, and watches of slices without labels.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use control_plane::{Asked, Interceptor, Passing, Verdict};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::support::{
    SOON,
    audit::{mark, writes},
    controller::Controller,
    faults::{refusal, through},
    gateways::Gateways,
    installation::{CONTROLLER, CONTROLLER_GROUPS},
    links::{condition, connected, is_lost, is_well, own_link, status_that, unlink},
    objects::{
        self, addresses, create, export, gone, namespace, patch, relabel, service, slices,
        slices_that, web,
    },
    planes::{alone, hub},
};

/// How soon a watch that delivers nothing has to be replaced, with any version of HTTP.
const NOTICED: Duration = Duration::from_secs(45);
/// How soon changes are followed when the local API server has recovered.
const RECOVERED: Duration = Duration::from_secs(6);

/// Times of requests of one kind, since the last call.
#[derive(Clone, Default)]
struct Times(Arc<Mutex<Vec<Instant>>>);

impl Times {
    fn note(&self) {
        self.0.lock().unwrap().push(Instant::now());
    }

    fn take(&self) -> usize {
        std::mem::take(&mut *self.0.lock().unwrap()).len()
    }
}

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

    let lists = Times::default();
    let seen = lists.clone();
    server.judge(move |asked| {
        if asked.is_list("endpointslices") {
            seen.note();
        }
        if asked.watches() {
            return refusal(403, "Forbidden");
        }
        Verdict::Forward
    });
    server.cut();
    assert!(is_lost(west, "nowatch").await.contains("made up"));
    let lost = connected(west, "nowatch").await;
    lists.take();
    // Waits, because the absence of requests takes time to observe.
    tokio::time::sleep(Duration::from_secs(25)).await;
    let listed = lists.take();
    eprintln!("{listed} lists in 25 s of refused watches");
    assert!(listed <= 6, "{listed} lists in 25 s");
    let now = connected(west, "nowatch").await;
    assert_eq!(now, lost, "it changes its mind again and again");
    // Each list has all changes, and there is at least one list per minute.
    export(east, "refused-watch", &web("listed", "nowatch")).await;
    service(west, "refused-watch", "listed-nowatch", |_| true).await;
    server.forward();
    condition_well(west, "nowatch").await;
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

    // As an API server that starts, and does not know its roles yet.
    server.judge(|_| refusal(403, "Forbidden"));
    server.cut();
    // Waits until the pauses of watches have grown: a controller that does not notice the end may take 25 s more.
    tokio::time::sleep(Duration::from_secs(30)).await;
    server.forward();
    let healed = Instant::now();
    // Only a watch shows that somebody edits a mirror.
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

/// Like [`is_well`], but waits for up to a minute first.
async fn condition_well(plane: &control_plane::ControlPlane, link: &str) {
    control_plane::eventually("the Link to be connected", 2 * SOON, async || {
        let status = status_that(plane, link, |_| true).await;
        let connected = condition(&status, "Connected").cloned();
        Ok(connected.filter(|connected| connected.status == "True"))
    })
    .await
    .unwrap();
}

/// From now on, drops all events of this resource, and does not forward the end of its watches.
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
    let lists = Times::default();
    let seen = lists.clone();
    remote.judge(move |asked| {
        if asked.is_list("services") {
            seen.note();
        }
        Verdict::Forward
    });
    let gateways = Gateways::start();
    let flags = ["--probe-address", &gateways.address()];
    let controller = Controller::start_through(source, &local.url(), &flags);
    is_well(source, "old").await;
    service(source, "http-1", "web-old", |_| true).await;
    lists.take();
    let since = mark(source);
    // This is longer than a watch over HTTP/1.1 lasts. It is resumed, not listed again, and nothing is written.
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(lists.take(), 0, "lists of a cluster at rest");
    assert_eq!(writes(source, since), []);

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
    drop(controller);
}

/// How soon endpoints have to be updated.
const FOLLOWED: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_services_without_selector_follow_within_seconds() {
    let (east, west) = hub().await.pair();
    namespace("custom", &[east, west]).await;
    let mut custom = web("custom", "true");
    custom.spec.as_mut().unwrap().selector = None;
    create(east, "custom", &custom).await;
    service(west, "custom", "custom-east", |_| true).await;
    let slice = |name: &str, service: &str| -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "kubernetes.io/service-name": service } },
            "addressType": "IPv4",
            "endpoints": [{ "addresses": ["192.0.2.99"], "conditions": { "ready": true } }],
            "ports": [{ "name": "http", "port": 8080 }],
        }))
        .unwrap()
    };
    // A slice of a Service with the same name in another namespace has no effect.
    namespace("elsewhere", &[east]).await;
    let parameters = PostParams::default();
    slices(east, "elsewhere")
        .create(&parameters, &slice("custom-other", "custom"))
        .await
        .unwrap();
    let add = async || {
        slices(east, "custom")
            .create(&parameters, &slice("by-hand", "custom"))
            .await
            .unwrap();
    };
    let has_endpoints = async |expected: &[&str]| {
        slices_that(west, "custom", "custom-east", |s| addresses(s) == expected).await;
    };
    let remove = async || {
        slices(east, "custom")
            .delete("by-hand", &DeleteParams::default())
            .await
            .unwrap();
    };
    for round in 0..3 {
        let began = Instant::now();
        add().await;
        has_endpoints(&["192.0.2.10"]).await;
        let came = began.elapsed();
        let began = Instant::now();
        remove().await;
        has_endpoints(&[]).await;
        let went = began.elapsed();
        eprintln!("round {round}: endpoints came after {came:?}, and went after {went:?}");
        assert!(came < FOLLOWED && went < FOLLOWED, "{came:?} {went:?}");
    }
    // Changes while the Service was not exported for a moment are applied.
    relabel(east, "custom", "custom", None).await;
    add().await;
    relabel(east, "custom", "custom", Some("true")).await;
    has_endpoints(&["192.0.2.10"]).await;
    remove().await;
    has_endpoints(&[]).await;
}
