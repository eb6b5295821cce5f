//! What people write by hand, or take from pages on the web: Links with fields that are absent, empty or in another form,
//! Services with unusual names, and a CRD of another version.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    controller::Controller,
    links::{checked, condition_is, condition_says, edit, mirror_is, own_link, unlink},
    objects::{annotation, apply, export, namespace, service, web},
    planes::{alone, bare},
    program::run,
    versions::has_version,
};

/// The first minor version whose Services may have names that begin with a digit.
const DIGITS: u32 = 36;

#[tokio::test(flavor = "multi_thread")]
async fn links_that_people_write_work_or_say_which_field_is_wrong() {
    let alone = alone().await;
    let (source, far) = (&*alone.source, &*alone.far);
    namespace("by-hand", &[source, far]).await;
    own_link(source, far, "hand", &[]).await;
    // As in a published sample.
    let absent = json!({ "targetClusterDomain": null, "targetClusterLinkerdNamespace": null });
    edit(source, "hand", absent).await;
    export(far, "by-hand", &web("web", "hand")).await;
    let _controller = Controller::start(source, &[]);
    let name = "web.by-hand.svc.cluster.local";
    let is_named = |mirror: &_| annotation(mirror, l::REMOTE_FQ_NAME) == Some(name);
    service(source, "by-hand", "web-hand", is_named).await;

    // A Service that Kubernetes permits since a later version.
    if has_version(source, DIGITS, "Services whose names begin with a digit").await {
        export(far, "by-hand", &web("1db", "hand")).await;
        service(source, "by-hand", "1db-hand", |_| true).await;
        mirror_is(source, "hand", "by-hand", "1db", "Mirrored").await;
    }

    let is_valid = "Link resources are valid";
    edit(
        source,
        "hand",
        json!({ "gatewayAddress": "gw.example.com:4143" }),
    )
    .await;
    let field = "spec.gatewayAddress must have IP addresses or host names alone";
    let probed = ("True", "ProbeSucceeded");
    condition_says(source, "hand", "GatewayAlive", probed, field).await;
    mirror_is(source, "hand", "by-hand", "web", "Error").await;
    let found = checked(source, is_valid)["error"].to_string();
    assert!(found.contains(field), "{found}");
    edit(source, "hand", json!({ "gatewayAddress": "[2001:db8::1]" })).await;
    mirror_is(source, "hand", "by-hand", "web", "Mirrored").await;

    let field = "spec.clusterCredentialsSecret is empty";
    edit(source, "hand", json!({ "clusterCredentialsSecret": "" })).await;
    let missing = ("False", "SecretMissing");
    condition_says(source, "hand", "CredentialsValid", missing, field).await;
    let found = checked(source, is_valid)["error"].to_string();
    assert!(found.contains(field), "{found}");

    // A Secret of another name, as a secret store may make it.
    let secrets = Api::<Secret>::namespaced(source.client(), "linkerd-multicluster");
    let own = secrets.get("cluster-credentials-hand").await.unwrap();
    let other = json!({
        "apiVersion": "v1", "kind": "Secret", "type": own.type_, "data": own.data,
        "metadata": { "name": "of-the-store", "namespace": "linkerd-multicluster" },
    });
    edit(
        source,
        "hand",
        json!({ "clusterCredentialsSecret": "of-the-store" }),
    )
    .await;
    let field = "of-the-store";
    condition_says(source, "hand", "CredentialsValid", missing, field).await;
    apply(source, &[other]).await;
    condition_is(source, "hand", "CredentialsValid", "True", "Valid").await;
    export(far, "by-hand", &web("later", "hand")).await;
    service(source, "by-hand", "later-hand", |_| true).await;
    unlink(source, "hand").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crd_of_an_older_linkerd_is_named_and_not_deleted() {
    let plane = bare("older").await;
    let version = |name: &str, is_stored: bool| {
        let open = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
        json!({ "name": name, "served": true, "storage": is_stored, "schema": { "openAPIV3Schema": open } })
    };
    let extension = json!({ "linkerd.io/extension": "multicluster" });
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "links.multicluster.linkerd.io", "labels": extension },
        "spec": {
            "group": "multicluster.linkerd.io", "scope": "Namespaced",
            "names": { "kind": "Link", "plural": "links", "singular": "link" },
            "versions": [version("v1alpha1", false), version("v1alpha2", true)],
        },
    });
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": "linkerd-multicluster", "labels": extension },
    });
    apply(&plane, &[namespace, crd]).await;
    let wait = [
        "wait",
        "--for=condition=Established",
        "crd/links.multicluster.linkerd.io",
        "--timeout=30s",
    ];
    plane.kubectl(&wait).await.unwrap();
    let older = "the CRD of Links has only v1alpha2, v1alpha1, that of Linkerd 2.17 or older";
    for command in ["uninstall", "status", "gateways"] {
        let said = run(plane.kubeconfig(), &[command]).failure();
        assert!(said.contains(older), "{command}: {said}");
    }
    let check = run(plane.kubeconfig(), &["check"]).stdout;
    assert!(
        check.contains(older) && !check.contains("linkerd-mc install"),
        "{check}"
    );
}
