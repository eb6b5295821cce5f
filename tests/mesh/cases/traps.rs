//! What Linkerd answers since edge-26.7.1 where it has no endpoint to name: for a port that a Service does not declare,
//! and for a Service that is gone. Both answers can outlast their reason, so these cases bound what clients feel.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use control_plane::{Fault, eventually};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::{form::is_flat_again, modes::EXPORTED, newcomer::Newcomer, of, without_failures};
use crate::{
    helper::APP_PORT,
    load::{Load, until_answered},
    rig::{
        FORGOTTEN, NAMESPACE, Rig,
        federation::Form,
        mirrors::{FEDERATED, FOLLOWS, GATED},
        wait::SOON,
        workloads::{PORT, plain, service},
    },
    table::{Row, seconds},
};

/// How long Linkerd is given to reach a cluster that it could not reach when it started.
const RETRIES: Duration = Duration::from_secs(60);

/// Linkerd's destination controller starts while the API server of the target is away. It tries the credentials of a
/// cluster once (`cluster_store.go`), so what needs discovery is down until it is restarted.
pub(super) async fn started_in_an_outage(rig: &mut Rig) -> anyhow::Result<Row> {
    rig.east_api.set(Fault::Refuse);
    rig.west.linkerd.restart_destination_alone().await?;
    rig.east_api.set(Fault::None);
    rig.link_is_ready().await?;
    let back = Instant::now();
    let mut knows = false;
    while !knows && back.elapsed() < RETRIES {
        sleep(Duration::from_secs(1)).await;
        knows = rig.west.linkerd.knows("east").await?;
    }
    let measured = if knows {
        format!(
            "Linkerd reaches the cluster {} after its return",
            seconds(back.elapsed())
        )
    } else {
        format!(
            "Linkerd does not reach the cluster within {} of its return",
            seconds(RETRIES)
        )
    };
    rig.west.linkerd.restart_destination().await?;
    sleep(FORGOTTEN).await;
    let load = rig.load().await?;
    sleep(FORGOTTEN).await;
    let row = without_failures(&load.finish().await?)?;
    Ok(row.with(format!("{measured}; after another restart it does")))
}

/// A port that the Service gets while clients ask for it already.
const NEW_PORT: u16 = 81;
/// The Service that gets it, and its mirror. It has no other use, because the oracle does not tell ports apart.
const PORTED: &str = "ported";
const PORTED_MIRROR: &str = "ported-east";
/// How long clients go on with each state.
const HOLD: Duration = Duration::from_secs(15);
/// For this long after a Service is deleted, requests may still be sent to its gateway: the controller asks the target
/// cluster once more, and proxies have to hear of the new endpoints.
const LEAVES: Duration = Duration::from_secs(3);

/// A mirror gets a port that clients ask for already. Requests to its other port do not fail, a new client reaches the
/// new port at once, and so does one that has paused. Linkerd does not revise its refusal for a client that goes on.
pub(super) async fn port_added(rig: &mut Rig) -> anyhow::Result<Row> {
    let ported = service(PORTED, EXPORTED, "true");
    rig.east.apply(&ported.to_string()).await?;
    let declared = rig.target(PORTED_MIRROR).await?;
    let newcomer = Newcomer::start(rig).await?;
    until_answered(&rig.source.client, &declared).await?;
    let load = rig.load_with(vec![declared.clone()]).await?;
    let mut target = declared;
    target.address.set_port(NEW_PORT);
    let impatient = Load::start(&rig.source.client, std::slice::from_ref(&target));
    sleep(FORGOTTEN).await;
    let refused = of(&impatient.so_far(), PORTED_MIRROR)?.clone();
    ensure!(
        refused.requests > 0 && refused.failed == refused.requests,
        "the undeclared port answered: {refused}"
    );

    set_ports(rig, &[PORT, NEW_PORT]).await?;
    let added = Instant::now();
    impatient.count_anew();
    until_answered(&newcomer.client, &target).await?;
    let new_client = added.elapsed();
    sleep(HOLD).await;
    let went_on = impatient.finish().await?;
    let went_on = of(&went_on, PORTED_MIRROR)?;
    sleep(FORGOTTEN).await;
    let paused = Instant::now();
    until_answered(&rig.source.client, &target).await?;
    let paused = paused.elapsed();

    newcomer.delete().await?;
    rig.proxy_is_right(FOLLOWS).await?;
    let row = without_failures(&load.finish().await?)?;
    let services = rig.east.services(NAMESPACE);
    services.delete(PORTED, &DeleteParams::default()).await?;
    Ok(row.with(format!(
        "a new client got an answer after {}, one that paused for {} after {}; one that went on was refused {} of {} times \
         in {}",
        seconds(new_client),
        seconds(FORGOTTEN),
        seconds(paused),
        went_on.failed,
        went_on.requests,
        seconds(HOLD),
    )))
}

/// Sets the ports of the exported Service, and waits until its mirror has them.
async fn set_ports(rig: &Rig, ports: &[u16]) -> anyhow::Result<()> {
    let declared: Vec<Value> = ports
        .iter()
        .map(|port| json!({ "name": format!("p{port}"), "port": port, "targetPort": APP_PORT }))
        .collect();
    let change = Patch::Merge(json!({ "spec": { "ports": declared } }));
    let services = rig.east.services(NAMESPACE);
    services
        .patch(PORTED, &PatchParams::default(), &change)
        .await?;
    let mirrors = rig.west.services(NAMESPACE);
    eventually("the mirror to have these ports", SOON, async || {
        let spec = mirrors.get(PORTED_MIRROR).await?.spec.unwrap_or_default();
        let found = spec.ports.unwrap_or_default();
        let found = found.iter().map(|port| port.port);
        Ok(found
            .eq(ports.iter().map(|&port| i32::from(port)))
            .then_some(()))
    })
    .await
}

/// Services are deleted behind the gateway, one with a mirror and one that is a member. Linkerd's gateway lets requests
/// to them wait, so they must not be sent there any more: the mirror goes, and the member leaves.
pub(super) async fn service_deleted(rig: &mut Rig) -> anyhow::Result<Row> {
    const DOOMED: &str = "doomed";
    let east = rig.east.services(NAMESPACE);
    let load = rig.load().await?;
    rig.federate_through(Form::Gateway).await?;
    rig.east
        .apply(&service(DOOMED, EXPORTED, "true").to_string())
        .await?;
    let mirror = format!("{DOOMED}-east");
    let doomed = rig.target(&mirror).await?;
    let through = &rig.expected_unlinked() | &rig.expected(GATED);
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    rig.source
        .oracle
        .agrees(&federated, &through, FOLLOWS)
        .await?;
    until_answered(&rig.source.client, &doomed).await?;
    let to_doomed = Load::start(&rig.source.client, std::slice::from_ref(&doomed));
    sleep(FORGOTTEN).await;

    // The one that is mirrored.
    east.delete(DOOMED, &DeleteParams::default()).await?;
    let deleted = Instant::now();
    to_doomed.count_anew();
    let mirrors = rig.west.services(NAMESPACE);
    eventually("the mirror to go", SOON, async || {
        Ok(mirrors.get_opt(&mirror).await?.is_none().then_some(()))
    })
    .await?;
    let gone = deleted.elapsed();
    sleep(HOLD).await;
    let after = to_doomed.finish().await?;
    let after = of(&after, &mirror)?;

    // The one that is a member.
    load.count_anew();
    let counted = Instant::now();
    east.delete("web", &DeleteParams::default()).await?;
    let deleted = counted.elapsed();
    let own = rig.expected_unlinked();
    rig.source.oracle.agrees(&federated, &own, FOLLOWS).await?;
    let left = counted.elapsed().saturating_sub(deleted);
    sleep(HOLD).await;
    rig.east.apply(&plain()).await?;
    rig.source
        .oracle
        .agrees(&federated, &through, FOLLOWS)
        .await?;
    sleep(HOLD).await;
    rig.federate_through(Form::Discovery).await?;
    sleep(HOLD).await;
    let mut tallies = load.finish().await?;
    let member = tallies.remove(FEDERATED).context("no requests")?;
    if let Some((_, last)) = member.failures {
        ensure!(
            last < deleted + LEAVES,
            "requests that were sent {} after the member's deletion failed: {member}",
            seconds(last.saturating_sub(deleted)),
        );
    }
    is_flat_again(rig).await?;
    let row = without_failures(&tallies)?;
    Ok(row.with(format!(
        "the mirror was gone after {}; {} of {} requests to it failed in {}. The member had left after {}; {} of {} requests \
         to the federated Service failed (limit: those sent within {})",
        seconds(gone),
        after.failed,
        after.requests,
        seconds(HOLD),
        seconds(left),
        member.failed,
        member.requests,
        seconds(LEAVES),
    )))
}
