//! Links that are invalid or cannot be decoded, and Links that change to another cluster. Their mirrors stay until the
//! controller knows the desired state.

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use linkerd_mc::api::{labels as l, link::LinkObject};
use serde_json::json;

use crate::support::{
    SOON,
    controller::Controller,
    installation::{NAMESPACE, reinstall},
    links::{condition_says, edit, events, links, own_link, status_that, unlink},
    objects::{
        addresses, annotation, cluster_ip, delete, export, gone, join, namespace, service,
        slices_that, web,
    },
    planes::alone,
    program::run,
};

const CRD: &str = "links.multicluster.linkerd.io";

/// Changes the CRD to accept what Linkerd's own CRD accepts: any value in `matchLabels`.
async fn loosen(plane: &ControlPlane) {
    let loose = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let path = "/spec/versions/2/schema/openAPIV3Schema/properties/spec/properties/selector/properties/matchLabels";
    let patch = json!([{ "op": "replace", "path": path, "value": loose }]).to_string();
    plane
        .kubectl(&["patch", "crd", CRD, "--type=json", "-p", &patch])
        .await
        .unwrap();
}

/// Makes a Link impossible to decode: a value of its label selector is not text. The API server takes a moment to serve
/// the new schema.
async fn break_link(plane: &ControlPlane, link: &str) {
    let broken = json!({ "spec": { "selector": { "matchLabels": { l::EXPORTED: true } } } });
    let links: Api<LinkObject> = Api::namespaced(plane.client(), NAMESPACE);
    eventually("the Link to be edited", SOON, async || {
        let patch = Patch::Merge(&broken);
        let edited = links.patch(link, &PatchParams::default(), &patch).await;
        Ok(edited
            .is_ok_and(|edited| edited.unreadable.is_some())
            .then_some(()))
    })
    .await
    .unwrap();
}

/// Runs `link` and `rotate` for a Link that cannot be decoded. Both must change nothing: `link` cannot keep what it cannot
/// read, and the controller would not take a new token.
async fn linking_again_and_rotation_are_refused(
    source: &ControlPlane,
    far: &ControlPlane,
    link: &str,
) {
    let path = source.folder().join("unreadable.kubeconfig");
    ControlPlane::merged_kubeconfig(&[source, far], &path).unwrap();
    let spec = async || {
        let get = ["get", "link", link, "-n", NAMESPACE, "-o=jsonpath={.spec}"];
        source.kubectl(&get).await.unwrap()
    };
    let before = spec().await;
    let args = [
        "link",
        "--target",
        far.name(),
        "--source",
        source.name(),
        "--cluster-name",
        link,
        "--wait=0s",
        "--yes",
    ];
    let said = run(&path, &args).failure();
    let why = format!(
        "the Link {link} in {} cannot be decoded: spec.selector.matchLabels",
        source.name()
    );
    for part in [&why, "; nothing was applied", "edit links.multicluster"] {
        assert!(said.contains(part), "{said}");
    }
    assert_eq!(spec().await, before);

    let credentials = async || {
        source
            .kubectl(&["get", "secrets", "-A", "-o=yaml"])
            .await
            .unwrap()
    };
    let before = credentials().await;
    let ends = ["--source", source.name(), "--target", far.name()];
    let args = [&["rotate", link][..], &ends].concat();
    let said = run(&path, &args).failure();
    for part in [
        &format!("the Link {link} cannot be decoded: spec.selector.matchLabels"),
        "edit links.multicluster",
    ] {
        assert!(said.contains(part), "{said}");
    }
    assert!(!said.contains("undid"), "{said}");
    assert_eq!(credentials().await, before);
}

/// UID and `ClusterIP` of Services that must not change.
async fn identities(plane: &ControlPlane, namespace: &str, names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for name in names {
        let made: Service = service(plane, namespace, name, |_| true).await;
        found.push(format!("{name} {:?} {}", made.uid(), cluster_ip(&made)));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_link_keeps_its_mirrors_and_is_reported() {
    const MADE: [&str; 2] = ["web-unreadable", "member-federated"];
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("unreadable", &[source, far]).await;
    own_link(source, far, "unreadable", &[]).await;
    own_link(source, far, "witness", &[]).await;
    export(far, "unreadable", &web("web", "unreadable")).await;
    join(far, "unreadable", "member", "unreadable", "no").await;
    let mut controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    slices_that(source, "unreadable", "web-unreadable", |s| {
        !addresses(s).is_empty()
    })
    .await;
    let before = identities(source, "unreadable", &MADE).await;

    loosen(source).await;
    break_link(source, "unreadable").await;
    let invalid = |text: &'static str| async move {
        let text = ("False", "InvalidLink", text);
        eventually("the Link to say that it cannot be read", SOON, async || {
            let path = "jsonpath={.status.conditions[?(@.type==\"Ready\")]}";
            let get = ["get", "link", "unreadable", "-n", NAMESPACE, "-o", path];
            let said = source.kubectl(&get).await?;
            let all = [text.0, text.1, text.2]
                .iter()
                .all(|text| said.contains(text));
            Ok(all.then_some(()))
        })
        .await
        .unwrap();
    };
    invalid("selector.matchLabels").await;
    linking_again_and_rotation_are_refused(source, far, "unreadable").await;
    let series = "linkerd_mc_link_invalid{link=\"unreadable\"}";
    controller.metric_is(series, |now| now == Some(1.0)).await;
    eventually("an Event on the Link", SOON, async || {
        let events = events(source, NAMESPACE, "Link", "unreadable").await?;
        let found = events.iter().any(|event| {
            let message = event.message.as_deref().unwrap_or_default();
            event.reason.as_deref() == Some("InvalidLink") && message.contains("matchLabels")
        });
        Ok(found.then_some(()))
    })
    .await
    .unwrap();

    // A replica that starts now has never seen a valid version of the Link.
    controller.kill();
    let controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    controller.in_step_within(SOON).await;
    controller.metric_is(series, |now| now == Some(1.0)).await;
    invalid("selector.matchLabels").await;
    assert_eq!(identities(source, "unreadable", &MADE).await, before);

    // When the Link is fixed, the controller continues.
    delete(far, "unreadable", "web").await;
    let mended =
        json!({ "spec": { "selector": { "matchLabels": { l::EXPORTED: "unreadable" } } } });
    let mended = mended.to_string();
    source
        .kubectl(&[
            "patch",
            "link",
            "unreadable",
            "-n",
            NAMESPACE,
            "--type=merge",
            "-p",
            &mended,
        ])
        .await
        .unwrap();
    reinstall(source, &[]).await;
    gone(source, "unreadable", "web-unreadable").await;
    status_that(source, "unreadable", |s| s.federated == Some(1)).await;
    controller.metric_is(series, |now| now == Some(0.0)).await;
    unlink(source, "unreadable").await;
    gone(source, "unreadable", "member-federated").await;
    unlink(source, "witness").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crd_refuses_label_values_that_are_not_text() {
    let alone = alone().await;
    let source = &alone.source;
    own_link(source, &alone.far, "refused", &[]).await;
    let broken = json!({ "spec": { "selector": { "matchLabels": { l::EXPORTED: true } } } });
    let broken = broken.to_string();
    let patch = [
        "patch",
        "link",
        "refused",
        "-n",
        NAMESPACE,
        "--type=merge",
        "-p",
        &broken,
    ];
    let refused = source.kubectl(&patch).await.unwrap_err().to_string();
    assert!(refused.contains("matchLabels"), "{refused}");
    unlink(source, "refused").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn invalid_cluster_name_keeps_the_mirrors() {
    const MADE: [&str; 2] = ["web-steady", "member-federated"];
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("steady", &[source, far]).await;
    own_link(source, far, "steady", &[]).await;
    own_link(source, far, "witness", &[]).await;
    export(far, "steady", &web("web", "steady")).await;
    join(far, "steady", "member", "steady", "no").await;
    let mut controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    slices_that(source, "steady", "web-steady", |s| !addresses(s).is_empty()).await;
    status_that(source, "steady", |s| s.federated == Some(1)).await;
    let before = identities(source, "steady", &MADE).await;

    edit(source, "steady", json!({ "targetClusterName": "East" })).await;
    condition_says(source, "steady", "Ready", ("False", "InvalidLink"), "East").await;
    // When the mirror of the other Link exists, the controller would already have deleted the first mirrors.
    export(far, "steady", &web("later", "witness")).await;
    service(source, "steady", "later-witness", |_| true).await;
    assert_eq!(identities(source, "steady", &MADE).await, before);
    controller.kill();
    let controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    controller.in_step_within(SOON).await;
    assert_eq!(identities(source, "steady", &MADE).await, before);
    edit(source, "steady", json!({ "targetClusterName": "steady" })).await;
    condition_says(source, "steady", "Ready", ("True", "Mirroring"), "").await;
    assert_eq!(identities(source, "steady", &MADE).await, before);
    for link in ["steady", "witness"] {
        unlink(source, link).await;
    }
    gone(source, "steady", "web-steady").await;
    gone(source, "steady", "later-witness").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn renamed_cluster_keeps_old_mirrors_until_the_new_one_is_listed() {
    const MADE: [&str; 2] = ["web-before", "member-federated"];
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("renamed", &[source, far]).await;
    own_link(source, far, "before", &[]).await;
    own_link(source, far, "witness", &[]).await;
    export(far, "renamed", &web("web", "before")).await;
    join(far, "renamed", "member", "before", "no").await;
    let mut controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    slices_that(source, "renamed", "web-before", |s| {
        !addresses(s).is_empty()
    })
    .await;
    status_that(source, "before", |s| {
        s.target_cluster_name.as_deref() == Some("before") && s.federated == Some(1)
    })
    .await;
    let before = identities(source, "renamed", &MADE).await;

    let link = links(source).get("before").await.unwrap().spec;
    let (secret, port) = (link.cluster_credentials_secret, link.gateway_port);
    let to = json!({
        "targetClusterName": "after",
        "clusterCredentialsSecret": "not-there",
        "gatewayPort": "no-port",
    });
    edit(source, "before", to).await;
    let invalid = ("False", "InvalidLink");
    condition_says(source, "before", "Ready", invalid, "no-port").await;
    assert_eq!(identities(source, "renamed", &MADE).await, before);
    edit(source, "before", json!({ "gatewayPort": port })).await;
    condition_says(
        source,
        "before",
        "Ready",
        ("False", "CredentialsInvalid"),
        "not-there",
    )
    .await;
    export(far, "renamed", &web("later", "witness")).await;
    service(source, "renamed", "later-witness", |_| true).await;
    assert_eq!(identities(source, "renamed", &MADE).await, before);
    // A controller that starts now keeps the old mirrors, too.
    controller.kill();
    let controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    controller.in_step_within(SOON).await;
    assert_eq!(identities(source, "renamed", &MADE).await, before);

    edit(
        source,
        "before",
        json!({ "clusterCredentialsSecret": secret }),
    )
    .await;
    service(source, "renamed", "web-after", |_| true).await;
    gone(source, "renamed", "web-before").await;
    let members = |s: &Service| annotation(s, l::REMOTE_DISCOVERY) == Some("member@after");
    let federated = service(source, "renamed", "member-federated", members).await;
    assert!(
        before[1].contains(&format!("{:?}", federated.uid())),
        "{before:?}"
    );
    for link in ["before", "witness"] {
        unlink(source, link).await;
    }
    gone(source, "renamed", "web-after").await;
}
