//! That the controllers of a control plane do what tests rely on; those of Pods and tokens are in `planes.rs`.

use std::time::Duration;

use control_plane::{ControlPlane, eventually};
use serde_json::{Value, json};

use crate::shared;

const LIMIT: Duration = Duration::from_secs(30);
const NAMESPACE: &str = "controllers";

#[tokio::test]
async fn controllers_delete_aggregate_and_mirror() -> anyhow::Result<()> {
    let plane = shared().await?;
    plane.kubectl(&["create", "namespace", NAMESPACE]).await?;
    let owner = create(plane, &map("owner", &json!([]))).await?;
    let owned = json!([{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "owner",
        "uid": owner["metadata"]["uid"],
    }]);
    create(plane, &map("owned", &owned)).await?;
    create(plane, &map("other", &json!([]))).await?;
    for object in [
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": "sum" },
            "aggregationRule": { "clusterRoleSelectors": [{ "matchLabels": { "part-of": "sum" } }] },
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": "part", "labels": { "part-of": "sum" } },
            "rules": [{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }],
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "custom", "namespace": NAMESPACE },
            "spec": { "ports": [{ "port": 80 }] },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": { "name": "custom", "namespace": NAMESPACE },
            "subsets": [{ "addresses": [{ "ip": "192.0.2.9" }], "ports": [{ "port": 80 }] }],
        }),
    ] {
        create(plane, &object).await?;
    }
    let sum = [
        "get",
        "clusterrole",
        "sum",
        "--output=jsonpath={.rules[*].resources}",
    ];
    becomes(plane, &sum, r#"["pods"]"#).await?;
    let slices = [
        "get",
        "endpointslices",
        "--namespace=controllers",
        "--selector=kubernetes.io/service-name=custom",
        "--output=jsonpath={.items[*].endpoints[*].addresses}",
    ];
    becomes(plane, &slices, r#"["192.0.2.9"]"#).await?;

    plane
        .kubectl(&[
            "delete",
            "configmap",
            "owner",
            "--namespace=controllers",
            "--wait=false",
        ])
        .await?;
    let maps = [
        "get",
        "configmaps",
        "--namespace=controllers",
        "--output=jsonpath={.items[*].metadata.name}",
    ];
    becomes(plane, &maps, "kube-root-ca.crt other").await?;

    plane
        .kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"])
        .await?;
    let namespace = ["get", "namespace", NAMESPACE, "--ignore-not-found"];
    becomes(plane, &namespace, "").await
}

fn map(name: &str, owners: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": NAMESPACE, "ownerReferences": owners },
    })
}

async fn create(plane: &ControlPlane, object: &Value) -> anyhow::Result<Value> {
    let arguments = ["create", "--filename=-", "--output=json"];
    let created = plane.kubectl_stdin(&arguments, &object.to_string()).await?;
    Ok(serde_json::from_str(&created)?)
}

/// Waits until kubectl prints this.
async fn becomes(plane: &ControlPlane, arguments: &[&str], wanted: &str) -> anyhow::Result<()> {
    eventually(&format!("{wanted:?} of {arguments:?}"), LIMIT, async || {
        Ok((plane.kubectl(arguments).await? == wanted).then_some(()))
    })
    .await
}
