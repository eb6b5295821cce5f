//! Two installations on one cluster do not change each other's mirrors. An installation can move to another namespace.

use control_plane::{AuditEvent, ControlPlane, eventually};
use k8s_openapi::api::core::v1::Service;
use kube::{Api, ResourceExt as _, api::DeleteParams};
use linkerd_mc::api::{
    labels as l,
    link::{Link, LinkStatus},
};
use serde_json::json;

use crate::support::{
    SOON,
    audit::writes_of,
    controller::Controller,
    installation::{CONTROLLER, NAMESPACE, account},
    links::{objects, own_link, said, status_that, unlink},
    objects::{
        addresses, annotation, apply, cluster_ip, delete, export, gone, hosts, join, namespace,
        patch, service, services, slices_that, stateful, web,
    },
    other,
    planes::alone,
};

/// Mirrors of an installation: one with a slice, a headless one with a host, and a federated Service.
const MADE: [&str; 4] = ["web-first", "db-first", "db-0-first", "member-federated"];

/// Links `source` to `far` as `first`, and exports the Services of [`MADE`].
async fn furnish(source: &ControlPlane, far: &ControlPlane, namespace: &str) {
    own_link(source, far, "first", &["--enable-headless-services"]).await;
    export(far, namespace, &web("web", "first")).await;
    stateful(far, namespace, "db", "first").await;
    hosts(far, namespace, "db", &[("db-0", true)]).await;
    join(far, namespace, "member", "first", "no").await;
}

/// UID and `ClusterIP` of all Services in [`MADE`].
async fn identities(source: &ControlPlane, namespace: &str) -> Vec<(Option<String>, String)> {
    let mut found = Vec::new();
    for name in MADE {
        let made = service(source, namespace, name, |_| true).await;
        found.push((made.uid(), cluster_ip(&made).to_owned()));
    }
    slices_that(source, namespace, "web-first", |s| !addresses(s).is_empty()).await;
    slices_that(source, namespace, "db-first", |s| !addresses(s).is_empty()).await;
    found
}

/// What a user wrote in a namespace since a mark of the audit log.
fn writes(plane: &ControlPlane, user: &str, namespace: &str, since: u64) -> Vec<AuditEvent> {
    let mut audit = writes_of(plane, user, since);
    audit.retain(|event| event.namespace == namespace);
    audit
}

#[tokio::test(flavor = "multi_thread")]
async fn installation_in_another_namespace_leaves_mirrors_alone() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("two-shared", &[source, far]).await;
    namespace("two-theirs", &[source, far]).await;
    namespace("two-mc", &[source]).await;
    other::install(source, "two-mc", &[]).await;
    furnish(source, far, "two-shared").await;
    let mut controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    let before = identities(source, "two-shared").await;
    let since = source.audit_mark().unwrap();

    // When the second controller has processed its own Link, it has also decided about all objects that it found at its
    // start.
    apply(source, &other::moved(objects(far, "second", &[]), "two-mc")).await;
    export(far, "two-theirs", &web("web", "second")).await;
    let second = other::controller(source, "two-mc", &["--federated-service-selector=no=one"]);
    second.in_step_within(SOON).await;
    service(source, "two-theirs", "web-second", |_| true).await;
    assert_eq!(writes(source, &account("two-mc"), "two-shared", since), []);
    assert_eq!(identities(source, "two-shared").await, before);

    // The first installation does not delete the mirrors of the second one either, not even after a restart.
    let theirs = service(source, "two-theirs", "web-second", |_| true).await;
    controller.kill();
    let since = source.audit_mark().unwrap();
    let controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    controller.in_step_within(SOON).await;
    assert_eq!(writes(source, CONTROLLER, "two-theirs", since), []);
    let now = service(source, "two-theirs", "web-second", |_| true).await;
    assert_eq!(now.uid(), theirs.uid());
    assert_eq!(annotation(&now, l::INSTALLATION), Some("two-mc"));
    unlink(source, "first").await;
    for name in MADE {
        gone(source, "two-shared", name).await;
    }
    source
        .kubectl(&["delete", "link", "second", "-n", "two-mc"])
        .await
        .unwrap();
    gone(source, "two-theirs", "web-second").await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn two_installations_that_want_the_same_names_do_not_overwrite_each_other() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("same-shared", &[source, far]).await;
    namespace("same-mc", &[source]).await;
    other::install(source, "same-mc", &[]).await;
    furnish(source, far, "same-shared").await;
    let _controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    let before = identities(source, "same-shared").await;
    let since = source.audit_mark().unwrap();
    apply(source, &other::moved(objects(far, "first", &[]), "same-mc")).await;
    let second = other::controller(source, "same-mc", &["--federated-service-selector=no=one"]);
    second.in_step_within(SOON).await;
    let said = eventually("the Link to report the conflict", SOON, async || {
        let get = ["get", "link", "first", "-n", "same-mc", "-o", "json"];
        let said = source.kubectl(&get).await?;
        Ok(said.contains("NameConflict").then_some(said))
    })
    .await
    .unwrap();
    drop(second);
    assert!(
        said.contains("installation in namespace linkerd-multicluster"),
        "{said}"
    );
    assert_eq!(
        writes(source, &account("same-mc"), "same-shared", since),
        []
    );
    assert_eq!(identities(source, "same-shared").await, before);
    unlink(source, "first").await;
    gone(source, "same-shared", "web-first").await;
    delete_link(source, "first", "same-mc").await;
}

/// Removes the annotation that names the installation. Earlier versions did not write this annotation.
async fn remove_installation_annotation(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
) -> Service {
    let forgotten = json!({ "metadata": { "annotations": { l::INSTALLATION: null } } });
    patch(plane, namespace, name, forgotten).await;
    services(plane, namespace).get(name).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn mirrors_without_an_installation_are_adopted_by_the_one_that_links_their_cluster() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("unnamed", &[source, far]).await;
    namespace("unnamed-mc", &[source]).await;
    other::install(source, "unnamed-mc", &[]).await;
    namespace("unnamed-theirs", &[source, far]).await;
    furnish(source, far, "unnamed").await;
    let mut controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    let before = identities(source, "unnamed").await;
    controller.kill();
    for name in MADE {
        remove_installation_annotation(source, "unnamed", name).await;
    }
    // Installation `unnamed-mc` has no Link to cluster `first`, so it must not delete the mirrors of that cluster.
    apply(
        source,
        &other::moved(objects(far, "second", &[]), "unnamed-mc"),
    )
    .await;
    export(far, "unnamed-theirs", &web("web", "second")).await;
    let since = source.audit_mark().unwrap();
    let second = other::controller(
        source,
        "unnamed-mc",
        &["--federated-service-selector=no=one"],
    );
    second.in_step_within(SOON).await;
    assert_eq!(writes(source, &account("unnamed-mc"), "unnamed", since), []);
    drop(second);
    // The first installation has a Link to cluster `first`, so it adopts the mirrors.
    let _controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    for name in MADE {
        let named = |s: &Service| annotation(s, l::INSTALLATION) == Some(NAMESPACE);
        service(source, "unnamed", name, named).await;
    }
    assert_eq!(identities(source, "unnamed").await, before);
    unlink(source, "first").await;
    gone(source, "unnamed", "web-first").await;
    delete(source, "unnamed-theirs", "web-second").await;
    delete_link(source, "second", "unnamed-mc").await;
}

/// Deletes a Link of another installation. Otherwise `check` in a later test on this control plane would read it.
async fn delete_link(plane: &ControlPlane, name: &str, namespace: &str) {
    let links = Api::<Link>::namespaced(plane.client(), namespace);
    links.delete(name, &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn installation_moves_to_another_namespace_and_keeps_its_mirrors() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("moves", &[source, far]).await;
    namespace("moves-mc", &[source]).await;
    let take_over = format!("controller.takeOverFrom={NAMESPACE}");
    other::install(source, "moves-mc", &["--set", &take_over]).await;
    furnish(source, far, "moves").await;
    let mut controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    // Other tests also export Services to a Link with this name, so count only Services in this namespace.
    let is_mirrored = |s: &LinkStatus, name: &str| {
        said(&s.mirror_services, "moves", name).is_some_and(|said| said.reason == "Mirrored")
    };
    status_that(source, "first", |s| {
        is_mirrored(s, "web") && is_mirrored(s, "db") && s.federated >= Some(1)
    })
    .await;
    let before = identities(source, "moves").await;
    controller.kill();

    // The controller starts before its Links exist. It must not delete mirrors because of the flag alone.
    let flags = [
        "--federated-service-selector=no=one",
        "--take-over-from",
        NAMESPACE,
    ];
    let second = other::controller(source, "moves-mc", &flags);
    second.ready_within(SOON).await;
    apply(
        source,
        &other::moved(
            objects(far, "first", &["--enable-headless-services"]),
            "moves-mc",
        ),
    )
    .await;
    for name in MADE {
        let named = |s: &Service| annotation(s, l::INSTALLATION) == Some("moves-mc");
        service(source, "moves", name, named).await;
    }
    assert_eq!(identities(source, "moves").await, before);
    // When the old installation loses its Link, it has no mirrors left to delete.
    unlink(source, "first").await;
    let since = source.audit_mark().unwrap();
    let controller = Controller::start(source, &["--federated-service-selector=no=one"]);
    controller.ready_within(SOON).await;
    assert_eq!(identities(source, "moves").await, before);
    source
        .kubectl(&["delete", "link", "first", "-n", "moves-mc"])
        .await
        .unwrap();
    for name in MADE {
        gone(source, "moves", name).await;
    }
    assert_eq!(writes(source, CONTROLLER, "moves", since), []);
}
