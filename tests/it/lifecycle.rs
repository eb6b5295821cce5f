//! Links and namespaces, local and remote, that are created, edited and deleted.

use control_plane::{ControlPlane, Verdict};
use kube::ResourceExt as _;
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    faults::{refusal, through},
    installation::NAMESPACE,
    links::{
        condition_is, condition_says, connected, edit, in_step, is_well, mirror_is, objects,
        own_link, said, status_that, unlink,
    },
    objects::{
        addresses, annotation, apply, cluster_ip, create, endpoints, export, gone, hosts, join,
        label, namespace, relabel, service, services, slices_that, web,
    },
    planes::hub,
};

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_follow_edits_of_their_link() {
    let (east, west) = hub().await.pair();
    namespace("edited", &[east, west]).await;
    own_link(west, east, "edit", &[]).await;
    export(east, "edited", &web("web", "edit")).await;
    let mirror = service(west, "edited", "web-edit", |_| true).await;
    slices_that(west, "edited", "web-edit", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;

    let gateway = json!({
        // A space after the comma, a duplicate, and both address families.
        "gatewayAddress": "192.0.2.78, 192.0.2.77,192.0.2.78,2001:db8::1",
        "gatewayPort": "5143",
        "gatewayIdentity": "other.identity",
        "excludedLabels": ["app"],
        "excludedAnnotations": ["team", "config.linkerd.io/*"],
    });
    edit(west, "edit", gateway).await;
    let slices = slices_that(west, "edited", "web-edit", |s| {
        addresses(s) == ["192.0.2.77", "192.0.2.78", "2001:db8::1"]
    })
    .await;
    let types: Vec<&str> = slices.iter().map(|s| s.address_type.as_str()).collect();
    assert_eq!(types, ["IPv4", "IPv6"]);
    for slice in &slices {
        assert!(
            slice
                .ports
                .iter()
                .flatten()
                .all(|port| port.port == Some(5143))
        );
        let annotations = slice.metadata.annotations.as_ref().unwrap();
        assert_eq!(annotations[l::REMOTE_GATEWAY_IDENTITY], "other.identity");
    }
    let changed = service(west, "edited", "web-edit", |s| label(s, "app").is_none()).await;
    assert_eq!(annotation(&changed, "team"), None);
    assert_eq!(annotation(&changed, l::OPAQUE_PORTS), Some("8080"));
    assert_eq!(cluster_ip(&changed), cluster_ip(&mirror));

    let selector = |value: &str| json!({ "selector": { "matchLabels": { l::EXPORTED: value } } });
    edit(west, "edit", selector("edit-more")).await;
    gone(west, "edited", "web-edit").await;
    relabel(east, "edited", "web", Some("edit-more")).await;
    endpoints(east, "edited", "web", 1).await;
    service(west, "edited", "web-edit", |_| true).await;

    edit(
        west,
        "edit",
        json!({ "selector": { "matchExpressions": [{ "key": "a b", "operator": "Exists" }] } }),
    )
    .await;
    let invalid = condition_is(west, "edit", "Ready", "False", "InvalidLink").await;
    assert!(invalid.message.contains("selector"), "{}", invalid.message);
    service(west, "edited", "web-edit", |_| true).await;
    edit(west, "edit", json!({ "selector": null })).await;
    edit(west, "edit", selector("edit-more")).await;
    condition_is(west, "edit", "Ready", "True", "Mirroring").await;

    edit(west, "edit", json!({ "targetClusterName": "renamed" })).await;
    let renamed = service(west, "edited", "web-renamed", |_| true).await;
    assert_eq!(label(&renamed, l::CLUSTER_NAME), Some("renamed"));
    gone(west, "edited", "web-edit").await;
    status_that(west, "edit", |status| {
        let said = said(&status.mirror_services, "edited", "web");
        let local = said.and_then(|said| said.local_ref.as_ref());
        status.mirrored == Some(1) && local.is_some_and(|local| local.name == "web-renamed")
    })
    .await;
    in_step(west, "edit", &[]).await;
    unlink(west, "edit").await;
    gone(west, "edited", "web-renamed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_a_link_removes_all_its_objects_and_applying_it_creates_them() {
    let (east, west) = hub().await.pair();
    namespace("unlinked", &[east, west]).await;
    own_link(west, east, "unlink", &["--enable-headless-services"]).await;
    export(east, "unlinked", &web("web", "unlink")).await;
    export(east, "unlinked", &web("direct", "unlink-direct")).await;
    join(east, "unlinked", "member", "unlink", "no").await;
    let mut stateful = web("db", "unlink");
    stateful.spec.as_mut().unwrap().cluster_ip = Some("None".into());
    create(east, "unlinked", &stateful).await;
    hosts(east, "unlinked", "db", &[("db-0", true)]).await;

    for round in 0..2 {
        for name in [
            "web-unlink",
            "direct-unlink",
            "member-federated",
            "db-unlink",
            "db-0-unlink",
        ] {
            service(west, "unlinked", name, |_| true).await;
        }
        slices_that(west, "unlinked", "db-unlink", |s| !addresses(s).is_empty()).await;
        slices_that(west, NAMESPACE, "probe-unlink", |s| {
            addresses(s) == ["192.0.2.10"]
        })
        .await;
        in_step(west, "unlink", &[]).await;
        unlink(west, "unlink").await;
        for name in [
            "web-unlink",
            "direct-unlink",
            "member-federated",
            "db-unlink",
            "db-0-unlink",
        ] {
            gone(west, "unlinked", name).await;
        }
        gone(west, NAMESPACE, "probe-unlink").await;
        if round == 0 {
            own_link(west, east, "unlink", &["--enable-headless-services"]).await;
            condition_is(west, "unlink", "Ready", "True", "Mirroring").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn older_of_two_links_to_one_cluster_serves_it_until_it_is_deleted() {
    let hub = hub().await;
    let (east, north, west) = (&hub.east, &hub.north, &hub.west);
    namespace("twins", &[east, north, west]).await;
    export(east, "twins", &web("from-east", "twin-a")).await;
    export(north, "twins", &web("from-north", "twin-a")).await;
    own_link(west, east, "twin-a", &[]).await;
    let mirror = service(west, "twins", "from-east-twin-a", |_| true).await;
    let gateway = |name: &str| format!("{name}{{target_cluster_name=\"twin-a\"}}");
    hub.controller
        .metric_is(&gateway("gateway_alive"), |v| v == Some(1.0))
        .await;

    let mut younger = objects(north, "twin-b", &[]);
    younger[2]["spec"]["targetClusterName"] = json!("twin-a");
    younger[2]["spec"]["selector"] = json!({ "matchLabels": { l::EXPORTED: "twin-a" } });
    apply(west, &younger).await;
    let duplicate = condition_is(west, "twin-b", "Ready", "False", "DuplicateCluster").await;
    assert!(
        duplicate.message.contains("twin-a"),
        "{}",
        duplicate.message
    );
    gone(west, "twins", "from-north-twin-a").await;
    condition_is(west, "twin-a", "Ready", "True", "Mirroring").await;

    // When a Link that never served the cluster is deleted, only its own metrics are removed.
    younger[2]["metadata"]["name"] = json!("twin-c");
    apply(west, &younger[2..]).await;
    condition_is(west, "twin-c", "Ready", "False", "DuplicateCluster").await;
    let ready = r#"linkerd_mc_link_ready{link="twin-c"}"#;
    hub.controller.metric_is(ready, |v| v == Some(0.0)).await;
    unlink(west, "twin-c").await;
    hub.controller.metric_is(ready, |v| v.is_none()).await;
    // The gateway's metrics are still those of the Link that serves the cluster.
    for (name, value) in [("gateway_alive", 1), ("gateway_enabled", 1)] {
        let found = hub.controller.metric(&gateway(name)).await.unwrap();
        assert_eq!(found, Some(value), "{name}");
    }
    let still = services(west, "twins").get("from-east-twin-a").await;
    assert_eq!(still.unwrap().uid(), mirror.uid());

    // `twin-b` takes over. At first its gateway has no probe, then it has one.
    edit(west, "twin-b", json!({ "probeSpec": { "path": "" } })).await;
    unlink(west, "twin-a").await;
    for name in ["gateway_alive", "gateway_enabled"] {
        hub.controller
            .metric_is(&gateway(name), |v| v == Some(0.0))
            .await;
    }
    edit(west, "twin-b", json!({ "probeSpec": { "path": "/ready" } })).await;
    for name in ["gateway_alive", "gateway_enabled"] {
        hub.controller
            .metric_is(&gateway(name), |v| v == Some(1.0))
            .await;
    }
    condition_is(west, "twin-b", "Ready", "True", "Mirroring").await;
    service(west, "twins", "from-north-twin-a", |_| true).await;
    gone(west, "twins", "from-east-twin-a").await;
    slices_that(west, "twins", "from-north-twin-a", |s| {
        addresses(s) == ["192.0.2.30"]
    })
    .await;
    slices_that(west, NAMESPACE, "probe-twin-b", |s| {
        addresses(s) == ["192.0.2.30"]
    })
    .await;
    gone(west, NAMESPACE, "probe-twin-a").await;
    in_step(west, "twin-b", &[]).await;
    unlink(west, "twin-b").await;
}

/// Waits until a Service is mirrored, and its mirror leads to the gateway of east.
async fn is_mirrored(west: &ControlPlane, namespace: &str, mirror: &str) {
    service(west, namespace, mirror, |_| true).await;
    slices_that(west, namespace, mirror, |s| addresses(s) == ["192.0.2.10"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_return_with_a_local_namespace_that_was_deleted() {
    let (east, west) = hub().await.pair();
    namespace("here-and-gone", &[east, west]).await;
    own_link(west, east, "here", &[]).await;
    export(east, "here-and-gone", &web("web", "here")).await;
    is_mirrored(west, "here-and-gone", "web-here").await;
    west.kubectl(&["delete", "namespace", "here-and-gone"])
        .await
        .unwrap();
    let said = mirror_is(west, "here", "here-and-gone", "web", "MissingNamespace").await;
    assert_eq!(
        (said.status.as_str(), said.message.as_str()),
        ("False", "Namespace does not exist")
    );
    namespace("here-and-gone", &[west]).await;
    is_mirrored(west, "here-and-gone", "web-here").await;
    mirror_is(west, "here", "here-and-gone", "web", "Mirrored").await;
    in_step(west, "here", &[]).await;
    unlink(west, "here").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mirrors_follow_a_remote_namespace_that_is_deleted_and_created_again() {
    let (east, west) = hub().await.pair();
    namespace("there-and-gone", &[east, west]).await;
    own_link(west, east, "there", &[]).await;
    export(east, "there-and-gone", &web("web", "there")).await;
    is_mirrored(west, "there-and-gone", "web-there").await;
    east.kubectl(&["delete", "namespace", "there-and-gone"])
        .await
        .unwrap();
    gone(west, "there-and-gone", "web-there").await;
    status_that(west, "there", |status| {
        status.mirrored == Some(0) && status.mirror_services.is_empty()
    })
    .await;
    namespace("there-and-gone", &[east]).await;
    export(east, "there-and-gone", &web("web", "there")).await;
    is_mirrored(west, "there-and-gone", "web-there").await;
    in_step(west, "there", &[]).await;
    unlink(west, "there").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_a_link_that_cannot_be_listed_is_reported() {
    let (east, west) = hub().await.pair();
    namespace("held-up", &[east, west]).await;
    let server = east.intercept(None).unwrap();
    own_link(west, east, "held", &[&through(&server.url())]).await;
    export(east, "held-up", &web("before", "held")).await;
    export(east, "held-up", &web("after", "held-more")).await;
    service(west, "held-up", "before-held", |_| true).await;
    is_well(west, "held").await;

    server.judge(|asked| {
        let refused = asked.is_list("services") && asked.collection().contains("held-more");
        if refused {
            return refusal(403, "Forbidden");
        }
        Verdict::Forward
    });
    let selector = json!({ "selector": { "matchLabels": { l::EXPORTED: "held-more" } } });
    edit(west, "held", selector).await;
    let reason = ("False", "ChangeNotInEffect");
    condition_says(west, "held", "Ready", reason, "made up: Forbidden").await;
    assert_eq!(connected(west, "held").await.0, "True");

    server.forward();
    is_well(west, "held").await;
    service(west, "held-up", "after-held", |_| true).await;
    gone(west, "held-up", "before-held").await;
    unlink(west, "held").await;
    gone(west, "held-up", "after-held").await;
}
