//! Headless Services, as of `StatefulSet`s, whose hosts are reached by name.

use std::collections::BTreeMap;

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::api::{Patch, PatchParams, PostParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::{
    fleet::{SOON, namespace},
    hub::hub,
    links::{events, in_step, links, mirror_is, own_link, status_that, unlink},
    objects::{
        addresses, annotation, cluster_ip, delete, endpoints, gone, label, patch, ports, service,
        services, slices, slices_of, slices_that, web,
    },
};

/// A headless Service.
pub(crate) async fn stateful(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    exported: &str,
) -> Service {
    let mut service = web(name, exported);
    service.spec.as_mut().unwrap().cluster_ip = Some("None".into());
    services(plane, namespace)
        .create(&PostParams::default(), &service)
        .await
        .unwrap()
}

/// Endpoints of a headless Service: hosts with a name each, ready or not.
pub(crate) async fn hosts(
    plane: &ControlPlane,
    namespace: &str,
    service: &str,
    hosts: &[(&str, bool)],
) {
    let labels = services(plane, namespace)
        .get(service)
        .await
        .unwrap()
        .metadata
        .labels;
    let mut labels = labels.unwrap_or_default();
    labels.insert(l::SLICE_SERVICE.into(), service.into());
    labels.insert(l::SLICE_HEADLESS.into(), String::new());
    labels.insert(l::SLICE_MANAGED_BY.into(), "test".into());
    let endpoints: Vec<Value> = hosts
        .iter()
        .zip(100..)
        .map(|((host, ready), n)| {
            json!({ "addresses": [format!("192.0.2.{n}")], "hostname": host, "conditions": { "ready": ready } })
        })
        .collect();
    let name = format!("{service}-test");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "labels": labels },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    slices(plane, namespace)
        .patch(
            &name,
            &PatchParams::apply("test").force(),
            &Patch::Apply(slice),
        )
        .await
        .unwrap();
}

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

#[tokio::test(flavor = "multi_thread")]
async fn hosts_are_reached_by_name_through_the_gateway() {
    let (east, west) = hub().await.pair();
    namespace("stateful", &[east, west]).await;
    own_link(west, east, "hosts", &["--enable-headless-services"]).await;
    stateful(east, "stateful", "db", "hosts").await;
    hosts(
        east,
        "stateful",
        "db",
        &[("db-0", true), ("db-1", true), ("db-2", false)],
    )
    .await;

    let mirror = service(west, "stateful", "db-hosts", |s| cluster_ip(s) == "None").await;
    assert_eq!(annotation(&mirror, "team"), Some("blue"));
    hosts_are(west, "stateful", "db-hosts", "hosts", &["db-0", "db-1"]).await;
    let of_mirror = slices_of(west, "stateful", "db-hosts").await.unwrap();
    // Remote port numbers: clients talk to the endpoint mirror, which has the Service's ports.
    let numbers: Vec<_> = of_mirror
        .iter()
        .flat_map(|s| s.ports.iter().flatten())
        .map(|p| p.port)
        .collect();
    assert_eq!(numbers, [Some(8080)]);

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
    let numbers: Vec<_> = of_host
        .iter()
        .flat_map(|s| s.ports.iter().flatten())
        .map(|p| p.port)
        .collect();
    assert_eq!(numbers, [Some(4143), Some(4143)]);
    let status = status_that(west, "hosts", |status| status.mirrored == Some(1)).await;
    assert_eq!(status.mirror_services[0].conditions[0].reason, "Mirrored");

    // Added, removed, renamed, no longer ready.
    hosts(
        east,
        "stateful",
        "db",
        &[
            ("db-0", true),
            ("db-1", false),
            ("other", true),
            ("db-3", true),
        ],
    )
    .await;
    hosts_are(
        west,
        "stateful",
        "db-hosts",
        "hosts",
        &["db-0", "db-3", "other"],
    )
    .await;
    gone(west, "stateful", "db-1-hosts").await;
    let kept = services(west, "stateful").get("db-0-hosts").await.unwrap();
    assert_eq!(cluster_ip(&kept), cluster_ip(&host));

    // A change of the Service reaches the mirror and the hosts, and leaves the addresses alone.
    let change = json!({
        "metadata": { "annotations": { "team": "red" } },
        "spec": { "ports": [{ "name": "sql", "port": 5432, "targetPort": 8080 }] },
    });
    patch(east, "stateful", "db", change).await;
    service(west, "stateful", "db-hosts", |s| {
        annotation(s, "team") == Some("red")
    })
    .await;
    service(west, "stateful", "db-0-hosts", |s| {
        ports(s) == [("sql", 5432)]
    })
    .await;
    hosts_are(
        west,
        "stateful",
        "db-hosts",
        "hosts",
        &["db-0", "db-3", "other"],
    )
    .await;

    delete(east, "stateful", "db").await;
    for name in ["db-hosts", "db-0-hosts", "db-3-hosts", "other-hosts"] {
        gone(west, "stateful", name).await;
    }
    in_step(west, "hosts", &[]).await;
    unlink(west, "hosts").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_named_hosts_it_is_a_cluster_ip_mirror_until_there_are_some() {
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

    // Without the flag it is mirrored like any other Service.
    annotate(west, "choice", Some("disabled")).await;
    service(west, "choice", "db-choice", |s| cluster_ip(s) != "None").await;
    slices_that(west, "choice", "db-choice", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;
    gone(west, "choice", "db-0-choice").await;
    // And empties like any other.
    hosts(east, "choice", "db", &[]).await;
    slices_that(west, "choice", "db-choice", |s| addresses(s).is_empty()).await;

    annotate(west, "choice", Some("enabled")).await;
    hosts(east, "choice", "db", &[("db-0", true), ("db-1", true)]).await;
    hosts_are(west, "choice", "db-choice", "choice", &["db-0", "db-1"]).await;
    in_step(west, "choice", &[]).await;
    unlink(west, "choice").await;
    for name in ["db-choice", "db-0-choice", "db-1-choice"] {
        gone(west, "choice", name).await;
    }
}

/// Says on a Link whether headless Services are mirrored as such.
async fn annotate(plane: &ControlPlane, link: &str, value: Option<&str>) {
    let annotations = json!({ "metadata": { "annotations": { l::HEADLESS_SERVICES: value } } });
    links(plane)
        .patch(link, &PatchParams::default(), &Patch::Merge(annotations))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_without_ports_is_skipped_and_people_are_told() {
    let (east, west) = hub().await.pair();
    namespace("portless", &[east, west]).await;
    own_link(west, east, "portless", &["--enable-headless-services"]).await;
    let mut portless = web("db", "portless");
    let spec = portless.spec.as_mut().unwrap();
    spec.cluster_ip = Some("None".into());
    spec.ports = None;
    services(east, "portless")
        .create(&PostParams::default(), &portless)
        .await
        .unwrap();
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
        Ok(events(west, crate::fleet::NAMESPACE, "Link", "portless")
            .await?
            .pop())
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
    stateful(east, "collisions", "first", "collide").await;
    hosts(
        east,
        "collisions",
        "first",
        &[("node", true), ("own", true)],
    )
    .await;
    own_link(west, east, "collide", &["--enable-headless-services"]).await;
    hosts_are(
        west,
        "collisions",
        "first-collide",
        "collide",
        &["node", "own"],
    )
    .await;

    stateful(east, "collisions", "second", "collide").await;
    hosts(
        east,
        "collisions",
        "second",
        &[("node", true), ("mine", true)],
    )
    .await;
    let said = mirror_is(west, "collide", "collisions", "second", "NameConflict").await;
    assert!(said.message.contains("node"), "{}", said.message);
    // The host that has its name to itself works, and the first Service keeps what it has.
    hosts_are(west, "collisions", "second-collide", "collide", &["mine"]).await;
    hosts_are(
        west,
        "collisions",
        "first-collide",
        "collide",
        &["node", "own"],
    )
    .await;
    let node = services(west, "collisions")
        .get("node-collide")
        .await
        .unwrap();
    assert_eq!(label(&node, l::HEADLESS_MIRROR), Some("first-collide"));

    hosts(east, "collisions", "first", &[("own", true)]).await;
    hosts_are(
        west,
        "collisions",
        "second-collide",
        "collide",
        &["mine", "node"],
    )
    .await;
    mirror_is(west, "collide", "collisions", "second", "Mirrored").await;
    in_step(west, "collide", &[]).await;
    unlink(west, "collide").await;
}
