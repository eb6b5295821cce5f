//! The controller writes nothing when nothing changes, and handles large amounts of work with no more writes than
//! needed.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use control_plane::eventually;
use futures::{StreamExt as _, stream};
use kube::api::PostParams;
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    audit::{mark, writes},
    controller::Controller,
    gateways::Gateways,
    links::{condition_is, in_step, own_link, status_that, unlink},
    objects::{
        addresses, create, export, gone, hosts, join, namespace, service, services, slices,
        slices_that, stateful, web,
    },
    planes::alone,
};

/// How long there must be no write. `controller::virtual_time` tests a whole day.
const REST: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn nothing_is_written_at_rest_or_after_a_restart() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("rest", &[source, far]).await;
    own_link(source, far, "rest", &["--enable-headless-services"]).await;
    for number in 0..5 {
        export(far, "rest", &web(&format!("web-{number}"), "rest")).await;
    }
    export(far, "rest", &web("direct", "rest-direct")).await;
    stateful(far, "rest", "db", "rest").await;
    hosts(far, "rest", "db", &[("db-0", true), ("db-1", true)]).await;
    for plane in [source, far] {
        join(plane, "rest", "member", "rest", "no").await;
    }
    // Services with problems must not cause further writes either.
    namespace("rest-missing", &[far]).await;
    export(far, "rest-missing", &web("web", "rest")).await;
    export(far, "rest", &web(&"s".repeat(60), "rest")).await;
    create(source, "rest", &web("taken-rest", "no")).await;
    export(far, "rest", &web("taken", "rest")).await;

    let gateways = Gateways::start();
    let flags = [
        "--probe-address",
        &gateways.address(),
        "--federated-service-selector=mirror.linkerd.io/federated=rest",
    ];
    let mut controller = Controller::start(source, &flags);
    let settled = |s: &linkerd_mc::api::link::LinkStatus| {
        (s.mirrored, s.federated, s.unhealthy) == (Some(7), Some(1), Some(3))
            && s.gateway
                .as_ref()
                .is_some_and(|g| g.alive == Some(true) && g.latency_ms.is_some())
    };
    status_that(source, "rest", settled).await;
    condition_is(source, "rest", "Ready", "True", "Mirroring").await;
    slices_that(source, "rest", "db-rest", |s| addresses(s).len() == 2).await;

    // Waits, because the absence of writes takes time to observe.
    let since = mark(source);
    tokio::time::sleep(REST).await;
    assert_eq!(writes(source, since), [], "at rest");
    assert_eq!(controller.terminate().0, Some(0));
    let controller = Controller::start(source, &flags);
    controller.in_step_within(SOON).await;
    tokio::time::sleep(REST).await;
    assert_eq!(writes(source, since), [], "after a restart");
    in_step(source, "rest", &[flags[2]]).await;
    unlink(source, "rest").await;
    gone(source, "rest", "web-0-rest").await;
    gone(source, "rest", "db-0-rest").await;
}

/// Number of Services that are exported before the controller starts: more than one page of a list.
const MANY: usize = 600;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn each_of_hundreds_of_services_takes_two_writes() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("many", &[source, far]).await;
    let (of_services, of_slices) = (services(far, "many"), slices(far, "many"));
    stream::iter(0..MANY)
        .for_each_concurrent(32, async |number| {
            let name = format!("web-{number}");
            let mut exported = web(&name, "many");
            // No Pod matches the selector, so only the slice below has an endpoint.
            exported.spec.as_mut().unwrap().selector =
                Some(BTreeMap::from([("app".into(), name.clone())]));
            of_services
                .create(&PostParams::default(), &exported)
                .await
                .unwrap();
            let slice = json!({
                "metadata": { "name": format!("{name}-test"), "labels": {
                    l::EXPORTED: "many", l::SLICE_SERVICE: name, l::SLICE_MANAGED_BY: "test",
                } },
                "addressType": "IPv4",
                "endpoints": [{ "addresses": ["192.0.2.100"], "conditions": { "ready": true } }],
                "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            });
            of_slices
                .create(
                    &PostParams::default(),
                    &serde_json::from_value(slice).unwrap(),
                )
                .await
                .unwrap();
        })
        .await;
    own_link(source, far, "many", &[]).await;

    let since = mark(source);
    let started = Instant::now();
    let gateways = Gateways::start();
    let controller = Controller::start(source, &["--probe-address", &gateways.address()]);
    controller.in_step_within(3 * SOON).await;
    eprintln!(
        "{MANY} Services were mirrored {:?} after the controller's start",
        started.elapsed()
    );
    let count = i64::try_from(MANY).unwrap();
    let status = status_that(source, "many", |status| status.mirrored == Some(count)).await;
    assert_eq!(status.unhealthy, Some(0));
    assert_eq!(status.mirror_services, []);
    service(source, "many", "web-599-many", |_| true).await;

    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut statuses = 0;
    for write in writes(source, since) {
        if write.resource == "links" {
            statuses += 1;
        } else if write.namespace == "many" {
            *counts.entry((write.verb, write.resource)).or_default() += 1;
        }
    }
    let create = |resource: &str| (("create".to_owned(), resource.to_owned()), MANY);
    assert_eq!(
        counts,
        BTreeMap::from([create("endpointslices"), create("services")])
    );
    assert!(statuses <= 20, "{statuses} writes of the Link's status");
    let mirrors = kube::api::ListParams::default().labels("mirror.linkerd.io/cluster-name=many");
    assert_eq!(
        slices(source, "many")
            .list(&mirrors)
            .await
            .unwrap()
            .items
            .len(),
        MANY
    );
    // The next test with these control planes must not find these objects.
    in_step(source, "many", &[]).await;
    unlink(source, "many").await;
    eventually("no mirrors", 3 * SOON, async || {
        let left = services(source, "many").list(&mirrors).await?;
        Ok(left.items.is_empty().then_some(()))
    })
    .await
    .unwrap();
}
