//! Why no controller runs for the Links of a namespace. Reads only.

use client::Cluster;
use hints::suggest::{ClusterFlags, Suggested};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{Api, api::ListParams};
use mirror_core::api::labels::CONTROLLER_NAME;

use super::{leader::pods, workloads::container_statuses};
use crate::finding::{Finding, causes::Cause};

/// Why no controller runs.
pub struct NotRunning {
    /// What is wrong, and what to do.
    pub finding: Finding,
    /// Whether it stays so until somebody acts, and is no controller that just starts.
    pub stays: bool,
}

/// Why no controller runs in a namespace; `None` if one is available, or if that could not be read.
pub async fn not_running(cluster: &Cluster, namespace: &str) -> Option<NotRunning> {
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
) -> Option<NotRunning> {
    let down = |what: String, fix: &Suggested, stays: bool| {
        let finding = Finding::broken(Cause::ControllerDown, what).fixed_by(fix);
        Some(NotRunning { finding, stays })
    };
    let Some(deployment) = deployment else {
        let install = flags.install();
        let what =
            format!("no controller runs: there is no Deployment {namespace}/{CONTROLLER_NAME}");
        return down(what, &install, true);
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
        return down(what, &scale, true);
    }
    let waiting = own.iter().flat_map(container_statuses).find_map(|status| {
        let waiting = status.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref()?;
        Some(match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
                let stays = reason != "ErrImagePull";
                (format!(" ({reason}: {})", status.image), stays)
            }
            _ => (format!(" ({reason})"), false),
        })
    });
    let (waiting, stays) = waiting.unwrap_or_default();
    let pods = pods(flags, namespace);
    let what = format!(
        "no controller runs: {available}/{desired} replicas of Deployment {namespace}/{CONTROLLER_NAME} are \
         available{waiting}"
    );
    down(what, &pods, stays)
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
            let stays = found.as_ref().is_some_and(|found| found.stays);
            let found = found.map_or_else(String::new, |found| found.finding.told());
            assert_eq!(found.replace(CONTROLLER_NAME, "controller"), expected);
            let acts = ["there is no", "scaled to 0", "ImagePullBackOff"];
            assert_eq!(stays, acts.iter().any(|why| found.contains(why)), "{found}");
        }
    }
}
