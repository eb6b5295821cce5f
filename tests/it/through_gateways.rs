//! Federated Services that reach their remote members through gateways.

use control_plane::ControlPlane;
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    controller::Controller,
    gateways::Gateways,
    links::{annotate, condition_is, in_step, member_is, own_link, unlink},
    objects::{
        annotation, cluster_ip, delete, endpoints, gone, has_members, join, namespace, service,
        services, slices_that,
    },
    planes::alone,
};

/// Namespace, cluster and group of members of this test.
const NAME: &str = "gatewayed";
const MEMBERS: &str = "--federated-service-selector=mirror.linkerd.io/federated=gatewayed";
const SERVICE: &str = "web-federated";

/// A member with two endpoints that are ready.
async fn member(plane: &ControlPlane) {
    join(plane, NAME, "web", NAME, "no").await;
    endpoints(plane, NAME, "web", 2).await;
}

/// Sets how the remote cluster takes part. Null restores the default, remote discovery.
async fn turn(plane: &ControlPlane, through: Value) {
    annotate(plane, NAME, json!({ l::FEDERATED_THROUGH: through })).await;
}

/// The ready addresses: those of the remote cluster's gateway, and those of local Pods.
fn ready(slices: &[EndpointSlice]) -> [Vec<&str>; 2] {
    let of = |remote: bool| {
        let is_remote = |slice: &&EndpointSlice| {
            let labels = slice.metadata.labels.as_ref();
            labels.is_some_and(|labels| labels.contains_key(l::CLUSTER_NAME)) == remote
        };
        let endpoints = slices.iter().filter(is_remote).flat_map(|s| &s.endpoints);
        let ready = endpoints.filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.and_then(|conditions| conditions.ready) != Some(false)
        });
        let mut addresses: Vec<&str> = ready
            .flat_map(|endpoint| endpoint.addresses.iter().map(String::as_str))
            .collect();
        addresses.sort_unstable();
        addresses
    };
    [of(true), of(false)]
}

const GATEWAY: &str = "192.0.2.50";
const PODS: [&str; 2] = ["192.0.2.100", "192.0.2.101"];

/// Waits until the federated Service has these ready endpoints: the remote cluster's gateway, and local Pods.
async fn leads_to(source: &ControlPlane, gateways: &[&str], pods: &[&str]) -> Vec<EndpointSlice> {
    let are = |now: &[EndpointSlice]| ready(now) == [gateways, pods];
    slices_that(source, NAME, SERVICE, are).await
}

#[tokio::test(flavor = "multi_thread")]
async fn federated_service_has_slices_of_local_pods_and_of_a_remote_gateway() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace(NAME, &[source, far]).await;
    let gateways = Gateways::start();
    let flags = [MEMBERS, "--probe-address", &gateways.address()];
    let controller = Controller::start(source, &flags);
    member(source).await;
    member(far).await;
    own_link(source, far, NAME, &["--federated-through=gateway"]).await;

    let made = service_of_slices_is_made(source).await;
    let [members, endpoints] = ["members", "ready_endpoints"].map(|what| {
        format!(r#"linkerd_mc_federated_{what}{{federated_service="{NAME}/{SERVICE}"}}"#)
    });
    controller
        .metric_is(&members, |count| count == Some(2.0))
        .await;
    controller
        .metric_is(&endpoints, |count| count == Some(3.0))
        .await;
    pods_and_gateways_come_and_go(source, far, &gateways).await;
    form_changes_and_the_service_stays(source, cluster_ip(&made)).await;

    // First the other cluster leaves, then the local member.
    unlink(source, NAME).await;
    let left = service(source, NAME, SERVICE, |now| {
        has_members(now, None, Some("web")) && annotation(now, l::MEMBERS).is_none()
    })
    .await;
    assert_eq!(cluster_ip(&left), cluster_ip(&made));
    leads_to(source, &[], &PODS).await;
    controller
        .metric_is(&members, |count| count == Some(1.0))
        .await;
    controller
        .metric_is(&endpoints, |count| count.is_none())
        .await;
    delete(source, NAME, "web").await;
    gone(source, NAME, SERVICE).await;
    controller
        .metric_is(&members, |count| count.is_none())
        .await;
}

async fn service_of_slices_is_made(source: &ControlPlane) -> Service {
    let made = service(source, NAME, SERVICE, |now| {
        annotation(now, l::MEMBERS) == Some("web@gatewayed")
            && annotation(now, l::LOCAL_MEMBER) == Some("web")
    })
    .await;
    assert_eq!(annotation(&made, l::REMOTE_DISCOVERY), None);
    let slices = leads_to(source, &[GATEWAY], &PODS).await;
    let name = format!("{SERVICE}.{NAME}-ipv4");
    let of_gateway = slices
        .iter()
        .find(|slice| slice.metadata.name.as_deref() == Some(&name));
    let annotations = of_gateway.unwrap().metadata.annotations.as_ref().unwrap();
    assert_eq!(
        annotations[l::REMOTE_FQ_NAME],
        "web.gatewayed.svc.cluster.local"
    );
    assert!(annotations[l::REMOTE_GATEWAY_IDENTITY].contains("linkerd-gateway"));
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    in_step(source, NAME, &[MEMBERS]).await;
    made
}

async fn pods_and_gateways_come_and_go(
    source: &ControlPlane,
    far: &ControlPlane,
    gateways: &Gateways,
) {
    endpoints(source, NAME, "web", 1).await;
    leads_to(source, &[GATEWAY], &PODS[..1]).await;
    endpoints(far, NAME, "web", 0).await;
    leads_to(source, &[], &PODS[..1]).await;
    endpoints(far, NAME, "web", 1).await;
    endpoints(source, NAME, "web", 2).await;
    leads_to(source, &[GATEWAY], &PODS).await;
    gateways.kill("/ready");
    leads_to(source, &[], &PODS).await;
    gateways.revive("/ready");
    leads_to(source, &[GATEWAY], &PODS).await;
}

/// The Link changes from slices to remote discovery and back. Then it has an invalid value, which is reported.
async fn form_changes_and_the_service_stays(source: &ControlPlane, ip: &str) {
    turn(source, Value::Null).await;
    let flat = service(source, NAME, SERVICE, |now| {
        has_members(now, Some("web@gatewayed"), Some("web"))
            && annotation(now, l::MEMBERS).is_none()
    })
    .await;
    assert_eq!(cluster_ip(&flat), ip);
    leads_to(source, &[GATEWAY], &PODS).await;
    in_step(source, NAME, &[MEMBERS]).await;
    turn(source, "gateway".into()).await;
    let again = service(source, NAME, SERVICE, |now| {
        annotation(now, l::MEMBERS) == Some("web@gatewayed")
            && annotation(now, l::REMOTE_DISCOVERY).is_none()
    })
    .await;
    assert_eq!(cluster_ip(&again), ip);
    turn(source, "sideways".into()).await;
    let invalid = condition_is(source, NAME, "Ready", "False", "InvalidLink").await;
    assert!(
        invalid
            .message
            .contains("invalid value \"sideways\" (use discovery or gateway)"),
        "{}",
        invalid.message
    );
    leads_to(source, &[GATEWAY], &PODS).await;
    let kept = services(source, NAME).get(SERVICE).await.unwrap();
    assert_eq!(cluster_ip(&kept), ip);
    assert_eq!(annotation(&kept, l::MEMBERS), Some("web@gatewayed"));
    turn(source, "gateway".into()).await;
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    in_step(source, NAME, &[MEMBERS]).await;
}
