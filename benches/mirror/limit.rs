//! The limit of this machine: how fast bare parallel requests write objects like those of the controller. An
//! administrator can write them, or the account of the controller. The admission policies check the writes of the
//! latter.

pub mod gatewayed;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use control_plane::ControlPlane;
use kube::{Api, Client, api::PostParams};
use linkerd_mc::api::{
    k8s::{EndpointSlice, Service},
    wire::Wire,
};
use serde_json::{Value, json};

use crate::{
    objects::{all, client, delete, namespace, namespaces},
    support::installation::{NAMESPACE, account},
};

/// Kinds of work whose limit can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// Creating Services with a slice each.
    Create,
    /// Deleting these slices and Services.
    Delete,
    /// Creating Services with a slice for each gateway and one for local Pods.
    Gatewayed,
    /// Patching the slices of one gateway to be unready.
    Unready,
}

/// How long bare requests took for each kind of work that was measured.
#[derive(Clone, Debug)]
pub struct Limit(BTreeMap<Work, Duration>);

impl Limit {
    pub fn of(&self, work: Work) -> Option<Duration> {
        self.0.get(&work).copied()
    }
}

/// Whose account sends the bare requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Writer {
    /// An administrator
    Administrator,
    /// The account of the controller, whose writes pass through the admission policies
    // No controller may run meanwhile, because it would treat these objects as its own mirrors.
    Controller,
}

impl Writer {
    /// The client of this account, and the prefix of the labels and annotations that mark its objects.
    async fn client(self, plane: &ControlPlane) -> (Client, &'static str) {
        let (account, marks) = match self {
            Self::Administrator => (None, "mirror.example.io"),
            Self::Controller => (Some(account(NAMESPACE)), "mirror.linkerd.io"),
        };
        (client(plane, account).await, marks)
    }
}

/// Measures the limit of a writer on `plane`. The names of the new namespaces contain `round`, so each measurement
/// needs another one.
pub async fn measure(plane: &ControlPlane, count: usize, round: &str, writer: Writer) -> Limit {
    let prefix = match writer {
        Writer::Administrator => format!("limit-{round}"),
        Writer::Controller => format!("limit-confined-{round}"),
    };
    namespaces(&client(plane, None).await, &prefix).await;
    let (client, marks) = writer.client(plane).await;
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
    Limit([(Work::Create, created), (Work::Delete, started.elapsed())].into())
}

/// The ports of a Service, or of a slice.
fn ports(http: u16, grpc: u16, admin: u16) -> Value {
    json!([
        { "name": "http", "port": http, "protocol": "TCP" },
        { "name": "grpc", "port": grpc, "protocol": "TCP" },
        { "name": "admin", "port": admin, "protocol": "TCP" },
    ])
}

/// Creates a Service like a mirror, and its slice. `marks` is the prefix of their labels and annotations.
async fn mirror(client: Client, marks: &str, namespace: String, name: String) {
    let mark = |name: &str| format!("{marks}/{name}");
    let labels = json!({ mark("cluster-name"): "limit", mark("mirrored-service"): "true" });
    let full_name = format!("{name}.{namespace}.svc.cluster.local");
    let annotations = json!({
        mark("desired-state"): "17f15594999516d2",
        mark("managed-by"): "linkerd-mc",
        mark("installation"): NAMESPACE,
        mark("remote-svc-fq-name"): full_name,
    });
    let mut service = json!({
        "metadata": {
            "name": name, "namespace": namespace, "labels": labels, "annotations": annotations,
        },
        "spec": { "type": "ClusterIP", "ports": ports(80, 9090, 9990) },
    });
    let metadata = &mut service["metadata"];
    metadata["labels"]["app"] = json!(name);
    metadata["labels"]["team"] = json!("payments");
    let copied = &mut metadata["annotations"];
    copied["example.com/owner"] = json!("payments@example.com");
    copied["example.com/tier"] = json!("1");
    copied[mark("copied-keys")] = json!("app,team;example.com/owner,example.com/tier");
    copied[mark("remote-resource-version")] = json!("1000001");
    let service: Wire<Service> = serde_json::from_value(service).unwrap();
    let services: Api<Wire<Service>> = Api::namespaced(client.clone(), &namespace);
    let made = services
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
    let mut slice = json!({
        "metadata": {
            "name": format!("{name}-ipv4"), "namespace": namespace, "labels": labels,
            "annotations": annotations,
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": name,
                "uid": made.object.metadata.uid,
            }],
        },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["192.0.2.10"], "conditions": { "ready": true } }],
        "ports": ports(4143, 4143, 4143),
    });
    let labels = &mut slice["metadata"]["labels"];
    labels["kubernetes.io/service-name"] = json!(name);
    labels["endpointslice.kubernetes.io/managed-by"] = json!("linkerd-mc");
    let slice: Wire<EndpointSlice> = serde_json::from_value(slice).unwrap();
    let slices: Api<Wire<EndpointSlice>> = Api::namespaced(client, &namespace);
    slices.create(&PostParams::default(), &slice).await.unwrap();
}
