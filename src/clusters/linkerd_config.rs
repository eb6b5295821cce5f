//! Reads Linkerd's configuration in a cluster.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use super::snapshot::Known;
use crate::{
    api::{labels, link::LinkerdConfig},
    client::requests::explain,
    manifests::yaml,
};

/// Linkerd's configuration in a cluster.
pub(super) async fn linkerd_config(client: &Client, namespace: &str) -> Known<LinkerdConfig> {
    let namespace = match namespace {
        "" => labels::LINKERD_NAMESPACE,
        namespace => namespace,
    };
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    let config = api
        .get(labels::LINKERD_CONFIG)
        .await
        .map_err(|error| explain(&error))?;
    let values = config
        .data
        .and_then(|mut data| data.remove(labels::LINKERD_CONFIG_KEY))
        .ok_or_else(|| {
            format!(
                "ConfigMap {namespace}/{} has no key {}",
                labels::LINKERD_CONFIG,
                labels::LINKERD_CONFIG_KEY
            )
        })?;
    yaml::from_yaml(&values)
        .map_err(|error| format!("ConfigMap {namespace}/{}: {error}", labels::LINKERD_CONFIG))
}
