//! What the proxy of the calling Pod counts.

use super::{
    causes::{Cause, Layer},
    context::PathContext,
    layer::{Finding, LayerReport},
    subject::Mode,
};
use crate::clusters::request_path::ClientProxy;

pub(super) fn judge(way: &PathContext<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Answers);
    let proxy = match &way.facts.proxy {
        None => {
            report.cannot_see(
                "the proxy of the calling Pod",
                "no Pod was named; pass --from POD",
            );
            return report;
        }
        Some(Err(why)) => {
            report.cannot_see("the proxy of the calling Pod", why);
            return report;
        }
        Some(Ok(proxy)) => proxy,
    };
    refused(way, proxy, &mut report);
    endpoints(way, proxy, &mut report);
    answers(proxy, &mut report);
    report
}

/// Connections that the proxy refuses, because the Service did not declare the port when they began. Earlier layers know
/// that it declares the port now.
fn refused(way: &PathContext<'_>, proxy: &ClientProxy, report: &mut LayerReport) {
    let (now, all) = (proxy.refused_now(), proxy.after.undefined);
    if now > 0.0 {
        let evidence = format!(
            "its proxy refused {now} connections just now, because the port was not declared when they began; it is now"
        );
        report.find(Some(
            Finding::broken(Cause::PortRefusalKept, evidence).fixed_by(&restart(way)),
        ));
    } else if all > 0.0 {
        report.see(format!(
            "its proxy has refused {all} connections while the port was not declared, none of them now"
        ));
    }
}

/// The endpoints to which the proxy is connected.
fn endpoints(way: &PathContext<'_>, proxy: &ClientProxy, report: &mut LayerReport) {
    let (ready, pending) = (proxy.after.ready, proxy.after.pending);
    if pending == 0.0 || ready > 0.0 {
        if ready > 0.0 {
            report.see(format!(
                "its proxy is connected to {ready} of {} endpoints",
                ready + pending
            ));
        }
        return;
    }
    let evidence =
        format!("its proxy knows {pending} endpoints of the Service, and cannot connect to any");
    let Some(mode) = way.subject.mode() else {
        return;
    };
    let clusters = way.subject.remotes();
    let found = match (mode, clusters.as_slice()) {
        // The network and the trust anchors were judged with a look into the target cluster.
        (Mode::Gateway, [(cluster, _)]) if way.facts.target_of(cluster).is_some() => {
            let link = way.facts.link_to(cluster);
            let port = link
                .map(|link| link.link.spec.gateway_port.clone())
                .unwrap_or_default();
            let namespace = link
                .map(|link| link.namespace().to_owned())
                .unwrap_or_default();
            let evidence = format!("{evidence}: port {port} of the gateway");
            Finding::broken(Cause::GatewayPortClosed, evidence).fixed_in(
                way.commands,
                cluster,
                |flags| flags.kubectl("-n {} get pods,services", &[&namespace]),
            )
        }
        _ => Finding::broken(Cause::ConnectionFailed, evidence).fixed_by(&logs(way)),
    };
    report.find(Some(found));
}

/// The answers of this moment.
fn answers(proxy: &ClientProxy, report: &mut LayerReport) {
    let counted = proxy.answers_now();
    if counted.is_empty() {
        report.cannot_see("answers", "the Pod sent no request to this port meanwhile");
        return;
    }
    for ((status, error), count) in counted {
        let error = match error.as_str() {
            "" => String::new(),
            error => format!(" ({error})"),
        };
        report.see(format!(
            "{count} answers with status {status}{error} just now"
        ));
    }
}

fn restart(way: &PathContext<'_>) -> crate::suggest::Suggested {
    let pod = way.client();
    let source = &way.commands.source;
    let namespace = pod.map_or(&way.facts.service.namespace, |pod| &pod.state.id.namespace);
    match pod.and_then(|pod| pod.state.workload.as_ref()) {
        Some(workload) => source.kubectl("-n {} rollout restart {}", &[namespace, workload]),
        None => source.kubectl("-n {} get pods", &[namespace]),
    }
}

fn logs(way: &PathContext<'_>) -> crate::suggest::Suggested {
    let pod = way.client();
    let id = pod.map(|pod| pod.state.id.clone()).unwrap_or_default();
    way.commands.source.kubectl(
        "-n {} logs {} -c linkerd-proxy --tail=20",
        &[&id.namespace, &id.name],
    )
}
