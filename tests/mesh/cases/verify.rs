//! `verify` between the clusters of the rig, with Linkerd's injector and real proxies.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::exported::{balanced, replace};
use crate::{
    rig::{Rig, balancer::Balancer, cluster::EXTENSION, exports::template, kubelet::Kubelet},
    table::Row,
};

/// The namespace of the canaries.
const NAMESPACE: &str = "linkerd-mc-verify";
/// How long a run may take.
const LIMIT: Duration = Duration::from_secs(90);

/// Does for a gateway that forwards only what is exported what the Deployment controller does: replaces its Pod.
struct Rollouts {
    balancer: Balancer,
    annotations: Value,
}

impl Rollouts {
    async fn start(rig: &Rig) -> anyhow::Result<Self> {
        Ok(Self {
            balancer: balanced(rig).await?,
            annotations: annotations(rig).await?,
        })
    }

    async fn follow(&mut self, rig: &mut Rig) -> anyhow::Result<()> {
        let annotations = annotations(rig).await?;
        if annotations != self.annotations {
            replace(rig, &self.balancer).await?;
            self.annotations = annotations;
        }
        Ok(())
    }
}

/// The annotations of the gateway's Pods, as the Deployment has them.
async fn annotations(rig: &Rig) -> anyhow::Result<Value> {
    Ok(template(&rig.east).await?["metadata"]["annotations"].take())
}

/// Each mode is verified within the limit, with the right identities, and a drill; nothing is left, also after the run that
/// follows one that was killed.
pub(super) async fn with_canaries(rig: &mut Rig) -> anyhow::Result<Row> {
    let mut kubelet = Kubelet::start(rig, NAMESPACE).await?;
    let mut rollouts = if rig.is_strict() {
        Some(Rollouts::start(rig).await?)
    } else {
        None
    };
    let mut also = async |rig: &mut Rig| match &mut rollouts {
        Some(rollouts) => rollouts.follow(rig).await,
        None => Ok(()),
    };
    let whole = verified(rig, &mut kubelet, &mut also).await?;
    // The names of Pods are used again.
    let killed = "linkerd-mc verify --source west --target east & verify=$!; \
        for _ in $(seq 600); do kubectl --context east -n linkerd-mc-verify get pod canary && break; sleep 0.1; done; \
        kill -KILL $verify";
    kubelet.shell(rig, killed, &mut also).await?;
    let again = verified(rig, &mut kubelet, &mut also).await?;
    if rollouts.is_some() {
        rig.name_gateway(rig.gateway.address);
        rig.link().await?;
    }
    Ok(Row {
        requests: 0,
        failed: 0,
        oracle: "-".to_owned(),
        measured: format!("{whole}; again after `kill -9`: {again}"),
    })
}

/// Runs the command, checks the report, and returns the times in it.
async fn verified(
    rig: &mut Rig,
    kubelet: &mut Kubelet,
    also: impl AsyncFnMut(&mut Rig) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let began = Instant::now();
    let command = "linkerd-mc verify --source west --target east -o json";
    let printed = kubelet.shell(rig, command, also).await?;
    let took = began.elapsed();
    ensure!(took < LIMIT, "it took {took:?}");
    let report: Value = serde_json::from_str(&printed).context("a strange report")?;
    ensure!(report["success"] == true, "{report:#}");
    let of = |mode: &str, step: &str| -> anyhow::Result<&Value> {
        let mut steps = report["steps"].as_array().into_iter().flatten();
        let found = steps.find(|found| found["mode"] == mode && found["step"] == step);
        found.with_context(|| format!("no step {mode} {step}: {report:#}"))
    };
    let client = rig.west.identity_of("default", NAMESPACE);
    let gateway = rig.east.identity_of("linkerd-gateway", EXTENSION);
    let mut times = Vec::new();
    for (mode, identity) in [
        ("gateway", &gateway),
        ("remote-discovery", &client),
        ("federated", &client),
    ] {
        let seen = &of(mode, "identity")?["detail"];
        ensure!(seen == identity.as_str(), "{mode}: {seen}, not {identity}");
        let (mirror, request) = (of(mode, "mirror")?, of(mode, "request")?);
        times.push(format!(
            "{mode} mirrored {} ms, answered {} ms",
            mirror["milliseconds"], request["milliseconds"]
        ));
    }
    for cluster in [&rig.west, &rig.east] {
        let names = cluster.plane.kubectl(&["get", "namespaces", "-o", "name"]);
        let names = names.await?;
        ensure!(!names.contains(NAMESPACE), "{} has {names}", cluster.name());
    }
    times.push(format!("all in {:.0} s", took.as_secs_f32()));
    Ok(times.join(", "))
}
