//! Clusters with a trust domain each, and issuers that may sign no other names. These cases start clusters of their own.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc, time::Duration};

use anyhow::ensure;
use control_plane::eventually;
use tokio::time::sleep;

use super::{reach, without_failures};
use crate::{
    impostor::Gate,
    isolation::Place,
    load::until_answered,
    rig::{
        Issuer, NAMESPACE, Posture, Rig, Trust,
        cluster::EXTENSION,
        mirrors::{FEDERATED, FLAT, FOLLOWS, GATED, GATEWAY_PORT},
    },
    table::Row,
};

/// How long the load continues in each state.
const HOLD: Duration = Duration::from_secs(10);
/// How long the controller may use an address to which the gateway's name does not lead any more.
const FORGOTTEN: Duration = Duration::from_secs(180);
/// The names of a workload of `west`, and those of one of `east`.
const OWN: &str = "DNS:default.app.serviceaccount.identity.linkerd.west.example";
const FOREIGN: &str = "DNS:payments.prod.serviceaccount.identity.linkerd.east.example";
const WILDCARD: &str = "DNS:*.prod.serviceaccount.identity.linkerd.east.example";
const FOREIGN_URI: &str = "URI:spiffe://east.example/ns/prod/sa/payments";

/// What a gateway does with a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// The request was answered.
    Served,
    /// The certificate is valid, and the policy of the gateway does not permit this client: it permits DNS names alone.
    Denied,
    /// The certificate is not valid.
    Refused,
}

use Verdict::{Denied, Refused, Served};

/// Names of a certificate, and what the gateway does below issuers that may sign all names, the DNS names of `west` and all
/// URIs, and names of `west` alone.
const NAMES: [(&[&str], [Verdict; 3]); 5] = [
    (&[OWN], [Served, Served, Served]),
    (&[FOREIGN], [Served, Refused, Refused]),
    (&[OWN, FOREIGN], [Served, Refused, Refused]),
    (&[FOREIGN_URI], [Denied, Denied, Refused]),
    // A proxy that accepts the certificate knows no identity of this name.
    (&[WILDCARD], [Denied, Refused, Refused]),
];

/// All modes work. A client that has the key of the issuer of `west` can be no workload of `east`.
pub(super) async fn one_domain_each(place: &Arc<Place>) -> anyhow::Result<Row> {
    let mut rig = Box::pin(Rig::start(place.clone(), Trust::Own, Posture::Open)).await?;
    let modes = reach::all_modes(&mut rig).await?;
    let host = reach::host(&mut rig).await?;
    let told = format!(
        "{}, host {}; {}",
        modes.measured,
        host.requests,
        impostors(&rig).await?
    );
    Ok(modes.and(&host).with(told))
}

/// Says which names the gateway of `east` accepts. Fails if it is not as it should be.
async fn impostors(rig: &Rig) -> anyhow::Result<String> {
    let issuers: [Issuer; 3] = [
        rig.root.issuer(Trust::Common, "cluster.local")?,
        rig.root.constrained_by_dns("west.example")?,
        rig.root.issuer(Trust::Own, "west.example")?,
    ];
    let identity = rig.east.identity_of("linkerd-gateway", EXTENSION);
    let anchor = rig.root.certificate();
    let gate = Gate {
        address: (rig.gateway.address, GATEWAY_PORT).into(),
        identity: &identity,
        anchor: &anchor,
        service: ("gated.app.svc.cluster.local", 80),
        authority: None,
    };
    let (mut told, mut wrong) = (String::new(), Vec::new());
    for (names, expected) in NAMES {
        for ((issuer, what), expected) in issuers
            .iter()
            .zip(["any", "DNS alone", "DNS and URI"])
            .zip(expected)
        {
            let answer = gate.ask_as(issuer, names).await;
            let answer = answer.unwrap_or_else(|error| format!("{error:#}"));
            let verdict = if answer.contains(" 200 ") {
                Served
            } else if answer.contains("CertificateUnknown") {
                Refused
            } else {
                Denied
            };
            let line = format!("{names:?} below an issuer for {what}: {verdict:?}, {answer}");
            write!(told, "\n    {line}")?;
            if verdict != expected {
                wrong.push(line);
            }
        }
    }
    ensure!(
        wrong.is_empty(),
        "not as expected:\n{}\nall:{told}",
        wrong.join("\n")
    );
    Ok(told)
}

/// `east` is drained, moves from the common trust domain to one of its own, is linked again, and joins again; and then back.
/// Requests to the federated Service do not fail. Those to mirrors, which only `east` serves, fail until it is linked again.
pub(super) async fn moved(place: &Arc<Place>) -> anyhow::Result<Row> {
    let mut rig = Box::pin(Rig::start(place.clone(), Trust::Common, Posture::Open)).await?;
    let there = Box::pin(move_east(&mut rig, Trust::Own)).await?;
    let gateway = [rig.gateway.address.to_string()];
    // Without requests, the proxy does not say which endpoints it has.
    eventually(
        "the former gateway to be forgotten",
        FORGOTTEN,
        async || {
            let used = rig.slice_addresses(GATED).await?;
            ensure!(used == gateway, "the mirror has {used:?}, not {gateway:?}");
            Ok(Some(()))
        },
    )
    .await?;
    let back = Box::pin(move_east(&mut rig, Trust::Common)).await?;
    let told = format!("there: {}; back: {}", there.measured, back.measured);
    Ok(there.and(&back).with(told))
}

/// Moves `east` to this kind of trust domain.
async fn move_east(rig: &mut Rig, trust: Trust) -> anyhow::Result<Row> {
    let load = rig.load().await?;
    let federated = format!("{NAMESPACE}/{FEDERATED}");
    rig.west.linkerd_mc(&["drain", "east"])?;
    let own = rig.expected_unlinked();
    rig.source.oracle.agrees(&federated, &own, FOLLOWS).await?;

    rig.east.move_to(&rig.root, trust).await?;
    rig.east.install().await?;
    let mut old = Vec::new();
    for _ in 0..rig.east_pods.len() {
        old.push(rig.replace_pod().await?);
    }
    let next = rig.start_gateway().await?;
    rig.name_gateway(next.address);
    let gateway = std::mem::replace(&mut rig.gateway, next);
    gateway.delete().await?;
    drop((gateway, old));
    rig.link().await?;
    rig.west.linkerd.restart_destination().await?;
    for mirror in [GATED, FLAT] {
        until_answered(&rig.source.client, &rig.target(mirror).await?).await?;
    }
    let linked = load.so_far();
    rig.west.linkerd_mc(&["drain", "east", "--end"])?;
    // The controller uses the old address of the gateway too, until its name has led elsewhere a few times.
    for mirror in [FLAT, FEDERATED] {
        let service = format!("{NAMESPACE}/{mirror}");
        let expected = rig.expected(mirror);
        rig.source
            .oracle
            .agrees(&service, &expected, FOLLOWS)
            .await?;
    }
    let during = load.so_far();
    load.count_anew();
    sleep(HOLD).await;
    let after = without_failures(&load.finish().await?)?;
    let federated = BTreeMap::from([(FEDERATED.to_owned(), during[FEDERATED].clone())]);
    Ok(without_failures(&federated)?.and(&after).with(format!(
        "meanwhile, mirrors without another cluster: {} {}, {} {}",
        GATED, linked[GATED], FLAT, linked[FLAT]
    )))
}
