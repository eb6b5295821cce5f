//! A controller that is restarted continues with the objects of its predecessor.

use std::time::Duration;

use control_plane::eventually;
use kube::{ResourceExt as _, api::PostParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::{
    SOON,
    audit::{mark, writes},
    controller::Controller,
    installation::{CONTROLLER, CONTROLLER_GROUPS, NAMESPACE, parsed, reinstall},
    links::{in_step, mirror_is, own_link, said, status_that, unlink},
    objects::{
        addresses, apply, cluster_ip, delete, export, gone, hosts, join, member, namespace, patch,
        ports, relabel, service, services, slices_that, stateful, web,
    },
    planes::alone,
    program::run,
};

#[tokio::test(flavor = "multi_thread")]
async fn arguments_of_linkerds_deployment_start_the_controller() {
    let alone = alone().await;
    let kubeconfig = alone
        .source
        .kubeconfig_through(alone.source.url(), CONTROLLER, &CONTROLLER_GROUPS)
        .unwrap();
    // Arguments of Linkerd's chart, and two flags that people add.
    let args = [
        "service-mirror",
        "-log-level=info",
        "-log-format=plain",
        "-event-requeue-limit=3",
        "-namespace=linkerd-multicluster",
        "-enable-headless-services",
        "-enable-pprof=false",
        "-probe-service=probe-east",
        "-metrics-addr=127.0.0.1:0",
        "-endpoint-refresh-period=1m",
        "east",
    ];
    let mut controller = Controller::spawn(&kubeconfig, &args);
    eventually("the controller to be ready", SOON, async || {
        Ok((controller.get("/ready").await?.0 == 200).then_some(()))
    })
    .await
    .unwrap();
    let log = controller.log();
    for word in [
        "--metrics-addr",
        "--event-requeue-limit",
        "--endpoint-refresh-period",
        "--probe-service",
        "--enable-pprof",
        "\"east\"",
    ] {
        assert_eq!(log.matches(word).count(), 1, "{word}: {log}");
    }
    assert_eq!(controller.terminate().0, Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_made_while_the_controller_was_down_are_applied_at_its_start() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("down", &[source, far]).await;
    own_link(source, far, "down", &[]).await;
    for name in ["deleted", "withdrawn", "changed", "edited", "lost"] {
        export(far, "down", &web(name, "down")).await;
    }
    export(far, "down", &member("member", "down", "down")).await;
    let mut controller = Controller::start(source, &[]);
    status_that(source, "down", |s| {
        s.mirrored == Some(6) && s.federated == Some(1)
    })
    .await;
    let ip = cluster_ip(&services(source, "down").get("changed-down").await.unwrap()).to_owned();
    controller.kill();

    delete(far, "down", "deleted").await;
    delete(far, "down", "member").await;
    relabel(far, "down", "withdrawn", None).await;
    patch(
        far,
        "down",
        "changed",
        json!({ "spec": { "ports": [{ "name": "sql", "port": 5432 }] } }),
    )
    .await;
    export(far, "down", &web("new", "down")).await;
    patch(
        source,
        "down",
        "edited-down",
        json!({ "spec": { "selector": { "app": "evil" }, "ports": [{ "port": 1 }] } }),
    )
    .await;
    delete(source, "down", "lost-down").await;

    let _controller = Controller::start(source, &[]);
    for name in [
        "deleted-down",
        "withdrawn-down",
        "member-down",
        "member-federated",
    ] {
        gone(source, "down", name).await;
    }
    let changed = service(source, "down", "changed-down", |s| {
        ports(s) == [("sql", 5432)]
    })
    .await;
    assert_eq!(cluster_ip(&changed), ip);
    service(source, "down", "edited-down", |s| {
        ports(s).len() == 3 && s.spec.as_ref().and_then(|s| s.selector.as_ref()).is_none()
    })
    .await;
    for name in ["changed-down", "edited-down", "lost-down", "new-down"] {
        slices_that(source, "down", name, |s| addresses(s) == ["192.0.2.50"]).await;
    }
    let status = status_that(source, "down", |s| {
        s.mirrored == Some(4) && s.federated == Some(0)
    })
    .await;
    assert!(said(&status.mirror_services, "down", "deleted").is_none());
    assert!(status.federated_services.is_empty());
    in_step(source, "down", &[]).await;
    unlink(source, "down").await;
    gone(source, "down", "new-down").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_link_deleted_while_the_controller_was_down_are_removed() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("forgotten", &[source, far]).await;
    own_link(source, far, "forgotten", &["--enable-headless-services"]).await;
    export(far, "forgotten", &web("web", "forgotten")).await;
    join(far, "forgotten", "member", "forgotten", "no").await;
    stateful(far, "forgotten", "db", "forgotten").await;
    hosts(far, "forgotten", "db", &[("db-0", true)]).await;
    let mut controller = Controller::start(source, &[]);
    let made = [
        "web-forgotten",
        "member-federated",
        "db-forgotten",
        "db-0-forgotten",
    ];
    for name in made {
        service(source, "forgotten", name, |_| true).await;
    }
    service(source, NAMESPACE, "probe-forgotten", |_| true).await;
    controller.kill();
    unlink(source, "forgotten").await;
    // A Service that looks like a mirror of a deleted Link, without an annotation that says that it is ours.
    let others = json!({
        "metadata": { "name": "others-forgotten", "labels": { l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: "forgotten" } },
        "spec": { "ports": [{ "port": 80 }] },
    });
    let others = services(source, "forgotten")
        .create(
            &PostParams::default(),
            &serde_json::from_value(others).unwrap(),
        )
        .await
        .unwrap();

    let _controller = Controller::start(source, &[]);
    for name in made {
        gone(source, "forgotten", name).await;
    }
    gone(source, NAMESPACE, "probe-forgotten").await;
    let after = services(source, "forgotten")
        .get("others-forgotten")
        .await
        .unwrap();
    assert_eq!(after.resource_version(), others.resource_version());
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_namespaces_are_created_if_enabled_and_permitted() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("wanted", &[far]).await;
    own_link(source, far, "wanted", &[]).await;
    for name in ["one", "two", "three"] {
        export(far, "wanted", &web(name, "wanted")).await;
    }
    reinstall(source, &["--set", "enableNamespaceCreation=true"]).await;
    let _controller = Controller::start(source, &["--enable-namespace-creation"]);
    for name in ["one-wanted", "two-wanted", "three-wanted"] {
        service(source, "wanted", name, |_| true).await;
    }
    let made = source
        .kubectl(&[
            "get",
            "namespace",
            "wanted",
            "-o",
            "jsonpath={.metadata.labels}",
        ])
        .await
        .unwrap();
    let labels: Value = serde_json::from_str(&made).unwrap();
    assert_eq!(labels[l::MIRRORED_SERVICE], "true");
    assert_eq!(labels[l::CLUSTER_NAME], "wanted");
    status_that(source, "wanted", |status| {
        status.mirrored == Some(3) && status.unhealthy == Some(0)
    })
    .await;
    in_step(source, "wanted", &["--enable-namespace-creation"]).await;
    unlink(source, "wanted").await;
    gone(source, "wanted", "one-wanted").await;
}

/// Applies the CRD for Links with a status like that of Linkerd's own CRD, which has only two lists.
async fn without_our_fields(plane: &control_plane::ControlPlane) {
    let printed = parsed(&run(plane.kubeconfig(), &["install", "-o", "json"]).data());
    let is_crd = |object: &Value| object["kind"] == "CustomResourceDefinition";
    let mut definition = printed.into_iter().find(is_crd).unwrap();
    for version in definition["spec"]["versions"].as_array_mut().unwrap() {
        version
            .as_object_mut()
            .unwrap()
            .remove("additionalPrinterColumns");
        if let Some(status) = version.pointer_mut("/schema/openAPIV3Schema/properties/status") {
            let fields = status.as_object_mut().unwrap();
            fields.retain(|name, _| name == "type" || name == "properties");
            let properties = status["properties"].as_object_mut().unwrap();
            properties.retain(|name, _| name == "mirrorServices" || name == "federatedServices");
        }
    }
    apply(plane, &[definition]).await;
}

/// How long there must be no write: two times as long as between two writes of a status.
const REST: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn link_crd_without_our_status_fields_is_enough() {
    let alone = alone().await;
    let (source, far) = (&alone.source, &alone.far);
    namespace("plain", &[source, far]).await;
    without_our_fields(source).await;
    own_link(source, far, "plain", &[]).await;
    export(far, "plain", &web("web", "plain")).await;
    let controller = Controller::start(source, &[]);
    let listed =
        |s: &linkerd_mc::api::link::LinkStatus| said(&s.mirror_services, "plain", "web").is_some();
    let status = status_that(source, "plain", listed).await;
    assert!(status.conditions.is_empty() && status.mirrored.is_none());
    slices_that(source, "plain", "web-plain", |s| {
        addresses(s) == ["192.0.2.50"]
    })
    .await;

    // A status that lists a Service which was exported after the gateway's first answer also has everything from before
    // that.
    let alive = "gateway_alive{target_cluster_name=\"plain\"}";
    controller.metric_is(alive, |v| v == Some(1.0)).await;
    export(far, "plain", &web("last", "plain")).await;
    mirror_is(source, "plain", "plain", "last", "Mirrored").await;
    // Fields that the CRD drops must not cause further writes. Waits, because the absence of writes takes time to
    // observe.
    let since = mark(source);
    tokio::time::sleep(REST).await;
    assert_eq!(writes(source, since), []);
    relabel(far, "plain", "web", None).await;
    status_that(source, "plain", |s| {
        said(&s.mirror_services, "plain", "web").is_none()
    })
    .await;
    let mut told = writes(source, since);
    told.retain(|write| write.resource == "links");
    assert_eq!(told.len(), 1, "{told:#?}");

    reinstall(source, &[]).await;
    in_step(source, "plain", &[]).await;
    unlink(source, "plain").await;
}
