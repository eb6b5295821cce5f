//! Three clusters whose Pods can connect only to the gateways of other clusters.

use std::{collections::BTreeSet, time::Duration};

use anyhow::ensure;
use tokio::time::sleep;

use super::{
    form::{all_members_see_their_clients, is_flat_again},
    prefer::{asked, names},
    without_failures,
};
use crate::{
    helper::APP_PORT,
    load::Load,
    rig::{
        NAMESPACE, Rig,
        federation::Form,
        mirrors::{FEDERATED, FOLLOWS, GATED, GATEWAY_PORT},
        network::Walls,
        pod::Pod,
        third::{NORTH, Third},
    },
    table::Row,
};

/// How long the load continues in each state.
const HOLD: Duration = Duration::from_secs(20);

/// All members answer. Requests follow the order of preferred clusters as these are drained.
pub(super) async fn only_gateways(rig: &mut Rig) -> anyhow::Result<Row> {
    let north = Third::start(rig).await?;
    let (near, east, far) = (
        names(&rig.west_pods),
        names(&rig.east_pods),
        names(&north.pods),
    );
    for pods in [&rig.east_pods, &north.pods] {
        ensure!(reaches(rig, &pods[0]).await?, "there is a wall already");
    }
    rig.federate_through(Form::Gateway).await?;
    let walls = Walls::around(&[rig.gateway.address, north.gateway.address])?;
    for pods in [&rig.east_pods, &north.pods] {
        ensure!(!reaches(rig, &pods[0]).await?, "there is no wall");
    }
    north.link(rig).await?;

    let target = rig.target(FEDERATED).await?;
    let load = Load::start(&rig.source.client, std::slice::from_ref(&target));
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    let own = &rig.expected_unlinked() | &rig.expected(GATED);
    let all = &own | &BTreeSet::from([(north.gateway.address, GATEWAY_PORT).into()]);
    rig.source.oracle.agrees(&federated, &all, FOLLOWS).await?;
    load.count_anew();
    sleep(HOLD).await;

    // A balancer may prefer one endpoint for minutes, so each member is tested alone.
    rig.prefer(Some("north,east")).await?;
    for (drained, next) in [(None, &far), (Some(NORTH), &east), (Some("east"), &near)] {
        if let Some(drained) = drained {
            rig.west.linkerd_mc(&["drain", drained])?;
        }
        asked(&load, next, FOLLOWS).await?;
    }
    for drained in ["east", NORTH] {
        rig.west.linkerd_mc(&["drain", drained, "--end"])?;
    }
    asked(&load, &far, FOLLOWS).await?;
    rig.prefer(None).await?;
    rig.source.oracle.agrees(&federated, &all, FOLLOWS).await?;

    let unlink = ["unlink", "--cluster-name", NORTH, "--apply", "--yes"];
    rig.west.linkerd_mc(&unlink)?;
    rig.source.oracle.agrees(&federated, &own, FOLLOWS).await?;
    let tallies = load.finish().await?;
    all_members_see_their_clients(&tallies, &rig.west_pods, &[&rig.east_pods, &north.pods])?;
    let row = without_failures(&tallies)?;
    drop(walls);
    rig.federate_through(Form::Discovery).await?;
    rig.link_is_ready().await?;
    is_flat_again(rig).await?;
    Ok(row.with(
        "Pods do not reach those of other clusters; all members answer and see the identities that they should; requests \
         follow an order of three clusters as these are drained, and return"
            .to_owned(),
    ))
}

/// Whether the client can connect to a Pod's own address.
async fn reaches(rig: &Rig, pod: &Pod) -> anyhow::Result<bool> {
    let address = (pod.address, APP_PORT).into();
    let answer = rig.source.client.get(address, &pod.name).await?;
    Ok(answer.status == 200)
}
