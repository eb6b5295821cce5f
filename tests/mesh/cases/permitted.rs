//! A gateway that forwards exported Services for the clusters that these name. A client with a certificate of one cluster or
//! another asks it for different things, and the level is switched there and back under load.

use std::{sync::Arc, time::Duration};

use anyhow::ensure;
use control_plane::eventually;
use tokio::time::{Instant, sleep};

use super::{
    exported::{REFUSED, balanced, export, latency, replace},
    without_failures,
};
use crate::{
    impostor::Gate,
    isolation::Place,
    load::Load,
    rig::{
        Issuer, NAMESPACE, Posture, Rig, Trust,
        cluster::EXTENSION,
        controller::{Controller, OURS},
        exports::forwards_to,
        mirrors::{GATED, GATEWAY_PORT},
        wait::SOON,
        workloads::PORT,
    },
    table::{Row, seconds},
};

/// How long the load continues at each level.
const HOLD: Duration = Duration::from_secs(15);
/// Number of exports beside those that are used: several routes are needed.
const MANY: usize = 20;

/// A name, the cluster whose certificate the client has, the Service in the transport header, the authority of a request of
/// HTTP, and the answers at the levels `exported` and `permitted`.
type Try = (
    &'static str,
    &'static str,
    (&'static str, u16),
    Option<&'static str>,
    [&'static str; 2],
);

#[rustfmt::skip]
const TRIES: &[Try] = &[
    ("exported to west, as west", "west", ("gated.app", PORT), Some("gated.app"), ["200", "200"]),
    ("exported to west, as north", "north", ("gated.app", PORT), Some("gated.app"), ["200", "403"]),
    ("exported to all, as north", "north", ("open.app", PORT), Some("open.app"), ["200", "200"]),
    ("exported to nobody, as west", "west", ("wrong.app", PORT), Some("wrong.app"), ["200", "404"]),
    ("not exported, as west", "west", ("secret.app", PORT), Some("secret.app"), ["200", "404"]),
    ("bytes to an opaque export, as west", "west", ("bytes.app", PORT), None, ["200", REFUSED]),
    ("bytes to another one, as west", "west", ("secret.app", PORT), None, ["200", REFUSED]),
    ("the API server, as west", "west", ("kubernetes.default", 443), None, [REFUSED, REFUSED]),
    ("header of another namespace, authority exported, as west", "west", ("secret.hidden", PORT), Some("gated.app"), [REFUSED, REFUSED]),
    // A gateway checks the authority, and forwards to the name in the header.
    ("header not exported, authority exported, as west", "west", ("secret.app", PORT), Some("gated.app"), ["200", "200"]),
    ("header exported to west, authority to all, as north", "north", ("gated.app", PORT), Some("open.app"), ["200", "200"]),
];

/// All of it.
pub(super) async fn by_cluster(place: &Arc<Place>) -> anyhow::Result<Row> {
    let mut rig = Box::pin(Rig::start(place.clone(), Trust::Own, Posture::Open)).await?;
    export(&rig, NAMESPACE, "secret", None).await?;
    for name in ["open", "bytes", "wrong"] {
        export(&rig, NAMESPACE, name, Some("true")).await?;
    }
    for number in 0..MANY {
        export(&rig, NAMESPACE, &format!("more-{number}"), Some("true")).await?;
    }
    for (service, annotation) in [
        ("bytes", "config.linkerd.io/opaque-ports=80"),
        ("wrong", "multicluster.linkerd.io/export-to="),
        ("gated", "multicluster.linkerd.io/export-to=west.example"),
    ] {
        let annotate = ["annotate", "service", service, "-n", NAMESPACE, annotation];
        rig.east.plane.kubectl(&annotate).await?;
    }
    let issuer = |domain| rig.root.issuer(Trust::Own, domain);
    let issuers = [issuer("west.example")?, issuer("north.example")?];
    let balancer = balanced(&rig).await?;
    rig.east.install_with("gateway.forward=exported").await?;
    let mut controller = Controller::start(&mut rig.east, OURS).await?;
    forwards_to(&rig.east, |to| to == "app.svc.cluster.local.").await?;
    replace(&mut rig, &balancer).await?;

    let targets = [
        rig.host().await?,
        rig.target(GATED).await?,
        rig.target("open-east").await?,
    ];
    let load = Load::settled(&rig.source.client, &targets, async { Ok(()) }).await?;
    let mut told = vec![format!("exported: {}", answers(&rig, &issuers, 0).await?)];
    for (level, which) in [("permitted", 1), ("exported", 0)] {
        let began = Instant::now();
        rig.east
            .install_with(&format!("gateway.forward={level}"))
            .await?;
        controller.terminate()?;
        controller.delete().await?;
        controller = Controller::start(&mut rig.east, OURS).await?;
        eventually("the policy of the gateway to change", SOON, async || {
            let routes = objects(&rig, "httproutes.policy.linkerd.io").await?;
            let policies = objects(&rig, "authorizationpolicies.policy.linkerd.io").await?;
            let ours = |name: &&String| name.starts_with("linkerd-gateway-exports-");
            let counts = [&routes, &policies].map(|names| names.iter().filter(ours).count());
            let is_whole = policies.iter().any(|name| name == "linkerd-gateway");
            // Two of 16 hosts, of those that are exported to all, and one of those to west.
            let expected = if which == 1 {
                ([3, 3], false)
            } else {
                ([0, 0], true)
            };
            ensure!((counts, is_whole) == expected, "{routes:?}, {policies:?}");
            Ok(Some(()))
        })
        .await?;
        let took = seconds(began.elapsed());
        sleep(HOLD).await;
        told.push(format!(
            "{level} after {took}, {}: {}",
            latency(&rig, &targets[1]).await?,
            answers(&rig, &issuers, which).await?
        ));
    }
    let row = without_failures(&load.finish().await?)?;
    Ok(row.with(told.join("; ")))
}

/// Names of objects in the namespace of the gateway.
async fn objects(rig: &Rig, kind: &str) -> anyhow::Result<Vec<String>> {
    let list = rig.east.get(&[kind, "-n", EXTENSION]).await?;
    let items = list["items"].as_array().into_iter().flatten();
    let names = items.filter_map(|item| item["metadata"]["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// The answers of the gateway. `which` of the expected answers are right.
async fn answers(rig: &Rig, issuers: &[Issuer; 2], which: usize) -> anyhow::Result<String> {
    let whole = |name: &str| format!("{name}.svc.cluster.local");
    let (anchor, identity) = (
        rig.root.certificate(),
        rig.east.identity_of("linkerd-gateway", EXTENSION),
    );
    let (mut told, mut wrong) = (Vec::new(), Vec::new());
    for (what, cluster, (service, port), authority, expected) in TRIES {
        let domain = format!("{cluster}.example");
        let issuer = &issuers[usize::from(*cluster == "north")];
        let name = format!("DNS:default.app.serviceaccount.identity.linkerd.{domain}");
        let (service, authority) = (whole(service), authority.map(whole));
        let gate = Gate {
            address: (rig.gateway.address, GATEWAY_PORT).into(),
            identity: &identity,
            anchor: &anchor,
            service: (&service, *port),
            authority: authority.as_deref(),
        };
        let said = match gate.ask_as(issuer, &[&name]).await {
            Ok(line) => line.split(' ').nth(1).unwrap_or_default().to_owned(),
            Err(error) if error.to_string().contains("closed") => "closed".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let fits = match expected[which] {
            REFUSED => !["200", "400"].contains(&said.as_str()),
            status => said == status,
        };
        if !fits {
            wrong.push(format!("{what}: got {said}, not {}", expected[which]));
        }
        told.push(format!("{what}: {said}"));
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    Ok(told.join(", "))
}
