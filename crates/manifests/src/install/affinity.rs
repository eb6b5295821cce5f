//! On which nodes Pods prefer to run.

use serde_json::{Value, json};

use crate::values::Values;

/// Pods with label `app` prefer different nodes, then different zones. This is only preferred, while Linkerd's chart
/// requires it: two replicas on one node are better than a pending one.
pub fn affinity(values: &Values, app: &str) -> Value {
    let mut affinity = serde_json::Map::new();
    if let Some(node) = &values.node_affinity {
        affinity.insert("nodeAffinity".to_owned(), json!(node));
    }
    if values.enable_pod_anti_affinity {
        let apart = |weight: u8, topology: &str| {
            json!({
                "weight": weight,
                "podAffinityTerm": {
                    "labelSelector": {
                        "matchExpressions": [{ "key": "app", "operator": "In", "values": [app] }],
                    },
                    "topologyKey": topology,
                },
            })
        };
        affinity.insert(
            "podAntiAffinity".to_owned(),
            json!({ "preferredDuringSchedulingIgnoredDuringExecution": [
                apart(100, "kubernetes.io/hostname"),
                apart(50, "topology.kubernetes.io/zone"),
            ] }),
        );
    }
    Value::Object(affinity)
}
