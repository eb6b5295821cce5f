//! Gateways that die, recover, or have no address, and what the controller reports about them.

use std::time::{Duration, Instant};

use control_plane::{ControlPlane, eventually};
use kube::ResourceExt as _;
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    SOON,
    controller::Controller,
    gateways::Gateways,
    installation::{CONTROLLER, CONTROLLER_GROUPS, NAMESPACE, install},
    links::{
        annotate, condition, condition_is, condition_says, edit, in_step, mirror_is, objects,
        status_that, unlink,
    },
    objects::{
        addresses, apply, cluster_ip, delete, endpoints, export, gone, label, namespace, ports,
        readiness, service, services, slices_that, stateful, web,
    },
    planes::{Hub, hub},
};

/// Time between probes in these tests, and the number of failed probes after which a gateway counts as dead.
const PERIOD: Duration = Duration::from_secs(1);
const THRESHOLD: u32 = 2;

/// Links west to east with a Link of its own, whose gateway the controller probes at this path once a second.
async fn probed(hub: &Hub, cluster: &str, path: &str) {
    link_probed(&hub.west, &hub.east, cluster, path).await;
}

async fn link_probed(source: &ControlPlane, target: &ControlPlane, cluster: &str, path: &str) {
    let mut printed = objects(target, cluster, &["--enable-headless-services"]);
    printed[2]["spec"]["probeSpec"] = json!({
        "path": path, "port": "4191", "period": "1s", "timeout": "1s", "failureThreshold": THRESHOLD.to_string(),
    });
    apply(source, &printed).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_are_not_ready_while_their_gateway_is_dead() {
    const MIRRORS: [&str; 3] = ["web-pulse", "db-pulse", "db-0-pulse"];
    let hub = hub().await;
    let (east, west) = hub.pair();
    namespace("pulse", &[east, west]).await;
    export(east, "pulse", &web("web", "pulse")).await;
    export(east, "pulse", &web("direct", "pulse-direct")).await;
    stateful(east, "pulse", "db", "pulse").await;
    crate::support::objects::hosts(east, "pulse", "db", &[("db-0", true)]).await;
    probed(hub, "pulse", "/pulse").await;
    let alive = condition_is(west, "pulse", "GatewayAlive", "True", "ProbeSucceeded").await;
    assert_eq!(alive.message, "");
    for name in MIRRORS {
        slices_that(west, "pulse", name, |s| readiness(s) == Some(true)).await;
    }
    let status = status_that(west, "pulse", |s| {
        s.gateway.as_ref().is_some_and(|g| g.latency_ms.is_some())
    })
    .await;
    let gateway = status.gateway.unwrap();
    assert_eq!(
        (gateway.alive, gateway.addresses),
        (Some(true), vec!["192.0.2.10".to_owned()])
    );

    let killed = Instant::now();
    hub.gateways.kill("/pulse");
    for name in MIRRORS {
        slices_that(west, "pulse", name, |s| readiness(s) == Some(false)).await;
    }
    let took = killed.elapsed();
    // Jitter makes a period up to a tenth longer. The additional seconds are for a machine that is busy with other
    // tests.
    let limit = THRESHOLD * PERIOD.mul_f64(1.1) + Duration::from_secs(1);
    assert!(took < limit + Duration::from_secs(5), "{took:?}");
    eprintln!("not ready {took:?} after the gateway died, the limit is {limit:?}");
    condition_is(west, "pulse", "GatewayAlive", "False", "ProbeFailed").await;
    let series = |name: &str| format!("{name}{{target_cluster_name=\"pulse\"}}");
    hub.controller
        .metric_is(&series("gateway_alive"), |v| v == Some(0.0))
        .await;
    hub.controller
        .metric_is(&series("gateway_enabled"), |v| v == Some(1.0))
        .await;
    let failed = "gateway_probes{probe_successful=\"false\",target_cluster_name=\"pulse\"}";
    hub.controller
        .metric_is(failed, |v| v >= Some(f64::from(THRESHOLD)))
        .await;
    // A mirror that is changed or created meanwhile, or whose slice is filled again, has no ready endpoints either.
    export(east, "pulse", &web("late", "pulse")).await;
    endpoints(east, "pulse", "web", 0).await;
    slices_that(west, "pulse", "web-pulse", |s| addresses(s).is_empty()).await;
    endpoints(east, "pulse", "web", 1).await;
    slices_that(west, "pulse", "web-pulse", |s| readiness(s) == Some(false)).await;
    slices_that(west, "pulse", "late-pulse", |s| readiness(s) == Some(false)).await;
    // The controller probes the gateway of the other Link to this cluster separately.
    condition_is(west, "east", "GatewayAlive", "True", "ProbeSucceeded").await;

    hub.gateways.revive("/pulse");
    for name in MIRRORS.into_iter().chain(["late-pulse"]) {
        slices_that(west, "pulse", name, |s| readiness(s) == Some(true)).await;
    }
    condition_is(west, "pulse", "GatewayAlive", "True", "ProbeSucceeded").await;
    hub.controller
        .metric_is(&series("gateway_alive"), |v| v == Some(1.0))
        .await;
    hub.controller
        .metric_is(&series("gateway_latency"), |v| v.is_some())
        .await;
    hub.controller
        .metric_is(&series("gateway_probe_latency_ms_count"), |v| {
            v >= Some(1.0)
        })
        .await;
    hub.controller
        .metric_is(&series("service_mirror_endpoint_repairs"), |v| {
            v >= Some(2.0)
        })
        .await;

    in_step(west, "pulse", &[]).await;
    unlink(west, "pulse").await;
    for name in [
        "gateway_alive",
        "gateway_enabled",
        "gateway_latency",
        "gateway_probe_latency_ms_count",
    ] {
        hub.controller
            .metric_is(&series(name), |v| v.is_none())
            .await;
    }
    hub.controller.metric_is(failed, |v| v.is_none()).await;
}

/// Names of Services do not resolve here, so a probe that uses a name would fail. There is no kube-proxy either, so a
/// server that listens at the ClusterIP of the probe Service stands in for the gateway.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn probes_need_no_dns_and_follow_the_probe_service() {
    let far = &hub().await.east;
    let source = ControlPlane::start_with_loopback_cluster_ips("probing").await;
    let source = &source.unwrap();
    install(source, "192.0.2.70").await;
    let kubeconfig = source
        .kubeconfig_through(source.url(), CONTROLLER, &CONTROLLER_GROUPS)
        .unwrap();
    let controller = Controller::start_probing(&kubeconfig, &["--leader-elect=false"]);
    link_probed(source, far, "unnamed", "/unnamed").await;
    let first = service(source, NAMESPACE, "probe-unnamed", |_| true).await;
    let gateways = Gateways::at((cluster_ip(&first), 4191));
    condition_is(source, "unnamed", "GatewayAlive", "True", "ProbeSucceeded").await;
    let host = "probe-unnamed.linkerd-multicluster.svc:4191";
    let hosts = gateways.hosts();
    assert!(hosts.iter().all(|found| found == host), "{hosts:?}");

    // A new probe Service has a new ClusterIP.
    delete(source, NAMESPACE, "probe-unnamed").await;
    let second = service(source, NAMESPACE, "probe-unnamed", |now| {
        now.uid() != first.uid()
    })
    .await;
    assert_ne!(cluster_ip(&second), cluster_ip(&first));
    let followed = Gateways::at((cluster_ip(&second), 4191));
    gateways.kill("/unnamed");
    eventually("probes at the new ClusterIP", SOON, async || {
        Ok((!followed.hosts().is_empty()).then_some(()))
    })
    .await
    .unwrap();
    // Forgets the probes that the former ClusterIP got until now.
    gateways.hosts();
    eventually("more probes", SOON, async || {
        Ok((!followed.hosts().is_empty()).then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(gateways.hosts(), [""; 0]);
    condition_is(source, "unnamed", "GatewayAlive", "True", "ProbeSucceeded").await;
    controller
        .metric_is("gateway_alive{target_cluster_name=\"unnamed\"}", |v| {
            v == Some(1.0)
        })
        .await;
    in_step(source, "unnamed", &[]).await;
    unlink(source, "unnamed").await;
    gone(source, NAMESPACE, "probe-unnamed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_that_was_never_ready_is_not_alive() {
    let hub = hub().await;
    let (east, west) = hub.pair();
    namespace("stillborn", &[east, west]).await;
    export(east, "stillborn", &web("web", "stillborn")).await;
    hub.gateways.kill("/stillborn");
    probed(hub, "stillborn", "/stillborn").await;
    condition_is(west, "stillborn", "GatewayAlive", "False", "ProbeFailed").await;
    slices_that(west, "stillborn", "web-stillborn", |s| {
        readiness(s) == Some(false)
    })
    .await;
    in_step(west, "stillborn", &[]).await;
    unlink(west, "stillborn").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_service_leads_to_the_gateway_with_its_identity() {
    let hub = hub().await;
    let west = &hub.west;
    probed(hub, "probe", "/probe").await;
    let probe = service(west, NAMESPACE, "probe-probe", |_| true).await;
    assert_eq!(ports(&probe), [("mc-probe", 4191)]);
    assert_eq!(label(&probe, l::MIRRORED_GATEWAY), Some("true"));
    assert_eq!(label(&probe, l::CLUSTER_NAME), Some("probe"));
    let slices = slices_that(west, NAMESPACE, "probe-probe", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;
    let annotations = slices[0].metadata.annotations.as_ref().unwrap();
    assert!(
        annotations[l::REMOTE_GATEWAY_IDENTITY]
            .starts_with("linkerd-gateway.linkerd-multicluster.")
    );
    assert_eq!(slices[0].ports.as_ref().unwrap()[0].port, Some(4191));
    assert_eq!(readiness(&slices), Some(true));

    // The Link sets the port of the Service and of its slice. A deleted probe Service is created again.
    edit(west, "probe", json!({ "probeSpec": { "port": "31191" } })).await;
    service(west, NAMESPACE, "probe-probe", |s| {
        ports(s) == [("mc-probe", 31191)]
    })
    .await;
    slices_that(west, NAMESPACE, "probe-probe", |slices| {
        slices
            .iter()
            .flat_map(|s| s.ports.iter().flatten())
            .all(|p| p.port == Some(31191))
    })
    .await;
    delete(west, NAMESPACE, "probe-probe").await;
    service(west, NAMESPACE, "probe-probe", |now| {
        now.uid() != probe.uid()
    })
    .await;
    slices_that(west, NAMESPACE, "probe-probe", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;

    // The controller reports an invalid probe, and does not probe the gateway.
    edit(
        west,
        "probe",
        json!({ "probeSpec": { "failureThreshold": "0" } }),
    )
    .await;
    condition_says(
        west,
        "probe",
        "GatewayAlive",
        ("Unknown", "NotProbed"),
        "failureThreshold",
    )
    .await;
    gone(west, NAMESPACE, "probe-probe").await;
    hub.controller
        .metric_is("gateway_enabled{target_cluster_name=\"probe\"}", |v| {
            v == Some(0.0)
        })
        .await;
    edit(
        west,
        "probe",
        json!({ "probeSpec": { "failureThreshold": "1", "path": "/other" } }),
    )
    .await;
    condition_is(west, "probe", "GatewayAlive", "True", "ProbeSucceeded").await;
    // Without a gateway there is no probe Service.
    edit(west, "probe", json!({ "gatewayAddress": "" })).await;
    status_that(west, "probe", |status| status.gateway.is_none()).await;
    gone(west, NAMESPACE, "probe-probe").await;
    in_step(west, "probe", &[]).await;
    unlink(west, "probe").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn gateway_without_a_good_address_is_reported_and_known_addresses_stay() {
    let hub = hub().await;
    let (east, west) = hub.pair();
    namespace("nowhere", &[east, west]).await;
    export(east, "nowhere", &web("web", "nowhere")).await;
    let mut printed = objects(east, "nowhere", &[]);
    printed[2]["spec"]["gatewayAddress"] = json!("no-such-gateway.invalid");
    apply(west, &printed).await;
    let said = mirror_is(west, "nowhere", "nowhere", "web", "Error").await;
    assert!(
        said.message.starts_with("Failed to get gateway address: "),
        "{}",
        said.message
    );
    let status = status_that(west, "nowhere", |status| {
        let known = condition(status, "GatewayAlive");
        known.is_some_and(|c| c.message.contains("no-such-gateway.invalid"))
    });
    assert_eq!(status.await.unhealthy, Some(1));
    // The Service exists, so its name resolves. Only its endpoints are missing.
    services(west, "nowhere").get("web-nowhere").await.unwrap();

    // If the Link allows loopback addresses, Kubernetes rejects them as endpoints.
    let allowed = json!({ l::GATEWAY_NETWORKS: "127.0.0.1,::1" });
    annotate(west, "nowhere", allowed).await;
    edit(west, "nowhere", json!({ "gatewayAddress": "localhost" })).await;
    let said = eventually("what the API server says", SOON, async || {
        let said = mirror_is(west, "nowhere", "nowhere", "web", "Error").await;
        Ok(said.message.contains("loopback").then_some(said))
    });
    let said = said.await.unwrap();
    assert!(
        said.message
            .starts_with("Failed to create mirror endpoints: "),
        "{}",
        said.message
    );

    // One name that resolves is enough. Another name that does not resolve changes nothing.
    annotate(west, "nowhere", json!({ l::GATEWAY_NETWORKS: null })).await;
    edit(
        west,
        "nowhere",
        json!({ "gatewayAddress": "no-such-gateway.invalid,192.0.2.10" }),
    )
    .await;
    slices_that(west, "nowhere", "web-nowhere", |s| {
        addresses(s) == ["192.0.2.10"]
    })
    .await;
    mirror_is(west, "nowhere", "nowhere", "web", "Mirrored").await;
    in_step(west, "nowhere", &[]).await;
    unlink(west, "nowhere").await;
}
