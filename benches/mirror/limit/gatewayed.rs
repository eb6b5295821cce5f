//! The limit of federated Services through gateways.
//!
//! The bare requests write into the namespaces of the members, while the members exist. Otherwise they would be faster
//! than the controller can be: a write takes longer the more `ClusterIP`s are allocated, and the more Services of the
//! namespace the admission policies compare.

use std::time::Instant;

use control_plane::ControlPlane;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use linkerd_mc::api::{
    k8s::{EndpointSlice, Service},
    wire::Wire,
};
use serde_json::{Value, json};

use super::{Limit, Work, Writer, ports};
use crate::{
    objects::{NAMESPACES, all, client, namespace},
    support::installation::NAMESPACE,
};

/// Number of federated Services, and of gateways of each.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub services: usize,
    pub gateways: usize,
}

/// Measures the limit of a writer on `plane`.
pub async fn measure(plane: &ControlPlane, size: Size, writer: Writer) -> Limit {
    let (writer, marks) = writer.client(plane).await;
    let bare = Bare {
        client: writer,
        marks,
    };
    let started = Instant::now();
    let services = all((0..size.services).map(|index| bare.service(index, size.gateways))).await;
    let slices = services.iter().flat_map(|service| {
        let gateways = (0..size.gateways).map(Some);
        gateways
            .chain([None])
            .map(move |gateway| (service, gateway))
    });
    let slices = all(slices.map(|(service, gateway)| bare.slice(service, gateway))).await;
    let created = started.elapsed();
    let first: Vec<_> = slices
        .into_iter()
        .filter(|(gateway, _)| *gateway == Some(0))
        .collect();
    let started = Instant::now();
    all(first
        .iter()
        .map(|(gateway, slice)| bare.unready(*gateway, slice)))
    .await;
    let unready = started.elapsed();
    bare.remove(client(plane, None).await).await;
    Limit([(Work::Gatewayed, created), (Work::Unready, unready)].into())
}

/// The client that writes, and the prefix of the labels and annotations that mark its objects.
struct Bare {
    client: Client,
    marks: &'static str,
}

impl Bare {
    /// Creates a Service like a federated Service.
    async fn service(&self, index: usize, gateways: usize) -> Service {
        let name = format!("bare-{index}");
        let members: Vec<String> = (0..gateways).map(|g| format!("{name}@g{g:03}")).collect();
        let mut labels = json!({ "app": name, "team": "payments" });
        labels[self.mark("mirrored-service")] = json!("true");
        let mut annotations = self.signature();
        annotations["example.com/owner"] = json!("payments@example.com");
        annotations["example.com/tier"] = json!("1");
        let extension = self.marks.replacen("mirror", "multicluster", 1);
        annotations[format!("{extension}/members")] = json!(members.join(","));
        annotations[format!("{extension}/local-member")] = json!(name);
        let namespace = namespace("bench", index);
        let service: Wire<Service> = serde_json::from_value(json!({
            "metadata": {
                "name": format!("{name}-federated"), "namespace": namespace,
                "labels": labels, "annotations": annotations,
            },
            "spec": { "type": "ClusterIP", "ports": ports(80, 9090, 9990) },
        }))
        .unwrap();
        let services: Api<Wire<Service>> = Api::namespaced(self.client.clone(), &namespace);
        let made = services.create(&PostParams::default(), &service).await;
        made.unwrap().object
    }

    /// Creates a slice of the Service: for this gateway, or for local Pods if it is `None`.
    async fn slice(
        &self,
        service: &Service,
        gateway: Option<usize>,
    ) -> (Option<usize>, EndpointSlice) {
        let owner = service.metadata.name();
        let suffix = match gateway {
            Some(gateway) => format!("g{gateway:03}-ipv4"),
            None => "local-0123456789abcdef-0".to_owned(),
        };
        let mut slice = self.shown(service.metadata.namespace(), owner, gateway, true);
        slice["addressType"] = json!("IPv4");
        let metadata = &mut slice["metadata"];
        metadata["name"] = json!(format!("{owner}-{suffix}"));
        metadata["namespace"] = json!(service.metadata.namespace());
        metadata["ownerReferences"] = json!([{
            "apiVersion": "v1", "kind": "Service", "name": owner,
            "uid": service.metadata.uid,
        }]);
        let slice: Wire<EndpointSlice> = serde_json::from_value(slice).unwrap();
        let made = self.slices(service.metadata.namespace());
        let made = made.create(&PostParams::default(), &slice).await;
        (gateway, made.unwrap().object)
    }

    /// Patches a slice as the controller does when the gateway is dead.
    async fn unready(&self, gateway: Option<usize>, slice: &EndpointSlice) {
        let metadata = &slice.metadata;
        let owner = metadata.labels.get("kubernetes.io/service-name");
        let mut patch = self.shown(metadata.namespace(), owner.unwrap(), gateway, false);
        patch["metadata"]["uid"] = json!(metadata.uid);
        patch["metadata"]["resourceVersion"] = json!(metadata.resource_version);
        self.slices(metadata.namespace())
            .patch(
                metadata.name(),
                &PatchParams::default(),
                &Patch::Merge(patch),
            )
            .await
            .unwrap();
    }

    /// The fields that a new slice and a patch of a slice both have: labels, annotations, endpoints and ports.
    fn shown(&self, namespace: &str, owner: &str, gateway: Option<usize>, ready: bool) -> Value {
        let member = owner.trim_end_matches("-federated");
        let mut labels = json!({
            "kubernetes.io/service-name": owner,
            "endpointslice.kubernetes.io/managed-by": "linkerd-mc",
        });
        labels[self.mark("mirrored-service")] = json!("true");
        let mut annotations = self.signature();
        let (address, ports) = if let Some(gateway) = gateway {
            labels[self.mark("cluster-name")] = json!(format!("g{gateway:03}"));
            annotations[self.mark("remote-svc-fq-name")] =
                json!(format!("{member}.{namespace}.svc.cluster.local"));
            annotations[self.mark("remote-gateway-identity")] = json!(
                "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local"
            );
            (
                format!("192.0.2.{}", 101 + gateway),
                ports(4143, 4143, 4143),
            )
        } else {
            let port = json!([{ "name": "http", "port": 8080, "protocol": "TCP" }]);
            ("192.0.2.99".to_owned(), port)
        };
        json!({
            "metadata": { "labels": labels, "annotations": annotations },
            "endpoints": [{ "addresses": [address], "conditions": { "ready": ready } }],
            "ports": ports,
        })
    }

    /// The annotations that all objects of the controller have.
    fn signature(&self) -> Value {
        let mut annotations = json!({});
        annotations[self.mark("desired-state")] = json!("17f15594999516d2");
        annotations[self.mark("managed-by")] = json!("linkerd-mc");
        annotations[self.mark("installation")] = json!(NAMESPACE);
        annotations
    }

    fn mark(&self, name: &str) -> String {
        format!("{}/{name}", self.marks)
    }

    fn slices(&self, namespace: &str) -> Api<Wire<EndpointSlice>> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Deletes all objects that the bare requests created, as an administrator, because the controller may not delete
    /// collections. Deletes slices first: after the deletion of a Service, Kubernetes deletes its slices too, and would
    /// compete.
    async fn remove(&self, client: Client) {
        let ours = ListParams::default().labels(&self.mark("mirrored-service=true"));
        let how = DeleteParams::background();
        all((0..NAMESPACES).map(async |index| {
            let namespace = namespace("bench", index);
            let slices: Api<Wire<EndpointSlice>> = Api::namespaced(client.clone(), &namespace);
            slices.delete_collection(&how, &ours).await.unwrap();
            let services: Api<Wire<Service>> = Api::namespaced(client.clone(), &namespace);
            services.delete_collection(&how, &ours).await.unwrap();
        }))
        .await;
    }
}
