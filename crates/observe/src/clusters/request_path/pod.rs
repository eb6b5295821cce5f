//! Pods → what matters of them for a request. Pure.

use k8s_openapi::api::core::v1::Pod;
use mirror_core::api::metadata::ResourceId;

use super::facts::{ClientPod, PodState};
use crate::{
    clusters::{
        skipped_ports::SkippedPorts,
        snapshot::label,
        workloads::{SKIP, meshed_pod, skipped_subnets},
    },
    timeline::history,
};

/// Label of Pods of a Deployment: the end of the name of their `ReplicaSet`.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// Whether a Pod is ready, and where it is.
pub fn state(pod: &Pod) -> PodState {
    let status = pod.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let is_ready = conditions.any(|c| c.type_ == "Ready" && c.status == "True");
    let terminating = pod.metadata.deletion_timestamp.is_some();
    PodState {
        id: ResourceId::of(pod),
        phase: status.and_then(|s| s.phase.clone()).unwrap_or_default(),
        ready: is_ready && !terminating,
        terminating,
        workload: workload(pod),
        address: status.and_then(|status| status.pod_ip.as_ref()?.parse().ok()),
        history: history("Pod", pod),
    }
}

/// The Pod of a caller.
pub fn client(pod: &Pod) -> ClientPod {
    let meshed = meshed_pod(pod);
    let annotations = pod.metadata.annotations.as_ref();
    let annotated = annotations.and_then(|all| all.get(SKIP).cloned());
    let spec = pod.spec.as_ref();
    let account = spec.and_then(|spec| spec.service_account_name.clone());
    ClientPod {
        state: state(pod),
        node: spec
            .and_then(|spec| spec.node_name.clone())
            .unwrap_or_default(),
        account: account.unwrap_or_else(|| "default".to_owned()),
        proxy: meshed.proxy,
        skipped: meshed.skipped_ports,
        annotated: annotated.map(SkippedPorts),
        subnets: skipped_subnets(pod),
    }
}

/// The workload that has the template of a Pod.
fn workload(pod: &Pod) -> Option<String> {
    let mut owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    let hash = label(&pod.metadata, TEMPLATE_HASH);
    let of_deployment = owner.name.strip_suffix(hash);
    let of_deployment = of_deployment.and_then(|rest| rest.strip_suffix('-'));
    Some(match of_deployment {
        Some(name) if owner.kind == "ReplicaSet" && !hash.is_empty() => {
            format!("deployment/{name}")
        }
        _ => format!("{}/{}", owner.kind.to_ascii_lowercase(), owner.name),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn client_is_known_by_its_workload_its_proxy_and_the_ports_that_bypass_it() {
        let pod = json!({
            "metadata": {
                "namespace": "shop", "name": "client-5d4-x",
                "labels": { TEMPLATE_HASH: "5d4" },
                "annotations": { SKIP: "80" },
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "client-5d4", "uid": "u", "controller": true,
                }],
            },
            "spec": {
                "nodeName": "node-1", "serviceAccountName": "cart",
                "containers": [{ "name": "linkerd-proxy", "image": "proxy:1" }],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.7",
                "conditions": [{ "type": "Ready", "status": "True" }],
            },
        });
        let found = client(&serde_json::from_value(pod.clone()).unwrap());
        assert_eq!(found.state.workload.as_deref(), Some("deployment/client"));
        assert!(found.proxy.is_some() && found.state.ready);
        assert_eq!((&*found.node, &*found.account), ("node-1", "cart"));
        assert_eq!(found.state.address, Some("10.0.0.7".parse().unwrap()));
        assert_eq!(found.annotated, Some(SkippedPorts("80".to_owned())));
        assert_eq!(found.skipped, found.annotated);

        let mut other = pod;
        other["metadata"]["ownerReferences"][0]["kind"] = json!("StatefulSet");
        other["metadata"]["ownerReferences"][0]["name"] = json!("db");
        other["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let found = client(&serde_json::from_value(other).unwrap());
        assert_eq!(found.state.workload.as_deref(), Some("statefulset/db"));
        assert!(!found.state.ready && found.state.terminating);
        let bare = client(&Pod::default());
        assert_eq!(bare.account, "default");
        assert_eq!(
            (bare.state.workload, bare.proxy, bare.skipped),
            (None, None, None)
        );
    }
}
