//! The limit of this machine: the same objects as the controller writes, written by bare parallel requests.

use std::time::{Duration, Instant};

use control_plane::ControlPlane;
use kube::{Api, Client, api::PostParams};
use linkerd_mc::api::{
    k8s::{EndpointSlice, Service},
    wire::Wire,
};
use serde_json::json;

use crate::objects::{all, client, delete, namespace, namespaces};

/// What the limit is a limit of.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    Create,
    Delete,
}

/// Time to create, and time to delete, Services with a slice each.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    create: Duration,
    delete: Duration,
}

impl Limit {
    pub fn of(&self, work: Work) -> Duration {
        match work {
            Work::Create => self.create,
            Work::Delete => self.delete,
        }
    }
}

/// Measures the limit on `plane`.
pub async fn measure(plane: &ControlPlane, count: usize, round: &str) -> Limit {
    let client = client(plane).await;
    let prefix = format!("limit-{round}");
    namespaces(&client, &prefix).await;
    let name = |index: usize| format!("bare-{index}");
    let started = Instant::now();
    all((0..count).map(|index| mirror(client.clone(), namespace(&prefix, index), name(index))))
        .await;
    let created = started.elapsed();
    let started = Instant::now();
    all((0..count).map(|index| {
        let namespace = namespace(&prefix, index);
        delete(
            client.clone(),
            namespace,
            name(index),
            format!("{}-ipv4", name(index)),
        )
    }))
    .await;
    Limit {
        create: created,
        delete: started.elapsed(),
    }
}

/// Creates a Service as a mirror is, and its slice, under labels and annotations that nobody watches for.
async fn mirror(client: Client, namespace: String, name: String) {
    let labels = json!({
        "mirror.example.io/cluster-name": "east", "mirror.example.io/mirrored-service": "true",
        "app": name, "team": "payments",
    });
    let annotations = json!({
        "mirror.example.io/desired-state": "17f15594999516d2",
        "mirror.example.io/managed-by": "linkerd-mc",
        "mirror.example.io/remote-resource-version": "1000001",
        "mirror.example.io/remote-svc-fq-name": format!("{name}.{namespace}.svc.cluster.local"),
        "example.com/owner": "payments@example.com", "example.com/tier": "1",
    });
    let service: Wire<Service> = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": namespace, "labels": labels, "annotations": annotations,
        },
        "spec": { "type": "ClusterIP", "ports": [
            { "name": "http", "port": 80, "protocol": "TCP" },
            { "name": "grpc", "port": 9090, "protocol": "TCP" },
            { "name": "admin", "port": 9990, "protocol": "TCP" },
        ] },
    }))
    .unwrap();
    let services: Api<Wire<Service>> = Api::namespaced(client.clone(), &namespace);
    let made = services
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
    let mut labels = labels;
    labels["kubernetes.io/service-name"] = json!(name);
    labels["endpointslice.kubernetes.io/managed-by"] = json!("limit");
    let slice: Wire<EndpointSlice> = serde_json::from_value(json!({
        "metadata": {
            "name": format!("{name}-ipv4"), "namespace": namespace, "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": name, "controller": true,
                "uid": made.object.metadata.uid,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["192.0.2.10"], "conditions": { "ready": true } }],
        "ports": [
            { "name": "http", "port": 4143, "protocol": "TCP" },
            { "name": "grpc", "port": 4143, "protocol": "TCP" },
            { "name": "admin", "port": 4143, "protocol": "TCP" },
        ],
    }))
    .unwrap();
    let slices: Api<Wire<EndpointSlice>> = Api::namespaced(client, &namespace);
    slices.create(&PostParams::default(), &slice).await.unwrap();
}
