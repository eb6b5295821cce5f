//! A federated Service with a remote member that is reached through its gateway, and the changes between this form and
//! discovery.

use std::{collections::BTreeMap, time::Duration};

use anyhow::ensure;
use control_plane::eventually;
use tokio::time::sleep;

use super::{newcomer::Newcomer, of, without_failures};
use crate::{
    load::{Load, Tally},
    rig::{
        FORGOTTEN, NAMESPACE, Rig,
        cluster::EXTENSION,
        federation::Form,
        identity_in,
        mirrors::{FEDERATED, FOLLOWS, GATED},
        pod::Pod,
    },
    table::Row,
};

/// How long the load continues with each form.
const HOLD: Duration = Duration::from_secs(10);

/// Local Pods and the gateway get requests, and see the identity of the client.
pub(super) async fn through_gateway(rig: &mut Rig) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    rig.federate_through(Form::Gateway).await?;
    let expected = &rig.expected_unlinked() | &rig.expected(GATED);
    let service = format!("{NAMESPACE}/{FEDERATED}");
    rig.source
        .oracle
        .agrees(&service, &expected, FOLLOWS)
        .await?;
    // Only these requests all go through the gateway.
    let target = rig.target(FEDERATED).await?;
    let through = Load::start(&rig.source.client, std::slice::from_ref(&target));
    // A balancer may prefer one endpoint for a while.
    eventually("all members to be asked", FOLLOWS, async || {
        let so_far = through.so_far();
        all_members_see_their_clients(&so_far, &rig.west_pods, &[&rig.east_pods])?;
        Ok(Some(()))
    })
    .await?;
    without_failures(&through.finish().await?)?;
    rig.federate_through(Form::Discovery).await?;
    sleep(HOLD).await;
    let tallies = load.finish().await?;
    is_flat_again(rig).await?;
    without_failures(&tallies)
}

/// Changes from one form to the other and back, and keeps each form under load. New streams use it.
pub(super) async fn switched(rig: &mut Rig) -> anyhow::Result<Row> {
    const TIMES: usize = 10;
    let newcomer = Newcomer::start(rig).await?;
    let load = rig.load().await?;
    let address = rig.target(FEDERATED).await?.address;
    let client = rig.west.identity_of("client", NAMESPACE);
    let gateway = rig.east.identity_of("linkerd-gateway", EXTENSION);
    for time in 0..TIMES {
        let form = [Form::Gateway, Form::Discovery][time % 2];
        rig.federate_through(form).await?;
        sleep(HOLD).await;
        let now = rig.target(FEDERATED).await?.address;
        ensure!(now == address, "the ClusterIP was {address} and is {now}");
        let identity = [&gateway, &client][time % 2];
        newcomer.is_seen_as(rig, FEDERATED, identity).await?;
    }
    newcomer.delete().await?;
    let tallies = load.finish().await?;
    is_flat_again(rig).await?;
    without_failures(&tallies)
}

/// A stream that began with slices has a cluster that is linked again, although its members are discovered now.
pub(super) async fn linked_again(rig: &mut Rig) -> anyhow::Result<Row> {
    let target = rig.target(FEDERATED).await?;
    let service = format!("{NAMESPACE}/{FEDERATED}");
    let own = rig.expected_unlinked();
    let both = &own | &rig.expected(GATED);
    rig.federate_through(Form::Gateway).await?;
    let load = Load::start(&rig.source.client, std::slice::from_ref(&target));
    rig.source.oracle.agrees(&service, &both, FOLLOWS).await?;
    rig.federate_through(Form::Discovery).await?;
    rig.has_nothing_to_do(FOLLOWS).await?;
    rig.unlink()?;
    rig.source.oracle.agrees(&service, &own, FOLLOWS).await?;
    rig.link().await?;
    rig.source.oracle.agrees(&service, &both, FOLLOWS).await?;
    let tallies = load.finish().await?;
    is_flat_again(rig).await?;
    without_failures(&tallies)
}

/// Open streams continue with the slices. After they have ended, new streams discover all members.
pub(super) async fn is_flat_again(rig: &Rig) -> anyhow::Result<()> {
    sleep(FORGOTTEN).await;
    let load = rig.load().await?;
    sleep(HOLD).await;
    without_failures(&load.finish().await?).map(|_| ())
}

/// Checks that Pods of other clusters get requests from their gateways, local ones from the client, and that all
/// members get requests.
pub(super) fn all_members_see_their_clients(
    tallies: &BTreeMap<String, Tally>,
    local: &[Pod],
    others: &[&[Pod]],
) -> anyhow::Result<()> {
    // The trust domains of their clusters follow.
    let client = identity_in("", "client", NAMESPACE);
    let gateway = identity_in("", "linkerd-gateway", EXTENSION);
    let is_of = |pods: &[Pod], name: &str| pods.iter().any(|pod| pod.name == name);
    let answers = &of(tallies, FEDERATED)?.answers;
    for (pod, seen) in answers.keys() {
        let expected = if is_of(local, pod) { &client } else { &gateway };
        ensure!(
            seen.starts_with(expected),
            "{pod} sees {seen}, not {expected}"
        );
    }
    for pods in others.iter().chain([&local]) {
        let asked = answers.keys().any(|(pod, _)| is_of(pods, pod));
        ensure!(asked, "not all members are asked: {:?}", answers.keys());
    }
    Ok(())
}
