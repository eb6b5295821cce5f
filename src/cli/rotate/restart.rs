//! Restarts Linkerd's destination controller, which reads credentials only at startup.

use std::time::{Duration, Instant};

use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{cli::cluster::Cluster, controller::clock, hint::fail};

/// Its Deployment.
pub(super) const DESTINATION: &str = "linkerd-destination";
/// Annotation that `kubectl rollout restart` writes.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";
/// Poll interval for it.
const LOOK: Duration = Duration::from_millis(500);

/// Restarts it as `kubectl rollout restart` does, and waits until only new Pods are left and all are available.
pub(super) async fn restart(
    cluster: &Cluster,
    namespace: &str,
    wait: Duration,
) -> anyhow::Result<()> {
    let api = Api::<Deployment>::namespaced(cluster.client.clone(), namespace);
    let now = clock::now().to_string();
    let patch =
        json!({ "spec": { "template": { "metadata": { "annotations": { RESTARTED: now } } } } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let patched = api.patch(DESTINATION, &params, &patch);
    let what = format!("restart the Deployment {namespace}/{DESTINATION}");
    if cluster.request_opt(&what, patched).await?.is_none() {
        return Err(fail(
            format!("Deployment {namespace}/{DESTINATION} not found"),
            "pass Linkerd's namespace with --linkerd-namespace, or restart it yourself with --no-restart",
        ));
    }
    let started = Instant::now();
    loop {
        let live = cluster
            .request("read the Deployment", api.get(DESTINATION))
            .await?;
        if is_rolled_out(&live) {
            return Ok(());
        }
        if started.elapsed() >= wait {
            return Err(fail(
                format!("the rollout of {namespace}/{DESTINATION} did not finish within {wait:?}"),
                format!(
                    "see `kubectl -n {namespace} rollout status deployment/{DESTINATION}`, then run this again; \
                     the old token still works"
                ),
            ));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// As `kubectl rollout status` decides.
fn is_rolled_out(deployment: &Deployment) -> bool {
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
    let wanted = wanted.unwrap_or(1);
    let Some(status) = &deployment.status else {
        return false;
    };
    let count = |count: Option<i32>| count.unwrap_or(0);
    status.observed_generation >= deployment.metadata.generation
        && count(status.updated_replicas) >= wanted
        && count(status.replicas) == count(status.updated_replicas)
        && count(status.available_replicas) >= count(status.updated_replicas)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rollout_ends_with_new_pods_only_all_available() {
        for (wanted, generation, [observed, replicas, updated, available], done) in [
            (2, 5, [5, 2, 2, 2], true),
            (2, 5, [4, 2, 2, 2], false),
            (2, 5, [5, 3, 2, 2], false),
            (2, 5, [5, 2, 1, 2], false),
            (2, 5, [5, 2, 2, 1], false),
            (0, 1, [1, 0, 0, 0], true),
        ] {
            let deployment = json!({
                "metadata": { "generation": generation },
                "spec": { "replicas": wanted, "selector": {}, "template": {} },
                "status": {
                    "observedGeneration": observed, "replicas": replicas, "updatedReplicas": updated,
                    "availableReplicas": available,
                },
            });
            let deployment: Deployment = serde_json::from_value(deployment).unwrap();
            assert_eq!(is_rolled_out(&deployment), done, "{deployment:?}");
        }
        assert!(!is_rolled_out(&Deployment::default()));
    }
}
