//! The Pod that calls, and its proxy.

use hints::suggest::Suggested;

use super::{
    causes::{Cause, Layer},
    context::PathContext,
    layer::{Finding, Impact, LayerReport},
};
use crate::clusters::{request_path::ClientPod, skipped_ports::SkippedBy, trust_anchors};

/// The annotation that lets ports bypass the proxy.
const SKIP_OUTBOUND: &str = "config.linkerd.io/skip-outbound-ports";

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
    trust_roots(way, pod, &mut report);
    report
}

/// The Pod is being deleted. While its proxy is ready, requests are still answered.
fn terminating(way: &PathContext<'_>, pod: &ClientPod, is_ready: bool) -> Finding {
    let id = &pod.state.id;
    let (impact, proxy) = if is_ready {
        (Impact::Degraded, "still runs")
    } else {
        (Impact::Broken, "does not answer")
    };
    let evidence = format!("Pod {id} is being deleted, and its proxy {proxy}");
    let pods = way
        .commands
        .source
        .kubectl("-n {} get pods", &[&id.namespace]);
    Finding::new(Cause::ClientTerminating, impact, evidence).fixed_by(&pods)
}

fn not_injected(way: &PathContext<'_>, pod: &ClientPod) -> Finding {
    let id = &pod.state.id;
    let source = &way.commands.source;
    let evidence = format!("Pod {id} has no container linkerd-proxy");
    let finding = Finding::broken(Cause::NotInjected, evidence);
    let finding = finding.fixed_by(&source.kubectl(
        "annotate namespace {} linkerd.io/inject=enabled --overwrite",
        &[&id.namespace],
    ));
    finding.fixed_by(&restart(way, pod))
}

/// The command that restarts the Pod.
fn restart(way: &PathContext<'_>, pod: &ClientPod) -> Suggested {
    let id = &pod.state.id;
    let source = &way.commands.source;
    match &pod.state.workload {
        Some(workload) => source.kubectl("-n {} rollout restart {}", &[&id.namespace, workload]),
        None => source.kubectl("-n {} get pods {}", &[&id.namespace, &id.name]),
    }
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
        format!("its annotation {SKIP_OUTBOUND}")
    } else if by == SkippedBy::ControlPlane {
        "proxyInit.ignoreOutboundPorts of Linkerd".to_owned()
    } else {
        "the arguments of its container linkerd-init".to_owned()
    };
    let evidence = format!("Pod {id} sends connections to port {port} past its proxy: {name}");
    let finding = Finding::broken(Cause::OutboundPortSkipped, evidence);
    let source = &way.commands.source;
    Some(match &pod.state.workload {
        Some(workload) if is_annotated => finding.fixed_by(&source.kubectl(
            "-n {} patch {} --type=json -p {}",
            &[
                &id.namespace,
                workload,
                r#"[{"op":"remove","path":"/spec/template/metadata/annotations/config.linkerd.io~1skip-outbound-ports"}]"#,
            ],
        )),
        // The annotation counts more than the ports of the control plane.
        Some(workload) => {
            finding.fixed_by(&source.kubectl("-n {} edit {}", &[&id.namespace, workload]))
        }
        None => finding.fixed_by(&source.kubectl("-n {} edit pods {}", &[&id.namespace, &id.name])),
    })
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
    report.find(Some(finding.fixed_by(&restart(way, pod))));
}
