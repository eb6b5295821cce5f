//! Headless Services, such as those of `StatefulSet`s: clients reach the hosts by name.

use std::collections::BTreeMap;

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    installation::NAMESPACE,
    links::{annotate, events, in_step, mirror_is, own_link, status_that, unlink},
    objects::{
        addresses, annotation, cluster_ip, create, delete, endpoints, gone, hosts, label,
        namespace, patch, ports, service, services, slices_of, slices_that, stateful, web,
    },
    planes::hub,
};

/// Host names of a headless mirror, with their addresses.
fn named(slices: &[EndpointSlice]) -> BTreeMap<String, String> {
    slices
        .iter()
        .flat_map(|slice| &slice.endpoints)
        .map(|endpoint| {
            (
                endpoint.hostname.clone().unwrap_or_default(),
                endpoint.addresses[0].clone(),
            )
        })
        .collect()
}

/// Waits until a headless mirror has exactly these hosts, each with the address of its endpoint mirror.
async fn hosts_are(
    plane: &ControlPlane,
    namespace: &str,
    mirror: &str,
    cluster: &str,
    hosts: &[&str],
) {
    let what = format!("{namespace}/{mirror} to have {hosts:?}");
    eventually(&what, SOON, async || {
        let mut wanted = BTreeMap::new();
        for host in hosts {
            let mirror = services(plane, namespace)
                .get(&format!("{host}-{cluster}"))
                .await?;
            wanted.insert((*host).to_owned(), cluster_ip(&mirror).to_owned());
        }
        let slices = slices_of(plane, namespace, mirror).await?;
        Ok((named(&slices) == wanted).then_some(()))
    })
    .await
    .unwrap();
}

/// The numbers of the ports of slices.
fn numbers(slices: &[EndpointSlice]) -> Vec<Option<i32>> {
    let ports = slices.iter().flat_map(|s| s.ports.iter().flatten());
    ports.map(|port| port.port).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_reached_by_name_through_the_gateway() {
    let (east, west) = hub().await.pair();
    namespace("stateful", &[east, west]).await;
    own_link(west, east, "hosts", &["--enable-headless-services"]).await;
    stateful(east, "stateful", "db", "hosts").await;
    let three = [("db-0", true), ("db-1", true), ("db-2", false)];
    hosts(east, "stateful", "db", &three).await;

    let host = ready_hosts_have_mirrors(west).await;
    mirrors_follow_the_hosts(east, west, &host).await;
    mirrors_follow_the_service(east, west).await;

    delete(east, "stateful", "db").await;
    for name in ["db-hosts", "db-0-hosts", "db-3-hosts", "other-hosts"] {
        gone(west, "stateful", name).await;
    }
    in_step(west, "hosts", &[]).await;
    unlink(west, "hosts").await;
}

/// Returns the endpoint mirror of a host.
async fn ready_hosts_have_mirrors(west: &ControlPlane) -> Service {
    let mirror = service(west, "stateful", "db-hosts", |s| cluster_ip(s) == "None").await;
    assert_eq!(annotation(&mirror, "team"), Some("blue"));
    hosts_are(west, "stateful", "db-hosts", "hosts", &["db-0", "db-1"]).await;
    let of_mirror = slices_of(west, "stateful", "db-hosts").await.unwrap();
    // The slice has the ports of the remote endpoints. Clients do not need them: they connect to the endpoint mirror,
    // which has the ports of the Service.
    assert_eq!(numbers(&of_mirror), [Some(8080)]);

    let host = services(west, "stateful").get("db-0-hosts").await.unwrap();
    assert_eq!(label(&host, l::HEADLESS_MIRROR), Some("db-hosts"));
    assert_eq!(label(&host, l::CLUSTER_NAME), Some("hosts"));
    assert_eq!(
        annotation(&host, l::REMOTE_FQ_NAME),
        Some("db-0.db.stateful.svc.cluster.local")
    );
    assert_eq!(annotation(&host, "team"), None);
    assert_eq!(ports(&host), ports(&mirror));
    let of_host = slices_that(west, "stateful", "db-0-hosts", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;
    assert_eq!(numbers(&of_host), [Some(4143), Some(4143)]);
    let status = status_that(west, "hosts", |status| status.mirrored == Some(1)).await;
    assert_eq!(status.mirror_services[0].conditions[0].reason, "Mirrored");
    host
}

/// Hosts are added, removed, renamed, and become not ready.
async fn mirrors_follow_the_hosts(east: &ControlPlane, west: &ControlPlane, host: &Service) {
    let others = [
        ("db-0", true),
        ("db-1", false),
        ("other", true),
        ("db-3", true),
    ];
    hosts(east, "stateful", "db", &others).await;
    let names = ["db-0", "db-3", "other"];
    hosts_are(west, "stateful", "db-hosts", "hosts", &names).await;
    gone(west, "stateful", "db-1-hosts").await;
    let kept = services(west, "stateful").get("db-0-hosts").await.unwrap();
    assert_eq!(cluster_ip(&kept), cluster_ip(host));
}

/// A change of the Service updates the mirror and the endpoint mirrors.
async fn mirrors_follow_the_service(east: &ControlPlane, west: &ControlPlane) {
    let change = json!({
        "metadata": { "annotations": { "team": "red" } },
        "spec": { "ports": [{ "name": "sql", "port": 5432, "targetPort": 8080 }] },
    });
    let before = services(west, "stateful").get("db-0-hosts").await.unwrap();
    patch(east, "stateful", "db", change).await;
    service(west, "stateful", "db-hosts", |s| {
        annotation(s, "team") == Some("red")
    })
    .await;
    let after = service(west, "stateful", "db-0-hosts", |s| {
        ports(s) == [("sql", 5432)]
    })
    .await;
    assert_eq!(cluster_ip(&after), cluster_ip(&before));
    let names = ["db-0", "db-3", "other"];
    hosts_are(west, "stateful", "db-hosts", "hosts", &names).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn headless_service_without_named_hosts_has_a_cluster_ip_mirror() {
    let (east, west) = hub().await.pair();
    namespace("choice", &[east, west]).await;
    own_link(west, east, "choice", &["--enable-headless-services"]).await;
    stateful(east, "choice", "db", "choice").await;
    endpoints(east, "choice", "db", 1).await;
    service(west, "choice", "db-choice", |s| cluster_ip(s) != "None").await;
    slices_that(west, "choice", "db-choice", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;

    hosts(east, "choice", "db", &[("db-0", true)]).await;
    service(west, "choice", "db-choice", |s| cluster_ip(s) == "None").await;
    hosts_are(west, "choice", "db-choice", "choice", &["db-0"]).await;

    // If headless mirroring is disabled, the controller mirrors the headless Service like any other Service.
    annotate(west, "choice", json!({ l::HEADLESS_SERVICES: "disabled" })).await;
    service(west, "choice", "db-choice", |s| cluster_ip(s) != "None").await;
    slices_that(west, "choice", "db-choice", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;
    gone(west, "choice", "db-0-choice").await;
    // Without hosts, the slice of this mirror becomes empty, too.
    hosts(east, "choice", "db", &[]).await;
    slices_that(west, "choice", "db-choice", |s| addresses(s).is_empty()).await;

    annotate(west, "choice", json!({ l::HEADLESS_SERVICES: "enabled" })).await;
    hosts(east, "choice", "db", &[("db-0", true), ("db-1", true)]).await;
    hosts_are(west, "choice", "db-choice", "choice", &["db-0", "db-1"]).await;
    in_step(west, "choice", &[]).await;
    unlink(west, "choice").await;
    for name in ["db-choice", "db-0-choice", "db-1-choice"] {
        gone(west, "choice", name).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn service_without_ports_is_skipped_with_a_status_and_events() {
    let (east, west) = hub().await.pair();
    namespace("portless", &[east, west]).await;
    own_link(west, east, "portless", &["--enable-headless-services"]).await;
    let mut portless = web("db", "portless");
    let spec = portless.spec.as_mut().unwrap();
    spec.cluster_ip = Some("None".into());
    spec.ports = None;
    create(east, "portless", &portless).await;
    let said = mirror_is(west, "portless", "portless", "db", "InvalidService").await;
    assert_eq!(said.message, "object spec has no exposed ports");

    let message = "Skipped mirroring service: object spec has no exposed ports";
    let on_service = eventually("an Event on the Service", SOON, async || {
        Ok(events(east, "portless", "Service", "db").await?.pop())
    });
    let on_service = on_service.await.unwrap();
    assert_eq!(
        on_service.reason.as_deref(),
        Some("ServiceMirroringSkipped")
    );
    assert_eq!(on_service.message.as_deref(), Some(message));
    let source = on_service.source.unwrap().component.unwrap();
    assert_eq!(source, "linkerd-service-mirror-portless");
    let on_link = eventually("an Event on the Link", SOON, async || {
        Ok(events(west, NAMESPACE, "Link", "portless").await?.pop())
    });
    let on_link = on_link.await.unwrap();
    assert_eq!(on_link.message.unwrap(), format!("portless/db: {message}"));
    gone(west, "portless", "db-portless").await;

    hosts(east, "portless", "db", &[("db-0", true)]).await;
    patch(
        east,
        "portless",
        "db",
        json!({ "spec": { "ports": [{ "name": "http", "port": 80 }] } }),
    )
    .await;
    hosts_are(west, "portless", "db-portless", "portless", &["db-0"]).await;
    in_step(west, "portless", &[]).await;
    unlink(west, "portless").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn equal_host_names_do_not_share_a_mirror() {
    let (east, west) = hub().await.pair();
    namespace("collisions", &[east, west]).await;
    let has = async |service: &str, names: &[&str]| {
        let ready: Vec<_> = names.iter().map(|name| (*name, true)).collect();
        hosts(east, "collisions", service, &ready).await;
    };
    let mirrors = async |service: &str, names: &[&str]| {
        let mirror = format!("{service}-collide");
        hosts_are(west, "collisions", &mirror, "collide", names).await;
    };
    stateful(east, "collisions", "first", "collide").await;
    has("first", &["node", "own"]).await;
    own_link(west, east, "collide", &["--enable-headless-services"]).await;
    mirrors("first", &["node", "own"]).await;

    stateful(east, "collisions", "second", "collide").await;
    has("second", &["node", "mine"]).await;
    let said = mirror_is(west, "collide", "collisions", "second", "NameConflict").await;
    assert!(said.message.contains("node"), "{}", said.message);
    // The second Service has an endpoint mirror for its other host. The first Service keeps the name that both use.
    mirrors("second", &["mine"]).await;
    mirrors("first", &["node", "own"]).await;
    let node = services(west, "collisions")
        .get("node-collide")
        .await
        .unwrap();
    assert_eq!(label(&node, l::HEADLESS_MIRROR), Some("first-collide"));

    has("first", &["own"]).await;
    mirrors("second", &["mine", "node"]).await;
    mirror_is(west, "collide", "collisions", "second", "Mirrored").await;
    in_step(west, "collide", &[]).await;
    unlink(west, "collide").await;
}
