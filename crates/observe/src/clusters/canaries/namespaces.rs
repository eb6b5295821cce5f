//! The namespaces of canaries: made, found and removed.

use std::time::Duration;

use client::Cluster;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, PostParams, Preconditions},
    runtime::wait::{await_condition, conditions::is_deleted},
};
use mirror_core::api::labels::VERIFY;

use super::CanarySpec;
use crate::clusters::snapshot::Known;

/// Value of the label of a namespace that outlives runs. Somebody else has made it.
const KEPT: &str = "kept";

/// What has the name of a namespace of canaries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FoundNamespace {
    /// There is none of this name.
    Nothing,
    /// A namespace of canaries, of an earlier run; its UID.
    Canaries(String),
    /// A namespace for canaries that outlives runs.
    Kept,
    /// A namespace of somebody else.
    Foreign,
}

/// Looks up a namespace.
pub async fn find(cluster: &Cluster, name: &str) -> Known<FoundNamespace> {
    let found = api(cluster).get_metadata_opt(name).await;
    Ok(match found? {
        None => FoundNamespace::Nothing,
        Some(found) if found.labels().get(VERIFY).is_some_and(|of| of == KEPT) => {
            FoundNamespace::Kept
        }
        Some(found) if found.labels().contains_key(VERIFY) => {
            FoundNamespace::Canaries(found.uid().unwrap_or_default())
        }
        Some(_) => FoundNamespace::Foreign,
    })
}

/// Makes the namespace of a run, unless there is one that outlives it.
pub async fn create(cluster: &Cluster, canaries: &CanarySpec) -> Known<()> {
    if find(cluster, &canaries.namespace).await? == FoundNamespace::Kept {
        return Ok(());
    }
    let (api, namespace) = (api(cluster), canaries.namespace());
    let created = api.create(&PostParams::default(), &namespace).await;
    created?;
    Ok(())
}

/// Deletes the namespace of this UID, with all that is in it, and waits until it is gone.
pub async fn delete(cluster: &Cluster, name: &str, uid: &str, limit: Duration) -> Known<()> {
    let only = DeleteParams::background().preconditions(Preconditions {
        uid: Some(uid.to_owned()),
        resource_version: None,
    });
    match api(cluster).delete(name, &only).await {
        Ok(_) => {}
        // It is gone, or it is another one now.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
        Err(error) => return Err(error.into()),
    }
    let watched: Api<Namespace> = Api::all(cluster.client.clone());
    let gone = await_condition(watched, name, is_deleted(uid));
    match tokio::time::timeout(limit, gone).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string().into()),
        Err(_) => Err(format!(
            "namespace {name} is still terminating after {} s",
            limit.as_secs()
        )
        .into()),
    }
}

fn api(cluster: &Cluster) -> Api<Namespace> {
    Api::all(cluster.client.clone())
}
