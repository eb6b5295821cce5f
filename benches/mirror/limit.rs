//! The limit of this machine: the same objects as the controller writes, written by bare parallel requests. Once by an
//! administrator, and once by the account of the controller, whose writes pass through the admission policies.

use std::time::{Duration, Instant};

use control_plane::ControlPlane;
use kube::{Api, Client, api::PostParams};
use linkerd_mc::api::{
    k8s::{EndpointSlice, Service},
    wire::Wire,
};
use serde_json::json;

use crate::{
    fleet::{NAMESPACE, account},
    objects::{all, client, delete, namespace, namespaces},
};

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

/// Who writes.
#[derive(Clone, Copy, Debug)]
enum Writer {
    Administrator,
    /// The account of the controller. No controller may run meanwhile: it would take what is written for its own.
    Controller,
}

/// Measures the limit on `plane`, without and with the admission policies.
pub async fn both(plane: &ControlPlane, count: usize, round: &str) -> (Limit, Limit) {
    let confined = format!("confined-{round}");
    (
        measure(plane, count, round, Writer::Administrator).await,
        measure(plane, count, &confined, Writer::Controller).await,
    )
}

async fn measure(plane: &ControlPlane, count: usize, round: &str, writer: Writer) -> Limit {
    let prefix = format!("limit-{round}");
    namespaces(&client(plane, None).await, &prefix).await;
    let (account, marks) = match writer {
        Writer::Administrator => (None, "mirror.example.io"),
        Writer::Controller => (Some(account(NAMESPACE)), "mirror.linkerd.io"),
    };
    let client = client(plane, account).await;
    let name = |index: usize| format!("bare-{index}-limit");
    let started = Instant::now();
    let made = |index: usize| {
        let namespace = namespace(&prefix, index);
        mirror(client.clone(), marks, namespace, name(index))
    };
    all((0..count).map(made)).await;
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

/// Creates a Service as a mirror is, and its slice, with marks under this prefix.
async fn mirror(client: Client, marks: &str, namespace: String, name: String) {
    let mut labels = json!({ "app": name, "team": "payments" });
    labels[format!("{marks}/cluster-name")] = json!("limit");
    labels[format!("{marks}/mirrored-service")] = json!("true");
    let mut annotations =
        json!({ "example.com/owner": "payments@example.com", "example.com/tier": "1" });
    for (mark, value) in [
        ("desired-state", "17f15594999516d2"),
        ("managed-by", "linkerd-mc"),
        ("remote-resource-version", "1000001"),
        (
            "remote-svc-fq-name",
            &format!("{name}.{namespace}.svc.cluster.local"),
        ),
    ] {
        annotations[format!("{marks}/{mark}")] = json!(value);
    }
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
    labels["kubernetes.io/service-name"] = json!(name);
    labels["endpointslice.kubernetes.io/managed-by"] = json!("linkerd-mc");
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
