//! Why no controller runs for the Links of a namespace. Reads only.

use client::Cluster;
use hints::suggest::ClusterFlags;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, api::ListParams};
use mirror_core::api::labels::CONTROLLER_NAME;

use super::{leader::pods, workloads::container_statuses};
use crate::finding::{Finding, causes::Cause};

/// Why no controller runs in a namespace, and what to do; `None` if one is available, or if that could not be read.
pub async fn not_running(cluster: &Cluster, namespace: &str) -> Option<Finding> {
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), namespace);
    let deployment = deployments.get_opt(CONTROLLER_NAME).await.ok()?;
    let own: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let of_controller = ListParams::default().labels("component=controller");
    let found = own.list(&of_controller).await;
    let found = found.map(|list| list.items).unwrap_or_default();
    judge(namespace, deployment.as_ref(), &found, &cluster.flags)
}

fn judge(
    namespace: &str,
    deployment: Option<&Deployment>,
    own: &[Pod],
    flags: &ClusterFlags,
) -> Option<Finding> {
    let down = |what: String| Finding::broken(Cause::ControllerDown, what);
    let Some(deployment) = deployment else {
        let install = flags.install();
        let what =
            format!("no controller runs: there is no Deployment {namespace}/{CONTROLLER_NAME}");
        return Some(down(what).fixed_by(&install));
    };
    let status = deployment.status.as_ref();
    let available = status.and_then(|status| status.available_replicas);
    let desired = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let (available, desired) = (available.unwrap_or(0), desired.unwrap_or(1));
    if available > 0 {
        return None;
    }
    if desired == 0 {
        let scale = flags.kubectl(
            "-n {} scale deployment/{} --replicas=1",
            &[namespace, CONTROLLER_NAME],
        );
        let what =
            format!("no controller runs: Deployment {namespace}/{CONTROLLER_NAME} is scaled to 0");
        return Some(down(what).fixed_by(&scale));
    }
    let waiting = own.iter().flat_map(container_statuses).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_ref()?;
        Some(match reason.as_str() {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
                format!(" ({reason}: {})", status.image)
            }
            _ => format!(" ({reason})"),
        })
    });
    let pods = pods(flags, namespace);
    let what = format!(
        "no controller runs: {available}/{desired} replicas of Deployment {namespace}/{CONTROLLER_NAME} are \
         available{}",
        waiting.unwrap_or_default()
    );
    Some(down(what).fixed_by(&pods))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn controller_that_does_not_run_is_explained() {
        let deployment = |replicas: i32, available: i32| {
            let value = json!({ "spec": { "replicas": replicas, "selector": {}, "template": {} }, "status": { "availableReplicas": available } });
            serde_json::from_value::<Deployment>(value).unwrap()
        };
        let waiting = |state: Value| {
            let status = json!({ "name": "controller", "image": "linkerd-mc:0.1.0", "imageID": "", "ready": false, "restartCount": 0, "state": state });
            let value = json!({ "status": { "containerStatuses": [status] } });
            serde_json::from_value::<Pod>(value).unwrap()
        };
        let pull = waiting(json!({ "waiting": { "reason": "ImagePullBackOff" } }));
        let crash = waiting(json!({ "waiting": { "reason": "CrashLoopBackOff" } }));
        let starts = waiting(json!({ "running": {} }));
        let pods = ": run `kubectl --context west -n mc get pods`";
        let none = "no controller runs: 0/1 replicas of Deployment mc/controller are available";
        for (deployment, pod, expected) in [
            (None, &starts, "no controller runs: there is no Deployment mc/controller: run `linkerd-mc --context west install | kubectl --context west apply -f -`".to_owned()),
            (Some(deployment(0, 0)), &starts, "no controller runs: Deployment mc/controller is scaled to 0: run `kubectl --context west -n mc scale deployment/controller --replicas=1`".to_owned()),
            (Some(deployment(1, 0)), &pull, format!("{none} (ImagePullBackOff: linkerd-mc:0.1.0){pods}")),
            (Some(deployment(1, 0)), &crash, format!("{none} (CrashLoopBackOff){pods}")),
            (Some(deployment(1, 0)), &starts, format!("{none}{pods}")),
            (Some(deployment(2, 1)), &crash, String::new()),
        ] {
            let west = ClusterFlags::of_context("west");
            let found = judge("mc", deployment.as_ref(), std::slice::from_ref(pod), &west);
            let found = found.map_or_else(String::new, |found| found.told());
            assert_eq!(found.replace(CONTROLLER_NAME, "controller"), expected);
        }
    }
}
