//! A gateway that forwards only what is exported: a client with a stolen certificate asks it for other things, and the
//! gateway is replaced under load when a namespace gets its first export.

use std::{fs, time::Duration};

use anyhow::ensure;
use control_plane::eventually;
use serde_json::{Value, json};
use tokio::{
    task::block_in_place,
    time::{Instant, sleep},
};

use super::{private::reason_of, without_failures};
use crate::{
    impostor::Gate,
    load::{Load, Target, until_answered},
    rig::{
        FORGOTTEN, NAMESPACE, Rig, Trust,
        balancer::{BALANCER, Balancer},
        cluster::EXTENSION,
        controller::{Controller, OURS},
        exports::{ADDITIONAL_ENV, SUFFIXES, forwards_to, template},
        federation::Form,
        identity_of,
        mirrors::{FEDERATED, GATED, GATEWAY_PORT, address_of},
        pod::{Pod, PodTemplate},
        wait::SOON,
        workloads::{self, PORT, service},
    },
    table::{Row, percentile, seconds},
};

/// A namespace without exports, and one that gets its first export.
const HIDDEN: &str = "hidden";
const SHOP: &str = "shop";
/// How long the load continues after a rollout.
const HOLD: Duration = Duration::from_secs(20);
/// Number of namespaces with exports, to measure what a long list costs.
const MANY: usize = 1000;
/// Number of requests, to measure their latency.
const ASKED: usize = 1000;

/// A name, a Service and port, an authority, and answers.
type GatewayTry = (
    &'static str,
    (&'static str, u16),
    Option<&'static str>,
    [&'static str; 3],
);

/// What the client asks the gateway for: the Service and port in the transport header, and the authority of a request of
/// HTTP. Then the answers of a gateway that forwards to all, of one that forwards to the namespace `app`, and of one that
/// forwards to nothing.
#[rustfmt::skip]
const TRIES: &[GatewayTry] = &[
    ("exported", ("gated.app", PORT), Some("gated.app"), ["200", "200", REFUSED]),
    ("not exported, in a namespace with exports", ("secret.app", PORT), Some("secret.app"), ["200", "200", REFUSED]),
    ("not exported", ("secret.hidden", PORT), Some("secret.hidden"), ["200", REFUSED, REFUSED]),
    ("header not exported, authority exported", ("secret.hidden", PORT), Some("gated.app"), ["200", REFUSED, REFUSED]),
    ("header exported, authority not exported", ("gated.app", PORT), Some("secret.hidden"), ["200", "200", REFUSED]),
    ("bytes to an exported one", ("gated.app", PORT), None, ["200", "200", REFUSED]),
    ("bytes to another one", ("secret.hidden", PORT), None, ["200", REFUSED, REFUSED]),
    ("the API server", ("kubernetes.default", 443), None, ["400", REFUSED, REFUSED]),
];
/// Any answer but one of the Service.
pub(super) const REFUSED: &str = "refused";

/// All of it.
pub(super) async fn only_exported(rig: &mut Rig) -> anyhow::Result<Row> {
    let others = [
        others_in(rig, HIDDEN, 230).await?,
        others_in(rig, SHOP, 231).await?,
    ];
    export(rig, NAMESPACE, "secret", None).await?;
    export(rig, HIDDEN, "secret", None).await?;
    export(rig, NAMESPACE, "bytes", Some("true")).await?;
    let annotate = ["annotate", "service", "bytes", "-n", NAMESPACE];
    let opaque = [&annotate[..], &["config.linkerd.io/opaque-ports=80"]].concat();
    rig.east.plane.kubectl(&opaque).await?;
    let balancer = balanced(rig).await?;
    let mut said = vec![answers(rig, &rig.gateway, 0).await?];

    // The controller of `east` limits its gateway.
    rig.east.install_with("gateway.forward=exported").await?;
    let began = Instant::now();
    let controller = Controller::start(&mut rig.east, OURS).await?;
    let annotation = forwards_to(&rig.east, |to| to == "app.svc.cluster.local.").await?;
    let limited = began.elapsed();
    replace(rig, &balancer).await?;
    said.push(answers(rig, &rig.gateway, 1).await?);
    let closed = gateway_with(
        rig,
        &annotation.replace("app.svc.cluster.local.", "invalid."),
    )
    .await?;
    said.push(answers(rig, &closed, 2).await?);
    closed.delete().await?;
    drop(closed);

    rig.federate_through(Form::Gateway).await?;
    let mut targets = vec![rig.host().await?];
    for mirror in [GATED, FEDERATED, "bytes-east"] {
        targets.push(rig.target(mirror).await?);
    }
    // The controller writes at most twice a minute, and this takes longer.
    let cost = cost(rig, &balancer, &targets[1]).await?;
    let load = Load::settled(&rig.source.client, &targets, async { Ok(()) }).await?;
    let first = first_export(rig, &balancer).await?;
    sleep(HOLD).await;
    let row = without_failures(&load.finish().await?)?;

    drop(controller);
    end(rig, balancer, others).await?;
    Ok(row.with(format!(
        "limited {} after the controller's start; first export in a namespace: {first}; {cost}; answers with all, with \
         exported and with no exports: {}",
        seconds(limited),
        told(&said)
    )))
}

/// Starts a load balancer in front of the gateway, and lets the Link lead to it.
pub(super) async fn balanced(rig: &Rig) -> anyhow::Result<Balancer> {
    let balancer = Balancer::to(rig.gateway.address)?;
    let patch = format!("{{\"spec\":{{\"gatewayAddress\":\"{BALANCER}\"}}}}");
    let link = ["links.multicluster.linkerd.io", "east", "-n", EXTENSION];
    let edit = [&["patch"], &link[..], &["--type=merge", "-p", &patch]].concat();
    rig.west.plane.kubectl(&edit).await?;
    eventually("mirrors to lead to the load balancer", SOON, async || {
        let found = rig.slice_addresses(GATED).await?;
        ensure!(found == [BALANCER.to_string()], "they lead to {found:?}");
        Ok(Some(()))
    })
    .await?;
    Ok(balancer)
}

/// Puts the rig right: the gateway forwards to all again.
async fn end(rig: &mut Rig, balancer: Balancer, others: [Pod; 2]) -> anyhow::Result<()> {
    rig.federate_through(Form::Discovery).await?;
    rig.east.install().await?;
    let template = template(&rig.east).await?;
    ensure!(
        template["metadata"]["annotations"][ADDITIONAL_ENV] == "[]",
        "the gateway is still limited: {template}"
    );
    replace(rig, &balancer).await?;
    rig.name_gateway(rig.gateway.address);
    rig.link().await?;
    for pod in others {
        pod.delete().await?;
    }
    for cluster in [&rig.east, &rig.west] {
        for namespace in [HIDDEN, SHOP] {
            let delete = ["delete", "namespace", namespace, "--ignore-not-found"];
            cluster.plane.kubectl(&delete).await?;
        }
    }
    let delete = ["delete", "service", "secret", "bytes", "-n", NAMESPACE];
    rig.east.plane.kubectl(&delete).await?;
    rig.link_is_ready().await?;
    Ok(())
}

/// Makes a namespace in both clusters, with a Pod in `east`.
async fn others_in(rig: &mut Rig, namespace: &str, number: u8) -> anyhow::Result<Pod> {
    let objects = workloads::accounts_in(namespace);
    rig.west.apply(&objects).await?;
    rig.east.apply(&objects).await?;
    let name = format!("web-{number}");
    Pod::start(
        &mut rig.east,
        PodTemplate::app(namespace, &name, "web"),
        &[],
    )
    .await
}

/// Creates a Service in front of the Pods of a namespace of `east`, and exports it or not.
pub(super) async fn export(
    rig: &Rig,
    namespace: &str,
    name: &str,
    value: Option<&str>,
) -> anyhow::Result<()> {
    let mut object = service(
        name,
        "mirror.linkerd.io/exported",
        value.unwrap_or_default(),
    );
    object["metadata"]["namespace"] = json!(namespace);
    if value.is_none() {
        object["metadata"]["labels"] = Value::Null;
    }
    rig.east.apply(&object.to_string()).await
}

/// The answers of a gateway to everything that the client asks for. `which` of the expected answers are right.
async fn answers(rig: &Rig, gateway: &Pod, which: usize) -> anyhow::Result<Vec<String>> {
    let whole = |name: &str| format!("{name}.svc.cluster.local");
    let issuer = rig.root.issuer(Trust::Common, "cluster.local")?;
    let (anchor, identity) = (
        rig.root.certificate(),
        rig.east.identity_of("linkerd-gateway", EXTENSION),
    );
    let name = format!("DNS:{}", identity_of("default", "stolen"));
    let mut all = Vec::new();
    for (what, (service, port), authority, expected) in TRIES {
        let (service, authority) = (whole(service), authority.map(whole));
        let gate = Gate {
            address: (gateway.address, GATEWAY_PORT).into(),
            identity: &identity,
            anchor: &anchor,
            service: (&service, *port),
            authority: authority.as_deref(),
        };
        let said = match gate.ask_as(&issuer, &[&name]).await {
            Ok(line) => line.split(' ').nth(1).unwrap_or_default().to_owned(),
            Err(error) if error.to_string().contains("closed") => "closed".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        let fits = match expected[which] {
            REFUSED => !["200", "400"].contains(&said.as_str()),
            status => said == status,
        };
        ensure!(
            fits,
            "{what}: got {said}, not {}; {}",
            expected[which],
            rig.gateway.name
        );
        all.push(said);
    }
    Ok(all)
}

/// All answers, for the table.
fn told(said: &[Vec<String>]) -> String {
    let rows = TRIES.iter().enumerate().map(|(at, (what, ..))| {
        let answers: Vec<&str> = said.iter().map(|answers| answers[at].as_str()).collect();
        format!("{what}: {}", answers.join(" / "))
    });
    rows.collect::<Vec<_>>().join("; ")
}

/// A gateway beside the one that is used, with another annotation.
async fn gateway_with(rig: &mut Rig, annotation: &str) -> anyhow::Result<Pod> {
    let mut template = template(&rig.east).await?;
    template["metadata"]["annotations"][ADDITIONAL_ENV] = json!(annotation);
    let template = PodTemplate {
        namespace: EXTENSION.to_owned(),
        name: rig.next_gateway(),
        template,
        own: &[],
    };
    Pod::start(&mut rig.east, template, &[]).await
}

/// Replaces the gateway's Pod by one of the present template, as Kubernetes does: the new one is ready before the old one
/// gets no new connections, and only then it ends.
pub(super) async fn replace(rig: &mut Rig, balancer: &Balancer) -> anyhow::Result<()> {
    let next = rig.start_gateway().await?;
    take_over(rig, balancer, next).await
}

async fn take_over(rig: &mut Rig, balancer: &Balancer, next: Pod) -> anyhow::Result<()> {
    balancer.lead_to(next.address)?;
    let mut old = std::mem::replace(&mut rig.gateway, next);
    old.delete().await?;
    block_in_place(|| old.proxy.terminate())
}

/// Exports a Service in a namespace that had none. Returns what happened when.
async fn first_export(rig: &mut Rig, balancer: &Balancer) -> anyhow::Result<String> {
    let began = Instant::now();
    export(rig, SHOP, "new", Some("true")).await?;
    let services = rig.west.services(SHOP);
    let address = eventually("the mirror of shop/new", SOON, async || {
        Ok(services
            .get_opt("new-east")
            .await?
            .and_then(|found| address_of(&found)))
    })
    .await?;
    let mirrored = began.elapsed();
    let target = Target {
        name: "new-east".to_owned(),
        address: (address, PORT).into(),
        host: "new-east.shop.svc.cluster.local".to_owned(),
    };
    let early = rig.source.client.get(target.address, &target.host).await?;
    let status = reason_of(&rig.link_object().await?, "new");
    forwards_to(&rig.east, |to| {
        to == "app.svc.cluster.local.,shop.svc.cluster.local."
    })
    .await?;
    let written = began.elapsed();
    replace(rig, balancer).await?;
    let replaced = began.elapsed();
    until_answered(&rig.source.client, &target).await?;
    Ok(format!(
        "mirror after {}, when the status says {}, and a request gets {} ({}); written after {}, the new Pod takes over \
         after {}, first answer after {}",
        seconds(mirrored),
        status.unwrap_or_default(),
        early.status,
        early.error.unwrap_or_default(),
        seconds(written),
        seconds(replaced),
        seconds(began.elapsed())
    ))
}

/// The latency through the gateway and its memory, with few and with many namespaces.
async fn cost(rig: &mut Rig, balancer: &Balancer, target: &Target) -> anyhow::Result<String> {
    let mut all = Vec::new();
    for number in [2, MANY] {
        let mut suffixes = vec!["app.svc.cluster.local.".to_owned()];
        suffixes.extend((1..number).map(|number| format!("namespace-{number}.svc.cluster.local.")));
        let value = json!([{ "name": SUFFIXES, "value": suffixes.join(",") }]);
        let next = gateway_with(rig, &value.to_string()).await?;
        take_over(rig, balancer, next).await?;
        until_answered(&rig.source.client, target).await?;
        sleep(FORGOTTEN).await;
        until_answered(&rig.source.client, target).await?;
        all.push(format!(
            "{number} namespaces: {}",
            latency(rig, target).await?
        ));
    }
    Ok(all.join("; "))
}

/// The latency of requests to a mirror, one after another, and the memory of the gateway's proxy.
pub(super) async fn latency(rig: &Rig, target: &Target) -> anyhow::Result<String> {
    let mut times = Vec::new();
    for _ in 0..ASKED {
        let answer = rig.source.client.get(target.address, &target.host).await?;
        ensure!(answer.status == 200, "{answer:?}");
        times.push(answer.took);
    }
    let status = fs::read_to_string(format!("/proc/{}/status", rig.gateway.proxy.pid()))?;
    let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let [half, most] = [50, 99].map(|percent| percentile(&mut times, percent));
    Ok(format!(
        "p50 {:.1} ms, p99 {:.1} ms, memory {}",
        half.as_secs_f64() * 1e3,
        most.as_secs_f64() * 1e3,
        memory.unwrap_or_default().trim()
    ))
}
