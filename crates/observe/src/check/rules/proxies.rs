//! Checks of Linkerd itself: the proxies of the extension, and whether Linkerd reads what we write.

use mirror_core::{
    api::{
        labels::COMPONENT_CONTROLLER,
        link::{LinkerdConfig, NO_ENDPOINT_SLICES},
        metadata::ResourceId,
    },
    mirror::{API_SERVER_PORT, is_through_gateway},
};
use serde_json::Value;

use super::rule::Verdict;
use crate::{
    clusters::{
        skipped_ports::SkippedBy,
        snapshot::{FullSnapshot, MeshedPod},
        trust_anchors,
        workloads::tag,
    },
    finding::Finding,
};

/// Reasons of pods that have ended.
const GONE: [&str; 4] = ["Completed", "NodeShutdown", "Shutdown", "Terminated"];

pub fn endpoint_slices(snapshot: &FullSnapshot) -> Verdict {
    match &snapshot.cluster.config {
        Err(why) => Verdict::fail(format!("cannot read linkerd-config: {why}")),
        Ok(config) if config.reads_endpoint_slices() => Verdict::Pass,
        Ok(_) => {
            let upgrade = snapshot.cluster.flags.read_endpoint_slices();
            let what = format!("{NO_ENDPOINT_SLICES}; turn it on");
            Verdict::fail(Finding::from(what).fixed_by(&upgrade))
        }
    }
}

pub fn healthy(snapshot: &FullSnapshot) -> Verdict {
    let pods = match &snapshot.pods {
        Err(why) => return Verdict::fail(format!("cannot list pods: {why}")),
        Ok(pods) => pods,
    };
    let pods: Vec<_> = pods.iter().filter(|pod| !is_gone(pod)).collect();
    if pods.is_empty() {
        return Verdict::fail("no pod of the extension has a proxy");
    }
    let roots = match &snapshot.trust_roots {
        Ok(Some(pem)) => trust_anchors::parse(pem).ok(),
        _ => None,
    };
    let problems = pods.into_iter().filter_map(|pod| -> Option<Finding> {
        let id = &pod.id;
        if pod.phase != "Running" && pod.reason != "Evicted" {
            return Some(format!("pod {id} is {}", pod.phase).into());
        }
        let Some(proxy) = &pod.proxy else {
            return Some(format!("pod {id} has no proxy").into());
        };
        if !proxy.ready {
            return Some(format!("the proxy of pod {id} is not ready").into());
        }
        let own = proxy.trust_anchors.as_deref().map(trust_anchors::parse);
        match (own, &roots) {
            (Some(own), Some(roots)) if own.as_ref() != Ok(roots) => {
                let what = format!(
                    "the trust anchors of the proxy of pod {id} differ from those of the control plane;"
                );
                Some(with_restart(snapshot, id, &what))
            }
            _ => None,
        }
    });
    Verdict::of(problems.collect())
}

pub fn up_to_date(snapshot: &FullSnapshot) -> Verdict {
    let (Ok(config), Ok(pods)) = (&snapshot.cluster.config, &snapshot.pods) else {
        return Verdict::Skip;
    };
    let Some(expected) = proxy_version(config) else {
        return Verdict::Skip;
    };
    let problems = pods
        .iter()
        .filter(|pod| pod.phase == "Running")
        .filter_map(|pod| {
            let image = &pod.proxy.as_ref()?.image;
            let found = tag(image)?;
            (found != expected).then(|| {
                let what = format!(
                    "the proxy of pod {} is {found}, but the control plane's is {expected};",
                    pod.id
                );
                with_restart(snapshot, &pod.id, &what)
            })
        });
    Verdict::of(problems.collect())
}

/// A problem, and the command that restarts the Pod: it deletes the Pod, and the Deployment creates another.
fn with_restart(snapshot: &FullSnapshot, pod: &ResourceId, what: &str) -> Finding {
    let flags = &snapshot.cluster.flags;
    let restart = flags.kubectl("-n {} delete pod {}", &[&pod.namespace, &pod.name]);
    Finding::from(format!("{what} restart the pod")).fixed_by(&restart)
}

/// Links whose API server the controller reaches through the gateway need a proxy that its connections pass.
pub fn way_to_gateways(snapshot: &FullSnapshot) -> Verdict {
    if snapshot.links().is_empty() {
        return Verdict::Skip;
    }
    let links = snapshot.links().iter();
    let through: Vec<_> = links
        .filter(|link| is_through_gateway(&link.link))
        .collect();
    if through.is_empty() {
        return Verdict::Pass;
    }
    let Ok(pods) = &snapshot.pods else {
        return Verdict::Skip;
    };
    let clusters: Vec<_> = through.iter().map(|link| link.cluster()).collect();
    let clusters = clusters.join(", ");
    let so = format!("so the controller cannot reach API servers behind gateways ({clusters})");
    let mut ours = pods.iter().filter(|pod| is_controller(pod)).peekable();
    if ours.peek().is_none() {
        // A Pod that Linkerd has not injected is not among the meshed ones. Another rule reports one that does not run.
        let runs = snapshot.controller().is_some_and(|ours| ours.available > 0);
        return if runs {
            let what = format!("no pod of the controller is meshed, {so}");
            Verdict::fail(without_proxy(snapshot, &what))
        } else {
            Verdict::Pass
        };
    }
    let problems = ours.filter_map(|pod| {
        let id = &pod.id;
        if pod.proxy.is_none() {
            let what = format!("pod {id} has no proxy, {so}");
            return Some(without_proxy(snapshot, &what));
        }
        let set = skip_of(pod, snapshot)?;
        let what = format!(
            "pod {id} skips its proxy on outbound port {API_SERVER_PORT}, {so}; remove this port from {set}, and"
        );
        Some(with_restart(snapshot, id, &what))
    });
    Verdict::of(problems.collect())
}

/// A problem of a controller without a proxy, and how to give it one.
fn without_proxy(snapshot: &FullSnapshot, what: &str) -> Finding {
    let what =
        format!("{what}; annotate its Namespace with linkerd.io/inject=enabled, and restart it");
    let Some(controller) = snapshot.controller() else {
        return what.into();
    };
    let ResourceId { namespace, name } = &controller.id;
    let flags = &snapshot.cluster.flags;
    let restart = flags.kubectl("-n {} rollout restart deployment/{}", &[namespace, name]);
    Finding::from(what).fixed_by(&restart)
}

/// Whether this is a running Pod of the controller.
fn is_controller(pod: &MeshedPod) -> bool {
    pod.component == COMPONENT_CONTROLLER && pod.phase == "Running" && !is_gone(pod)
}

/// The setting because of which a Pod's connections to API servers skip its proxy, if they do.
fn skip_of(pod: &MeshedPod, snapshot: &FullSnapshot) -> Option<&'static str> {
    let config = snapshot.cluster.config.as_ref().ok();
    let by = SkippedBy::of(pod.skipped_ports.as_ref(), config, API_SERVER_PORT)?;
    Some(match by {
        SkippedBy::ControlPlane => "proxyInit.ignoreOutboundPorts of Linkerd",
        SkippedBy::Pod => "the annotation config.linkerd.io/skip-outbound-ports",
    })
}

/// Version of the proxies that the control plane injects.
fn proxy_version(config: &LinkerdConfig) -> Option<&str> {
    let proxy = config
        .rest
        .get("proxy")
        .and_then(|proxy| proxy.pointer("/image/version"));
    [proxy, config.rest.get("linkerdVersion")]
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .find(|version| !version.is_empty())
}

pub fn is_gone(pod: &MeshedPod) -> bool {
    pod.phase == "Succeeded" || GONE.contains(&pod.reason.as_str())
}
