//! Restarts Linkerd's destination controller, which reads credentials only at startup.
//!
//! A cluster whose API server does not answer at that moment is left out until the next restart: its Pods stay in
//! running streams, but new streams do not find them (`addCluster` in Linkerd's `cluster_store.go`).

use std::{collections::BTreeSet, time::Duration};

use client::timing;
use hints::hint::fail;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use mirror_core::api::{labels, link::Link};
use serde_json::json;

use crate::{
    linked::links_elsewhere,
    poll::{POLL_INTERVAL, poll},
    rotate::{
        decision::DESTINATION,
        gather::{self, SourceCluster},
    },
};

/// Annotation that `kubectl rollout restart` writes.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

/// Fails if Linkerd has no destination controller, or if it would lose a cluster now. Changes nothing. `links` are those
/// of the namespace; Linkerd reads the credentials of Links of other namespaces too. Clusters in `proven` are known to
/// answer.
pub async fn is_possible(
    source: &SourceCluster,
    links: &[Link],
    proven: &BTreeSet<String>,
) -> anyhow::Result<()> {
    let cluster = &source.cluster;
    has_destination(source).await?;
    let elsewhere = links_elsewhere(cluster, &source.namespace).await?;
    let links: Vec<Link> = links
        .iter()
        .cloned()
        .chain(elsewhere.unwrap_or_default())
        .collect();
    let known = gather::of_all_clusters(source, &links).await?;
    let known: BTreeSet<String> = known
        .iter()
        .filter_map(|secret| secret.labels().get(labels::CREDENTIALS_CLUSTER).cloned())
        .collect();
    let name = |link: &&Link| link.spec.target_cluster_name.clone();
    let is_lost = |link: &&Link| {
        let name = name(link);
        is_disconnected(link) && known.contains(&name) && !proven.contains(&name)
    };
    let lost: Vec<&Link> = links.iter().filter(is_lost).collect();
    let Some(first) = lost.first() else {
        return Ok(());
    };
    let names: BTreeSet<String> = lost.iter().map(name).collect();
    let names: Vec<String> = names.into_iter().collect();
    Err(fail(
        format!(
            "cannot restart {DESTINATION} now: {} is unreachable, and a restart would cut Linkerd off from it",
            names.join(", ")
        ),
        format!(
            "wait until {} shows it as connected, or remove it with {}; with --no-restart, you can restart it yourself later",
            cluster.flags.mc("status", &[]),
            cluster.flags.mc(
                "unlink {} --namespace {} --apply",
                &[&name(first), &first.namespace().unwrap_or_default()]
            )
        ),
    ))
}

/// Fails if Linkerd has no destination controller.
pub async fn has_destination(source: &SourceCluster) -> anyhow::Result<()> {
    if gather::has_destination(source).await? {
        return Ok(());
    }
    Err(not_found(&source.linkerd))
}

fn is_disconnected(link: &Link) -> bool {
    let status = link.status.as_ref();
    let connected = status.and_then(|status| status.condition("Connected"));
    connected.is_some_and(|connected| connected.status == "False")
}

fn not_found(namespace: &str) -> anyhow::Error {
    fail(
        format!("Deployment {namespace}/{DESTINATION} not found"),
        "pass Linkerd's namespace with --linkerd-namespace, or restart it yourself with --no-restart",
    )
}

/// Restarts it as `kubectl rollout restart` does, and waits until only new Pods are left and all are available.
pub async fn restart(source: &SourceCluster, wait: Duration) -> anyhow::Result<()> {
    let (cluster, namespace) = (&source.cluster, &source.linkerd);
    let api = cluster.api::<Deployment>(namespace);
    let now = timing::now().to_string();
    let patch =
        json!({ "spec": { "template": { "metadata": { "annotations": { RESTARTED: now } } } } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
    let patched = api.patch(DESTINATION, &params, &patch);
    let what = format!("restart the Deployment {namespace}/{DESTINATION}");
    if cluster.request_opt(&what, patched).await?.is_none() {
        return Err(not_found(namespace));
    }
    let attempt = async || {
        let live = cluster
            .request("read the Deployment", api.get(DESTINATION))
            .await?;
        anyhow::Ok(is_rolled_out(&live).then_some(()).ok_or(()))
    };
    poll(POLL_INTERVAL, wait, attempt, |()| ())
        .await?
        .map_err(|()| {
            fail(
                format!("the rollout of {namespace}/{DESTINATION} did not finish within {wait:?}"),
                format!(
                    "see {}, then run this again; no token was revoked",
                    cluster.flags.kubectl(
                        "-n {} rollout status deployment/{}",
                        &[namespace, DESTINATION]
                    )
                ),
            )
        })
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
