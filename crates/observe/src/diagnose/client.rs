//! The Pod that calls, and its proxy.

use super::{context::PathContext, layer::LayerReport};
use crate::{
    clusters::{
        request_path::ClientPod,
        skipped_ports::{SkippedBy, SkippedPorts, SkippedSubnets},
        trust_anchors,
    },
    finding::{
        Finding, Level,
        causes::{Cause, Layer},
    },
};

/// The annotation that lets ports bypass the proxy.
const SKIP_OUTBOUND: &str = "config.linkerd.io/skip-outbound-ports";
/// The annotation that lets subnets bypass the proxy.
const SKIP_SUBNETS: &str = "config.linkerd.io/skip-subnets";
/// The annotation that asks for a proxy.
const INJECT: &str = "linkerd.io/inject";

pub fn judge(way: &PathContext<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Client);
    let pod = match &way.facts.client {
        None => {
            report.cannot_see("the calling Pod", "none was named; pass --from POD");
            return report;
        }
        Some(Err(why)) => {
            report.cannot_see("the calling Pod", why);
            return report;
        }
        Some(Ok(pod)) => pod,
    };
    let id = &pod.state.id;
    if ["Succeeded", "Failed", "Pending"].contains(&pod.state.phase.as_str()) {
        let evidence = format!("Pod {id} is {}", pod.state.phase);
        let pods = way
            .commands
            .source
            .kubectl("-n {} get pods", &[&id.namespace]);
        report.find(Some(
            Finding::broken(Cause::ClientNotRunning, evidence).fixed_by(&pods),
        ));
        return report;
    }
    let Some(proxy) = &pod.proxy else {
        report.find(Some(not_injected(way, pod)));
        return report;
    };
    // What the proxy says itself counts more: a Pod that terminates is not ready, and its proxy may be.
    let is_ready = match &way.facts.proxy {
        Some(Ok(said)) => said.ready,
        Some(Err(_)) | None => proxy.ready || pod.state.ready,
    };
    if pod.state.terminating {
        let stays = is_ready && !matches!(way.facts.proxy, Some(Err(_)));
        report.find(Some(terminating(way, pod, stays)));
        if !stays {
            return report;
        }
    }
    if !is_ready {
        let evidence = format!("container linkerd-proxy of Pod {id} is not ready");
        let logs = way.commands.source.kubectl(
            "-n {} logs {} -c linkerd-proxy --tail=20",
            &[&id.namespace, &id.name],
        );
        report.find(Some(
            Finding::broken(Cause::ProxyNotReady, evidence).fixed_by(&logs),
        ));
        return report;
    }
    report.see(format!("Pod {id} has a proxy"));
    report.find(skipped(way, pod));
    report.find(skipped_subnet(way, pod));
    trust_roots(way, pod, &mut report);
    report
}

/// The Pod is being deleted. While its proxy is ready, requests are still answered.
fn terminating(way: &PathContext<'_>, pod: &ClientPod, is_ready: bool) -> Finding {
    let id = &pod.state.id;
    let (level, proxy) = if is_ready {
        (Level::Warning, "still runs")
    } else {
        (Level::Error, "does not answer")
    };
    let evidence = format!("Pod {id} is being deleted, and its proxy {proxy}");
    let pods = way
        .commands
        .source
        .kubectl("-n {} get pods", &[&id.namespace]);
    Finding::new(Cause::ClientTerminating, level, evidence).fixed_by(&pods)
}

fn not_injected(way: &PathContext<'_>, pod: &ClientPod) -> Finding {
    let id = &pod.state.id;
    let source = &way.commands.source;
    let evidence = format!("Pod {id} has no container linkerd-proxy");
    let found = Finding::broken(Cause::NotInjected, evidence);
    found.fixed_by_annotation(source, &pod.state, (INJECT, "enabled"))
}

/// The port bypasses the proxy.
fn skipped(way: &PathContext<'_>, pod: &ClientPod) -> Option<Finding> {
    let port = way.facts.port?;
    let config = way.facts.source.config.as_ref().ok();
    let by = SkippedBy::of(pod.skipped.as_ref(), config, port)?;
    let id = &pod.state.id;
    let is_annotated = pod
        .annotated
        .as_ref()
        .is_some_and(|ports| ports.contains(port));
    let name = if is_annotated {
        format!("its annotation {SKIP_OUTBOUND}, or that of its namespace")
    } else if by == SkippedBy::ControlPlane {
        "proxyInit.ignoreOutboundPorts of Linkerd".to_owned()
    } else {
        "the arguments of its container linkerd-init".to_owned()
    };
    let evidence = format!("Pod {id} sends connections to port {port} past its proxy: {name}");
    let found = Finding::broken(Cause::OutboundPortSkipped, evidence);
    // The annotation of the workload counts more than that of its namespace, and than the ports of the control plane.
    let of_linkerd = || config.and_then(SkippedPorts::of_control_plane);
    let left = pod.skipped.clone().or_else(of_linkerd)?.without(port);
    let source = &way.commands.source;
    Some(found.fixed_by_annotation(source, &pod.state, (SKIP_OUTBOUND, &left.0)))
}

/// The ClusterIP of the Service bypasses the proxy.
fn skipped_subnet(way: &PathContext<'_>, pod: &ClientPod) -> Option<Finding> {
    let config = way.facts.source.config.as_ref().ok();
    let of_linkerd = || config.and_then(SkippedSubnets::of_control_plane);
    let subnets = pod.subnets.clone().or_else(of_linkerd)?;
    let address = way.subject.service()?.spec.cluster_ip.as_deref()?;
    let address = address.parse().ok()?;
    let subnet = subnets.containing(address)?;
    let evidence = format!(
        "Pod {} sends connections to {subnet} past its proxy, and {} has the ClusterIP {address}",
        pod.state.id, way.facts.service
    );
    let found = Finding::broken(Cause::OutboundSubnetSkipped, evidence);
    let (source, left) = (&way.commands.source, subnets.without(address));
    Some(found.fixed_by_annotation(source, &pod.state, (SKIP_SUBNETS, &left.0)))
}

/// Compares the trust anchors of the proxy with those of its cluster.
fn trust_roots(way: &PathContext<'_>, pod: &ClientPod, report: &mut LayerReport) {
    let own = pod
        .proxy
        .as_ref()
        .and_then(|proxy| proxy.trust_anchors.as_deref());
    let Some(Ok(own)) = own.map(trust_anchors::parse) else {
        return; // They come from a ConfigMap, which is the cluster's.
    };
    let config = match &way.facts.source.config {
        Ok(config) => config,
        Err(why) => return report.cannot_see("Linkerd's trust anchors", why),
    };
    let Ok(of_cluster) = trust_anchors::parse(&config.identity_trust_anchors_pem) else {
        return;
    };
    let missing: Vec<String> = of_cluster
        .difference(&own)
        .map(|der| trust_anchors::describe(der))
        .collect();
    if missing.is_empty() {
        report.see("its proxy has the trust anchors of its cluster");
        return;
    }
    let evidence = format!(
        "the proxy of Pod {} does not trust {}, which its cluster does",
        pod.state.id,
        missing.join(", ")
    );
    let finding = if own.is_disjoint(&of_cluster) {
        Finding::broken(Cause::ClientTrustRootsDiffer, evidence)
    } else {
        Finding::degraded(Cause::ClientTrustRootsDiffer, evidence)
    };
    report.find(Some(
        finding.fixed_by_restart(&way.commands.source, &pod.state),
    ));
}
