//! Edge cases of mirroring: Services without endpoints, without a gateway, or that cannot be mirrored, and changes of
//! Links that must not cause a new connection.

use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams},
};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    audit::watches,
    controller::Controller,
    gateways::Gateways,
    links::{
        annotate, condition_is, edit, in_step, links, member_is, mirror_is, own_link, said,
        status_that, unlink,
    },
    objects::{
        addresses, annotation, cluster_ip, create, endpoints, export, gone, hosts, join, label,
        namespace, patch, ports, readiness, service, services, slices, slices_of, slices_that, web,
    },
    planes::{alone, hub},
};

/// A headless Service for which Kubernetes creates no slice.
fn bare(name: &str, exported: &str) -> Service {
    let mut service = web(name, exported);
    let spec = service.spec.as_mut().unwrap();
    spec.cluster_ip = Some("None".into());
    spec.selector = None;
    service
}

fn versions(slices: &[EndpointSlice]) -> Vec<Option<String>> {
    slices
        .iter()
        .map(kube::ResourceExt::resource_version)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_has_endpoints_exactly_while_its_service_has() {
    let (east, west) = hub().await.pair();
    namespace("ebb", &[east, west]).await;
    // Kubernetes creates a slice without endpoints for this Service.
    create(east, "ebb", &web("web", "true")).await;
    service(west, "ebb", "web-east", |_| true).await;
    slices_that(west, "ebb", "web-east", |s| {
        s.len() == 1 && addresses(s).is_empty()
    })
    .await;
    endpoints(east, "ebb", "web", 1).await;
    let one = slices_that(west, "ebb", "web-east", |s| addresses(s) == ["192.0.2.10"]).await;

    // More endpoints change nothing: the mirror has the gateway already.
    endpoints(east, "ebb", "web", 2).await;
    export(east, "ebb", &web("fence", "true")).await;
    slices_that(west, "ebb", "fence-east", |s| !addresses(s).is_empty()).await;
    let two = slices_of(west, "ebb", "web-east").await.unwrap();
    assert_eq!(versions(&two), versions(&one));

    slices(east, "ebb")
        .delete("web-test", &DeleteParams::default())
        .await
        .unwrap();
    slices_that(west, "ebb", "web-east", |s| addresses(s).is_empty()).await;
    // A change of the Service adds no endpoints to its mirror.
    patch(
        east,
        "ebb",
        "web",
        json!({ "metadata": { "labels": { "tier": "front" } } }),
    )
    .await;
    service(west, "ebb", "web-east", |s| {
        label(s, "tier") == Some("front")
    })
    .await;
    let changed = slices_of(west, "ebb", "web-east").await.unwrap();
    assert_eq!(addresses(&changed), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn remote_discovery_follows_changes_and_needs_no_gateway() {
    let (east, west) = hub().await.pair();
    namespace("flat", &[east, west]).await;
    own_link(west, east, "flat", &["--gateway=false"]).await;
    export(east, "flat", &web("web", "flat-direct")).await;
    let mirror = service(west, "flat", "web-flat", |s| {
        label(s, l::REMOTE_DISCOVERY) == Some("flat") && label(s, l::REMOTE_SERVICE) == Some("web")
    })
    .await;
    let change = json!({
        "metadata": { "labels": { "app": null }, "annotations": { "team": "red" } },
        "spec": { "ports": [{ "name": "sql", "port": 5432 }] },
    });
    patch(east, "flat", "web", change).await;
    let changed = service(west, "flat", "web-flat", |s| ports(s) == [("sql", 5432)]).await;
    assert_eq!(annotation(&changed, "team"), Some("red"));
    assert_eq!(label(&changed, "app"), None);
    assert_eq!(label(&changed, l::REMOTE_DISCOVERY), Some("flat"));
    assert_eq!(cluster_ip(&changed), cluster_ip(&mirror));
    assert!(
        slices_of(west, "flat", "web-flat")
            .await
            .unwrap()
            .is_empty()
    );
    condition_is(west, "flat", "Ready", "True", "Mirroring").await;
    in_step(west, "flat", &[]).await;
    unlink(west, "flat").await;
    gone(west, "flat", "web-flat").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_headless_service_waits_for_its_hosts_and_its_namespace() {
    let (east, west) = hub().await.pair();
    namespace("bare", &[east]).await;
    own_link(west, east, "bare", &["--enable-headless-services"]).await;
    create(east, "bare", &bare("idle", "bare")).await;
    create(east, "bare", &bare("direct", "bare-direct")).await;
    create(east, "bare", &bare("db", "bare")).await;
    hosts(east, "bare", "db", &[("db-0", true)]).await;
    mirror_is(west, "bare", "bare", "db", "MissingNamespace").await;
    namespace("bare", &[west]).await;
    service(west, "bare", "db-bare", |s| cluster_ip(s) == "None").await;
    slices_that(west, "bare", "db-bare", |s| addresses(s).len() == 1).await;
    slices_that(west, "bare", "db-0-bare", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;
    mirror_is(west, "bare", "bare", "db", "Mirrored").await;

    // Without any host, the mirror stays headless, and it is not replaced when hosts come back.
    let mirror = services(west, "bare").get("db-bare").await.unwrap().uid();
    hosts(east, "bare", "db", &[]).await;
    gone(west, "bare", "db-0-bare").await;
    slices_that(west, "bare", "db-bare", |s| addresses(s).is_empty()).await;
    hosts(east, "bare", "db", &[("db-0", true)]).await;
    let host = service(west, "bare", "db-0-bare", |_| true).await;
    let ip = cluster_ip(&host);
    slices_that(west, "bare", "db-bare", |s| addresses(s) == [ip]).await;
    let still = services(west, "bare").get("db-bare").await.unwrap();
    assert_eq!((still.uid(), cluster_ip(&still)), (mirror, "None"));

    // With remote discovery, Linkerd finds the hosts itself.
    let direct = service(west, "bare", "direct-bare", |_| true).await;
    assert_eq!(label(&direct, l::REMOTE_DISCOVERY), Some("bare"));
    assert_ne!(cluster_ip(&direct), "None");
    // `idle` is older than the others, and has no slices. So the controller waits for its endpoints.
    let idle = services(west, "bare").get_opt("idle-bare").await.unwrap();
    assert!(idle.is_none(), "{idle:?}");
    // A host with a name makes the mirror headless. A host that is not ready gets no endpoint mirror.
    hosts(east, "bare", "idle", &[("idle-0", false)]).await;
    service(west, "bare", "idle-bare", |s| cluster_ip(s) == "None").await;
    mirror_is(west, "bare", "bare", "idle", "Mirrored").await;
    gone(west, "bare", "idle-0-bare").await;
    in_step(west, "bare", &[]).await;
    unlink(west, "bare").await;
    gone(west, "bare", "db-0-bare").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn external_names_and_mirrors_are_not_mirrored() {
    let (east, west) = hub().await.pair();
    namespace("wide", &[east, west]).await;
    // Mirrors get a copy of this label, so the selector matches them, too.
    own_link(west, east, "wide", &["--selector=app=wide"]).await;
    let wide = |name: &str| {
        let mut service = web(name, "no");
        service.labels_mut().insert("app".into(), "wide".into());
        service
    };
    let mut mirror = wide("theirs");
    mirror
        .labels_mut()
        .insert(l::MIRRORED_SERVICE.into(), "true".into());
    create(east, "wide", &mirror).await;
    let mut external = wide("external");
    let spec = external.spec.as_mut().unwrap();
    spec.type_ = Some("ExternalName".into());
    spec.external_name = Some("example.com".into());
    spec.selector = None;
    create(east, "wide", &external).await;
    let refused = mirror_is(west, "wide", "wide", "external", "InvalidService").await;
    assert!(refused.message.contains("ExternalName"), "{refused:?}");
    export(east, "wide", &wide("web")).await;
    service(west, "wide", "web-wide", |_| true).await;
    let status = status_that(west, "wide", |status| status.mirrored == Some(1)).await;
    assert!(said(&status.mirror_services, "wide", "theirs").is_none());
    for name in ["theirs-wide", "external-wide"] {
        let found = services(west, "wide").get_opt(name).await.unwrap();
        assert!(found.is_none(), "{found:?}");
    }
    in_step(west, "wide", &[]).await;
    unlink(west, "wide").await;
    gone(west, "wide", "web-wide").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_spec_changes_make_a_link_reconnect() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("same", &[source, far]).await;
    own_link(source, far, "same", &[]).await;
    let _controller = Controller::start(source, &[]);
    condition_is(source, "same", "Ready", "True", "Mirroring").await;
    let before = watches(far);
    annotate(source, "same", json!({ "note": "x" })).await;
    // The exports change the Link's status. This must not cause a new connection either.
    export(far, "same", &web("web", "same")).await;
    status_that(source, "same", |status| status.mirrored == Some(1)).await;
    export(far, "same", &web("more", "same")).await;
    status_that(source, "same", |status| status.mirrored == Some(2)).await;
    assert_eq!(watches(far), before);
    in_step(source, "same", &[]).await;
    unlink(source, "same").await;
    gone(source, "same", "web-same").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_federated_service_waits_for_its_namespace() {
    let (east, west) = hub().await.pair();
    namespace("nowhere-yet", &[east]).await;
    own_link(west, east, "yet", &[]).await;
    join(east, "nowhere-yet", "web", "yet", "no").await;
    let said = member_is(west, "yet", "nowhere-yet", "web", "MissingNamespace").await;
    assert_eq!(said.message, "Namespace does not exist");
    namespace("nowhere-yet", &[west]).await;
    let made = service(west, "nowhere-yet", "web-federated", |_| true).await;
    assert_eq!(annotation(&made, l::REMOTE_DISCOVERY), Some("web@yet"));
    member_is(west, "yet", "nowhere-yet", "web", "Mirrored").await;
    in_step(west, "yet", &[]).await;
    unlink(west, "yet").await;
    gone(west, "nowhere-yet", "web-federated").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_stays_while_the_gateway_state_is_unknown() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("unknown", &[source, far]).await;
    own_link(source, far, "unknown", &[]).await;
    let probe = |threshold: &str| json!({ "probeSpec": { "path": "/unknown", "period": "1s", "failureThreshold": threshold } });
    edit(source, "unknown", probe("1")).await;
    export(far, "unknown", &web("old", "unknown")).await;
    let gateways = Gateways::start();
    gateways.kill("/unknown");
    let address = gateways.address();
    let flags = ["--probe-address", address.as_str()];
    let mut controller = Controller::start(source, &flags);
    slices_that(source, "unknown", "old-unknown", |s| {
        readiness(s) == Some(false)
    })
    .await;
    controller.kill();

    // The new controller finds no gateway state in the Link's status, and would need a thousand failures before the
    // gateway counts as dead.
    let forget = Patch::Merge(json!({ "status": { "gateway": null } }));
    links(source)
        .patch_status("unknown", &PatchParams::default(), &forget)
        .await
        .unwrap();
    edit(source, "unknown", probe("1000")).await;
    let controller = Controller::start(source, &flags);
    export(far, "unknown", &web("new", "unknown")).await;
    slices_that(source, "unknown", "new-unknown", |s| {
        readiness(s) == Some(true)
    })
    .await;
    // The new controller has planned all mirrors. It must not have changed the old one.
    controller.in_step_within(SOON).await;
    let old = slices_of(source, "unknown", "old-unknown").await.unwrap();
    assert_eq!(readiness(&old), Some(false));
    in_step(source, "unknown", &[]).await;
    unlink(source, "unknown").await;
    gone(source, "unknown", "old-unknown").await;
}
