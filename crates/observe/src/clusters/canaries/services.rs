//! The Services of canaries.

use std::collections::BTreeMap;

use client::Cluster;
use k8s_openapi::api::core::v1::Service;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
};
use mirror_core::api::labels::VERIFY;

use super::CanarySpec;
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

/// Deletes the Services of canaries, also those of an earlier run.
pub async fn delete_all(cluster: &Cluster, namespace: &str) -> Known<()> {
    let services = api(cluster, namespace);
    let own = ListParams::default().labels(VERIFY);
    for service in services.list_metadata(&own).await? {
        let only = DeleteParams::background().preconditions(Preconditions {
            uid: service.uid(),
            resource_version: None,
        });
        match services.delete(&service.name_any(), &only).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn api(cluster: &Cluster, namespace: &str) -> Api<Service> {
    Api::namespaced(cluster.client.clone(), namespace)
}
