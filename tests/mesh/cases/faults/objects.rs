//! Faults of objects in the source cluster: mirrors, Links, their controller, and what others put over them.

use control_plane::{Fault as NetworkFault, eventually};
use serde_json::json;
use tokio::time::sleep;

use super::{
    Fault, broken, degraded,
    scene::{LATE, LATE_EAST, Scene},
};
use crate::{
    load::Load,
    rig::{
        FORGOTTEN, NAMESPACE,
        cluster::EXTENSION,
        mirrors::{FEDERATED, GATED},
        pod::{Pod, PodTemplate},
        wait::SOON,
        workloads::service,
    },
};

const CONTROLLER: &str = "linkerd-multicluster-controller";
const LEASE: &str = "service-mirror-write";

pub(super) fn faults() -> Vec<Fault> {
    let late = (LATE_EAST, 80);
    vec![
        broken(
            "controller down",
            late,
            ("objects", "ControllerDown"),
            |s| Box::pin(controller_down(s)),
        ),
        broken(
            "nobody leads",
            late,
            ("objects", "LeaseHeldByNobody"),
            |s| Box::pin(nobody_leads(s)),
        ),
        broken(
            "target's API server away",
            late,
            ("objects", "TargetApiUnreachable"),
            |s| Box::pin(api_away(s)),
        )
        .mended_by(|s| Box::pin(api_back(s))),
        broken(
            "namespace missing",
            ("web-east", 80),
            ("objects", "NamespaceMissing"),
            |s| Box::pin(namespace_missing(s)),
        )
        .ended_by(|s| Box::pin(elsewhere_is_empty(s))),
        broken("name taken", late, ("objects", "NameConflict"), |s| {
            Box::pin(name_taken(s))
        })
        .mended_by(|s| Box::pin(looked_up(s))),
        broken(
            "Service un-exported",
            late,
            ("objects", "NotExported"),
            |s| Box::pin(unexported(s)),
        ),
        broken(
            "Service missing in the target",
            late,
            ("objects", "MissingInTarget"),
            |s| Box::pin(missing(s)),
        )
        .mended_by(|s| Box::pin(exported_again(s))),
        degraded("drained", (FEDERATED, 80), ("objects", "Drained"), |s| {
            Box::pin(drained(s))
        }),
        broken(
            "port not declared",
            (LATE_EAST, 81),
            ("objects", "PortNotDeclared"),
            |s| Box::pin(port_missing(s)),
        )
        .mended_by(|s| Box::pin(forgotten(s))),
        broken(
            "port declared while it is asked for",
            (LATE_EAST, 81),
            ("answers", "PortRefusalKept"),
            |s| Box::pin(port_late(s)),
        )
        .mended_by(|s| Box::pin(paused(s))),
        broken(
            "slices of a stranger",
            late,
            ("objects", "ForeignEndpoints"),
            |s| Box::pin(stranger(s)),
        ),
        degraded(
            "controller down, and all is there",
            (GATED, 80),
            ("objects", "ControllerDown"),
            |s| Box::pin(scaled_down(s)),
        ),
    ]
}

/// A namespace of `east`, with a Service and a Pod, which was never there before: what is printed creates it in `west`.
async fn namespace_missing(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let elsewhere = format!("elsewhere-{}", fastrand::u32(..));
    scene.namespace.clone_from(&elsewhere);
    let own = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": elsewhere } });
    scene.rig.east.apply(&own.to_string()).await?;
    let mut exported = service("web", "mirror.linkerd.io/exported", "true");
    exported["metadata"]["namespace"] = json!(elsewhere);
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "web", "namespace": elsewhere },
    });
    scene
        .rig
        .east
        .apply(&format!("{account}\n---\n{exported}"))
        .await?;
    let template = PodTemplate::app(&elsewhere, "web-elsewhere", "web");
    let pod = Pod::start(&mut scene.rig.east, template, &[]).await?;
    scene.pods.push(pod);
    scene.reports("web", "MissingNamespace").await
}

async fn elsewhere_is_empty(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene
        .east(&["-n", &scene.namespace, "delete", "service", "web"])
        .await
        .map(|_| ())
}

async fn scaled_down(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let scale =
        format!("kubectl --context west -n {EXTENSION} scale deployment/{CONTROLLER} --replicas=0");
    scene.paste(&scale).await?;
    // The script may end before the Deployment was followed.
    scene.paste("true").await?;
    eventually("the Lease to be released", SOON, async || {
        let lease = scene
            .west(&[
                "-n",
                EXTENSION,
                "get",
                "lease",
                LEASE,
                "-o",
                "jsonpath={.spec.holderIdentity}",
            ])
            .await?;
        Ok(lease.is_empty().then_some(()))
    })
    .await
}

async fn controller_down(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scaled_down(scene).await?;
    scene.export_late().await
}

/// The Lease is held by a name that no Pod has, for an hour.
async fn nobody_leads(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.source.controller.terminate()?;
    let before = jiff::SignedDuration::from_secs(30);
    let renewed = super::scene::now() - before;
    let spec = json!({ "spec": {
        "holderIdentity": "somebody-else", "leaseDurationSeconds": 3600,
        "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string(),
    } });
    scene.patch_west("lease", LEASE, &spec).await?;
    scene.rig.source.controller.restart().await?;
    scene.export_late().await
}

async fn api_away(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.east_api.set(NetworkFault::Refuse);
    scene.export_late().await?;
    scene.link_is("Connected", "False").await
}

async fn api_back(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.east_api.set(NetworkFault::None);
    scene.link_is("Connected", "True").await
}

async fn name_taken(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let create = [
        "-n",
        NAMESPACE,
        "create",
        "service",
        "clusterip",
        LATE_EAST,
        "--tcp=80",
    ];
    scene.west(&create).await?;
    scene.export_late().await?;
    scene.reports(LATE, "NameConflict").await
}

/// What is printed shows the other Service; people delete it. The controller looks a name up again within a minute.
async fn looked_up(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene
        .west(&["-n", NAMESPACE, "delete", "service", LATE_EAST])
        .await?;
    let services = scene.rig.west.services(NAMESPACE);
    eventually("the mirror", SOON * 2, async || {
        Ok(services.get_opt(LATE_EAST).await?.map(|_| ()))
    })
    .await
}

async fn unexported(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.mirror_late().await?;
    scene
        .east(&[
            "-n",
            NAMESPACE,
            "label",
            "service",
            LATE,
            "mirror.linkerd.io/exported-",
        ])
        .await?;
    let services = scene.rig.west.services(NAMESPACE);
    eventually("the mirror to go", SOON, async || {
        Ok(services.get_opt(LATE_EAST).await?.is_none().then_some(()))
    })
    .await
}

async fn missing(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.mirror_late().await?;
    scene
        .east(&["-n", NAMESPACE, "delete", "service", LATE])
        .await?;
    let services = scene.rig.west.services(NAMESPACE);
    eventually("the mirror to go", SOON, async || {
        Ok(services.get_opt(LATE_EAST).await?.is_none().then_some(()))
    })
    .await
}

/// What is printed lists the Services; people create the one that is missing.
async fn exported_again(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.create_late().await?;
    scene.rig.target(LATE_EAST).await.map(|_| ())
}

async fn drained(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let drain = "linkerd-mc --context west drain east --duration 10m";
    scene.paste(drain).await.map(|_| ())
}

/// The mirror gets a port that a client asks for already, and goes on to ask for.
async fn port_late(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.mirror_late().await?;
    let target = scene.target(LATE_EAST, 81).await?;
    scene.load = Some(Load::start(&scene.client(), &[target]));
    scene.is_not_answered(LATE_EAST, 81).await?;
    let ports = json!({ "spec": { "ports": [
        { "name": "http", "port": 80, "targetPort": 8080 },
        { "name": "more", "port": 81, "targetPort": 8080 },
    ] } });
    let ports = ports.to_string();
    let patch = ["-n", NAMESPACE, "patch", "service", LATE, "-p", &ports];
    scene.east(&patch).await?;
    has_both_ports(scene).await
}

/// The client pauses for as long as its proxy remembers.
async fn paused(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.load = None;
    sleep(FORGOTTEN).await;
    Ok(())
}

async fn port_missing(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.people_edit(
        r"s/^  ports:/  ports:\n  - name: more\n    port: 81\n    targetPort: 8080/",
    )?;
    scene.mirror_late().await
}

async fn has_both_ports(scene: &Scene<'_>) -> anyhow::Result<()> {
    let services = scene.rig.west.services(NAMESPACE);
    eventually("the mirror to have the port", SOON, async || {
        let ports = services
            .get(LATE_EAST)
            .await?
            .spec
            .and_then(|spec| spec.ports);
        Ok(ports.is_some_and(|ports| ports.len() == 2).then_some(()))
    })
    .await
}

/// A client that was refused has to pause.
async fn forgotten(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    has_both_ports(scene).await?;
    sleep(FORGOTTEN).await;
    Ok(())
}

async fn stranger(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.mirror_late().await?;
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "namespace": NAMESPACE, "name": "stranger", "labels": { "kubernetes.io/service-name": LATE_EAST } },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["10.241.1.250"] }],
        "ports": [{ "name": "http", "port": 80 }],
    });
    scene.rig.west.apply(&slice.to_string()).await
}
