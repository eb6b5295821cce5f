//! Federated Services whose members of other clusters come through gateways.

use control_plane::ControlPlane;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Patch, PatchParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::{
    fleet::{Controller, namespace},
    gateways::Gateways,
    hub::alone,
    links::{condition_is, in_step, links, member_is, own_link, unlink},
    objects::{annotation, cluster_ip, delete, endpoints, gone, join, service, slices_that},
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

/// Sets how the cluster takes part, or leaves it to the default.
async fn turn(plane: &ControlPlane, through: Value) {
    let patch = json!({ "metadata": { "annotations": { l::FEDERATED_THROUGH: through } } });
    links(plane)
        .patch(NAME, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// The addresses that take traffic behind the gateway of the cluster, and in the local cluster.
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

#[tokio::test(flavor = "multi_thread")]
async fn one_service_spans_local_pods_and_the_gateway_of_another_cluster() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace(NAME, &[source, far]).await;
    let gateways = Gateways::start();
    let flags = [MEMBERS, "--probe-address", &gateways.address()];
    let _controller = Controller::start(source, &flags);
    member(source).await;
    member(far).await;
    own_link(source, far, NAME, &["--federated-through=gateway"]).await;

    let made = service(source, NAME, SERVICE, |now| {
        annotation(now, l::MEMBERS) == Some("web@gatewayed")
            && annotation(now, l::LOCAL_MEMBER) == Some("web")
    })
    .await;
    assert_eq!(annotation(&made, l::REMOTE_DISCOVERY), None);
    let slices = slices_that(source, NAME, SERVICE, |now| {
        ready(now) == [vec![GATEWAY], PODS.to_vec()]
    })
    .await;
    let name = format!("{SERVICE}-{NAME}-ipv4");
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
    in_step(source, NAME, &flags[..1]).await;

    // Pods of either side, and the gateway, come and go.
    endpoints(source, NAME, "web", 1).await;
    slices_that(source, NAME, SERVICE, |now| {
        ready(now) == [vec![GATEWAY], vec![PODS[0]]]
    })
    .await;
    endpoints(far, NAME, "web", 0).await;
    slices_that(source, NAME, SERVICE, |now| {
        ready(now) == [vec![], vec![PODS[0]]]
    })
    .await;
    endpoints(far, NAME, "web", 1).await;
    endpoints(source, NAME, "web", 2).await;
    slices_that(source, NAME, SERVICE, |now| {
        ready(now) == [vec![GATEWAY], PODS.to_vec()]
    })
    .await;
    gateways.kill("/ready");
    slices_that(source, NAME, SERVICE, |now| {
        ready(now) == [vec![], PODS.to_vec()]
    })
    .await;
    gateways.revive("/ready");
    slices_that(source, NAME, SERVICE, |now| {
        ready(now) == [vec![GATEWAY], PODS.to_vec()]
    })
    .await;

    // From one form to the other and back: the Service stays, and so do its slices.
    turn(source, Value::Null).await;
    let flat = service(source, NAME, SERVICE, |now| {
        annotation(now, l::REMOTE_DISCOVERY) == Some("web@gatewayed")
            && annotation(now, l::LOCAL_DISCOVERY) == Some("web")
            && annotation(now, l::MEMBERS).is_none()
    })
    .await;
    assert_eq!(cluster_ip(&flat), cluster_ip(&made));
    slices_that(source, NAME, SERVICE, |now| {
        ready(now) == [vec![GATEWAY], PODS.to_vec()]
    })
    .await;
    in_step(source, NAME, &flags[..1]).await;
    turn(source, "gateway".into()).await;
    let again = service(source, NAME, SERVICE, |now| {
        annotation(now, l::MEMBERS) == Some("web@gatewayed")
            && annotation(now, l::REMOTE_DISCOVERY).is_none()
    })
    .await;
    assert_eq!(cluster_ip(&again), cluster_ip(&made));
    turn(source, "sideways".into()).await;
    let invalid = condition_is(source, NAME, "Ready", "False", "InvalidLink").await;
    assert!(
        invalid
            .message
            .contains("\"sideways\" is none of discovery, gateway"),
        "{}",
        invalid.message
    );
    turn(source, "gateway".into()).await;
    member_is(source, NAME, NAME, "web", "Mirrored").await;
    in_step(source, NAME, &flags[..1]).await;

    // The other cluster goes, and then the local member.
    unlink(source, NAME).await;
    let left = service(source, NAME, SERVICE, |now| {
        annotation(now, l::LOCAL_DISCOVERY) == Some("web")
            && annotation(now, l::REMOTE_DISCOVERY).is_none()
            && annotation(now, l::MEMBERS).is_none()
    })
    .await;
    assert_eq!(cluster_ip(&left), cluster_ip(&made));
    slices_that(source, NAME, SERVICE, |now| {
        ready(now) == [vec![], PODS.to_vec()]
    })
    .await;
    delete(source, NAME, "web").await;
    gone(source, NAME, SERVICE).await;
}
