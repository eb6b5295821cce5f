//! Credentials as the External Secrets Operator makes them from a store of secrets.

use k8s_openapi::api::core::v1::Secret;
use mirror_core::api::labels::{self, KUBECONFIG_KEY};
use serde_json::{Value, json};

use super::link::ClusterName;

/// The key of a store that has the credentials of one link.
pub fn store_key(source: &ClusterName, target: &ClusterName) -> String {
    format!("linkerd-mc/{source}/{target}")
}

/// The `ExternalSecret` that makes a credentials Secret, whose kubeconfig is a property of a key in a store.
pub fn external_secret(store: &str, key: &str, property: &str, secret: &Secret) -> Value {
    let metadata = &secret.metadata;
    json!({
        "apiVersion": "external-secrets.io/v1",
        "kind": "ExternalSecret",
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            // Argo CD waits for the Secret before it applies the Link.
            "annotations": { labels::SYNC_WAVE: "-1" },
        },
        "spec": {
            // `rotate` writes new tokens into the Secret.
            "refreshPolicy": "CreatedOnce",
            // One in the namespace of the Secret: a ClusterSecretStore would give the credentials to all namespaces.
            "secretStoreRef": { "kind": "SecretStore", "name": store },
            "target": {
                "name": metadata.name,
                "template": {
                    "type": secret.type_,
                    "metadata": { "labels": metadata.labels, "annotations": metadata.annotations },
                },
            },
            "data": [{
                "secretKey": KUBECONFIG_KEY,
                "remoteRef": { "key": key, "property": property },
            }],
        },
    })
}
