//! Gateway mode and remote discovery, one Service at a time, against two linked control planes.

use std::collections::BTreeMap;

use control_plane::eventually;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::support::{
    SOON,
    links::in_step,
    objects::{
        addresses, annotation, create, endpoints, export, gone, label, namespace, readiness,
        relabel, service, services, slices_of, slices_that, web,
    },
    planes::hub,
};

#[tokio::test(flavor = "multi_thread")]
async fn gateway_mode_mirror_has_what_linkerd_reads() {
    let (east, west) = hub().await.pair();
    namespace("gateway-mode", &[east, west]).await;
    export(east, "gateway-mode", &web("web", "true")).await;

    let mirror = service(west, "gateway-mode", "web-east", |_| true).await;
    let remote = services(east, "gateway-mode").get("web").await.unwrap();
    let labels: BTreeMap<_, _> = mirror.metadata.labels.clone().unwrap();
    let expected = [
        ("app", "web"),
        ("mirror.linkerd.io/cluster-name", "east"),
        ("mirror.linkerd.io/mirrored-service", "true"),
    ];
    assert_eq!(
        labels,
        expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into()
    );
    assert_eq!(annotation(&mirror, "team"), Some("blue"));
    assert_eq!(
        annotation(&mirror, "config.linkerd.io/opaque-ports"),
        Some("8080")
    );
    let fq_name = "web.gateway-mode.svc.cluster.local";
    assert_eq!(
        annotation(&mirror, "mirror.linkerd.io/remote-svc-fq-name"),
        Some(fq_name)
    );
    assert_eq!(
        annotation(&mirror, "mirror.linkerd.io/remote-resource-version"),
        remote.metadata.resource_version.as_deref()
    );
    let spec = mirror.spec.clone().unwrap();
    assert_eq!(spec.selector, None);
    let port = |p: &k8s_openapi::api::core::v1::ServicePort| {
        (
            p.name.clone(),
            p.port,
            p.protocol.clone(),
            p.app_protocol.clone(),
            p.target_port.clone(),
        )
    };
    let ports = |s: &Service| -> Vec<_> {
        s.spec
            .iter()
            .flat_map(|s| s.ports.iter().flatten())
            .map(port)
            .collect()
    };
    assert_eq!(ports(&mirror), ports(&remote));

    let slices = slices_that(west, "gateway-mode", "web-east", |s| {
        !addresses(s).is_empty()
    })
    .await;
    assert_eq!(slices.len(), 1);
    let slice = &slices[0];
    assert_eq!(slice.address_type, "IPv4");
    assert_eq!(addresses(&slices), ["192.0.2.10"]);
    assert_eq!(
        slice.endpoints[0].conditions.as_ref().and_then(|c| c.ready),
        Some(true)
    );
    let ports: Vec<_> = slice
        .ports
        .iter()
        .flatten()
        .map(|p| (p.name.as_deref(), p.port))
        .collect();
    assert_eq!(
        ports,
        [(Some("http"), Some(4143)), (Some("admin"), Some(4143))]
    );
    let annotations = slice.metadata.annotations.as_ref().unwrap();
    assert_eq!(annotations["mirror.linkerd.io/remote-svc-fq-name"], fq_name);
    assert_eq!(
        annotations["mirror.linkerd.io/remote-gateway-identity"],
        "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local"
    );
    let labels = slice.metadata.labels.as_ref().unwrap();
    assert_eq!(labels["mirror.linkerd.io/cluster-name"], "east");
    assert_eq!(
        labels["endpointslice.kubernetes.io/managed-by"],
        "linkerd-mc"
    );
    let owner = &slice.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(
        (owner.kind.as_str(), &owner.uid),
        ("Service", mirror.metadata.uid.as_ref().unwrap())
    );
    in_step(west, "east", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn switching_the_mode_keeps_the_cluster_ip() {
    let (east, west) = hub().await.pair();
    namespace("switch", &[east, west]).await;
    export(east, "switch", &web("web", "remote-discovery")).await;
    let discovery = |s: &Service| {
        label(s, "multicluster.linkerd.io/remote-discovery") == Some("east")
            && label(s, "multicluster.linkerd.io/remote-service") == Some("web")
    };
    let mirror = service(west, "switch", "web-east", discovery).await;
    let ip = mirror.spec.as_ref().unwrap().cluster_ip.clone();
    assert!(
        slices_of(west, "switch", "web-east")
            .await
            .unwrap()
            .is_empty()
    );

    for _ in 0..3 {
        relabel(east, "switch", "web", Some("true")).await;
        endpoints(east, "switch", "web", 1).await;
        let mirror = service(west, "switch", "web-east", |s| !discovery(s)).await;
        assert_eq!(mirror.spec.as_ref().unwrap().cluster_ip, ip);
        // In east, Kubernetes' own slice of the Service has no endpoints. The controller may see it before the slice of
        // the test.
        slices_that(west, "switch", "web-east", |s| {
            addresses(s) == ["192.0.2.10"] && readiness(s) == Some(true)
        })
        .await;

        relabel(east, "switch", "web", Some("remote-discovery")).await;
        let mirror = service(west, "switch", "web-east", discovery).await;
        assert_eq!(mirror.spec.as_ref().unwrap().cluster_ip, ip);
        in_step(west, "east", &[]).await;
        // The slices of gateway mode stay, because streams that began in this mode continue to use them.
        let found = slices_of(west, "switch", "web-east").await.unwrap();
        assert_eq!(addresses(&found), ["192.0.2.10"]);
        assert_eq!(readiness(&found), Some(true));
    }
    relabel(east, "switch", "web", None).await;
    gone(west, "switch", "web-east").await;
    in_step(west, "east", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mirror_follows_its_service_and_is_deleted_with_it() {
    let (east, west) = hub().await.pair();
    namespace("changes", &[east, west]).await;
    export(east, "changes", &web("web", "true")).await;
    slices_that(west, "changes", "web-east", |s| !addresses(s).is_empty()).await;

    let patch = json!({
        "metadata": { "labels": { "app": null, "tier": "front" }, "annotations": { "team": "red" } },
        "spec": { "ports": [{ "name": "grpc", "port": 7000, "targetPort": 7001 }] },
    });
    services(east, "changes")
        .patch("web", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let mirror = service(west, "changes", "web-east", |s| {
        label(s, "tier") == Some("front")
    })
    .await;
    assert_eq!(label(&mirror, "app"), None);
    assert_eq!(annotation(&mirror, "team"), Some("red"));
    let ports: Vec<_> = mirror
        .spec
        .iter()
        .flat_map(|s| s.ports.iter().flatten())
        .collect();
    assert_eq!(
        (ports.len(), ports[0].name.as_deref(), ports[0].port),
        (1, Some("grpc"), 7000)
    );
    slices_that(west, "changes", "web-east", |slices| {
        slices
            .iter()
            .flat_map(|s| s.ports.iter().flatten())
            .all(|p| p.name.as_deref() == Some("grpc"))
    })
    .await;

    endpoints(east, "changes", "web", 0).await;
    slices_that(west, "changes", "web-east", |s| addresses(s).is_empty()).await;
    endpoints(east, "changes", "web", 2).await;
    slices_that(west, "changes", "web-east", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;

    services(east, "changes")
        .delete("web", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    gone(west, "changes", "web-east").await;
    in_step(west, "east", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_are_created_when_their_namespace_appears() {
    let (east, west) = hub().await.pair();
    namespace("later", &[east]).await;
    export(east, "later", &web("web", "true")).await;
    let wait = [
        "wait",
        "--namespace=linkerd-multicluster",
        "--for=jsonpath={.status.mirrorServices[?(@.remoteRef.namespace==\"later\")].conditions[0].reason}=MissingNamespace",
        "link/east",
        "--timeout=30s",
    ];
    west.kubectl(&wait).await.unwrap();
    namespace("later", &[west]).await;
    service(west, "later", "web-east", |_| true).await;
    in_step(west, "east", &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_users_service_with_the_mirrors_name_is_left_alone() {
    let (east, west) = hub().await.pair();
    namespace("users", &[east, west]).await;
    let mut users = web("web-east", "no");
    users.metadata.labels = None;
    create(west, "users", &users).await;
    let before = services(west, "users").get("web-east").await.unwrap();
    export(east, "users", &web("web", "true")).await;
    let wait = [
        "wait",
        "--namespace=linkerd-multicluster",
        "--for=jsonpath={.status.mirrorServices[?(@.remoteRef.namespace==\"users\")].conditions[0].reason}=NameConflict",
        "link/east",
        "--timeout=30s",
    ];
    west.kubectl(&wait).await.unwrap();
    services(east, "users")
        .delete("web", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    // The conflict is removed from the status when the deletion has been processed.
    eventually("the conflict to be gone", SOON, async || {
        let output = west
            .kubectl(&[
                "get",
                "link/east",
                "--namespace=linkerd-multicluster",
                "-o",
                "json",
            ])
            .await?;
        Ok((!output.contains("\"users\"")).then_some(()))
    })
    .await
    .unwrap();
    let after = services(west, "users").get("web-east").await.unwrap();
    assert_eq!(
        after.metadata.resource_version,
        before.metadata.resource_version
    );
    in_step(west, "east", &[]).await;
}
