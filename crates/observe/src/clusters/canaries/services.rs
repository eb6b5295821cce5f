//! The Services of canaries.

use std::collections::BTreeMap;

use client::Cluster;
use k8s_openapi::api::core::v1::Service;
use kube::{Api, api::PostParams};

use super::{CanarySpec, deletion::delete_labelled};
use crate::clusters::snapshot::Known;

/// Creates a Service in front of the servers of a cluster, with these labels.
pub async fn create(
    cluster: &Cluster,
    canaries: &CanarySpec,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Known<()> {
    let service = canaries.service(name, labels);
    let created = api(cluster, &canaries.namespace)
        .create(&PostParams::default(), &service)
        .await;
    created?;
    Ok(())
}

/// Deletes the Services of canaries, also those of an earlier run. Returns whether there were any.
pub async fn delete_all(cluster: &Cluster, namespace: &str) -> Known<bool> {
    let deleted = delete_labelled(&api(cluster, namespace)).await?;
    Ok(!deleted.is_empty())
}

fn api(cluster: &Cluster, namespace: &str) -> Api<Service> {
    Api::namespaced(cluster.client.clone(), namespace)
}
