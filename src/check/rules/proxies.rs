//! Checks of Linkerd itself: the proxies of the extension, and whether Linkerd reads what we write.

use serde_json::Value;

use super::rule::Verdict;
use crate::{
    api::{
        link::{LinkerdConfig, NO_ENDPOINT_SLICES, READ_ENDPOINT_SLICES},
        metadata::ResourceId,
    },
    clusters::{
        snapshot::{FullSnapshot, MeshedPod},
        trust_anchors,
        workloads::tag,
    },
};

/// Reasons of pods that have ended.
const GONE: [&str; 4] = ["Completed", "NodeShutdown", "Shutdown", "Terminated"];

pub(super) fn endpoint_slices(snapshot: &FullSnapshot) -> Verdict {
    match &snapshot.cluster.config {
        Err(why) => Verdict::fail(format!("cannot read linkerd-config: {why}")),
        Ok(config) if config.reads_endpoint_slices() => Verdict::Pass,
        Ok(_) => Verdict::fail(format!("{NO_ENDPOINT_SLICES}\n{READ_ENDPOINT_SLICES}")),
    }
}

pub(super) fn healthy(snapshot: &FullSnapshot) -> Verdict {
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
    let problems = pods.into_iter().filter_map(|pod| {
        let id = &pod.id;
        if pod.phase != "Running" && pod.reason != "Evicted" {
            return Some(format!("pod {id} is {}", pod.phase));
        }
        let Some(proxy) = &pod.proxy else {
            return Some(format!("pod {id} has no proxy"));
        };
        if !proxy.ready {
            return Some(format!("the proxy of pod {id} is not ready"));
        }
        let own = proxy.trust_anchors.as_deref().map(trust_anchors::parse);
        match (own, &roots) {
            (Some(own), Some(roots)) if own.as_ref() != Ok(roots) => Some(format!(
                "the trust anchors of the proxy of pod {id} differ from those of the control plane; restart the pod with \
                 `{}`",
                restart(id)
            )),
            _ => None,
        }
    });
    Verdict::of(problems.collect())
}

pub(super) fn up_to_date(snapshot: &FullSnapshot) -> Verdict {
    let (Ok(config), Ok(pods)) = (&snapshot.cluster.config, &snapshot.pods) else {
        return Verdict::Skip;
    };
    let Some(expected) = proxy_version(config) else {
        return Verdict::Skip;
    };
    let problems = pods.iter().filter(|pod| pod.phase == "Running").filter_map(|pod| {
        let image = &pod.proxy.as_ref()?.image;
        let found = tag(image)?;
        (found != expected).then(|| {
            format!(
                "the proxy of pod {} is {found}, but the control plane's is {expected}; restart the pod with `{}`",
                pod.id,
                restart(&pod.id)
            )
        })
    });
    Verdict::of(problems.collect())
}

/// Its Deployment creates another.
fn restart(pod: &ResourceId) -> String {
    format!("kubectl -n {} delete pod {}", pod.namespace, pod.name)
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

fn is_gone(pod: &MeshedPod) -> bool {
    pod.phase == "Succeeded" || GONE.contains(&pod.reason.as_str())
}
