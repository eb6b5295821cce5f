//! The objects that benchmarks export, and helpers for many parallel requests.

use control_plane::ControlPlane;
use futures::{StreamExt as _, stream};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, ListParams, ObjectList, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use linkerd_mc::api::{
    k8s::{EndpointSlice, Service},
    wire::Wire,
};
use serde_json::json;

/// Parallel requests: as many as the controller's default of `--max-in-flight-writes`.
pub const PARALLEL: usize = 32;

/// A client like that of the controller. It impersonates `account`, or is an administrator if that is `None`.
pub async fn client(plane: &ControlPlane, account: Option<String>) -> Client {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    config.auth_info.impersonate = account;
    linkerd_mc::client::multiplexed(config, linkerd_mc::client::ResponseLimits::of_pages())
        .await
        .unwrap()
}

/// Runs requests, [`PARALLEL`] at a time. Returns their results in the order in which they ended.
pub async fn all<F: Future>(requests: impl Iterator<Item = F>) -> Vec<F::Output> {
    stream::iter(requests)
        .buffer_unordered(PARALLEL)
        .collect()
        .await
}

/// Number of namespaces over which the benchmarks spread their objects.
pub const NAMESPACES: usize = 20;

/// The namespace of the object with this index.
pub fn namespace(prefix: &str, index: usize) -> String {
    format!("{prefix}-{}", index % NAMESPACES)
}

/// Creates all namespaces that [`namespace`] returns for this prefix.
pub async fn namespaces(client: &Client, prefix: &str) {
    let api: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(client.clone());
    for index in 0..NAMESPACES {
        let name = namespace(prefix, index);
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        api.create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }
}

/// A Service with three ports and some metadata. It has a selector, so Kubernetes creates a slice for it too.
pub fn service(namespace: &str, name: &str, labels: serde_json::Value) -> Service {
    let mut labels = labels;
    labels["app"] = json!(name);
    labels["team"] = json!("payments");
    serde_json::from_value(json!({
        "metadata": { "name": name, "namespace": namespace, "labels": labels,
            "annotations": { "example.com/owner": "payments@example.com", "example.com/tier": "1" } },
        "spec": { "type": "ClusterIP", "selector": { "app": name }, "ports": [
            { "name": "http", "port": 80, "targetPort": 8080 },
            { "name": "grpc", "port": 9090, "targetPort": 9090 },
            { "name": "admin", "port": 9990, "targetPort": "admin" },
        ] },
    }))
    .unwrap()
}

/// A slice of a Service with one ready endpoint.
fn slice(service: &Service) -> EndpointSlice {
    let name = service.metadata.name();
    let mut labels = service.metadata.labels.clone();
    labels.insert("kubernetes.io/service-name", name);
    labels.insert("endpointslice.kubernetes.io/managed-by", "bench");
    serde_json::from_value(json!({
        "metadata": { "name": format!("{name}-bench"), "namespace": service.metadata.namespace,
            "labels": labels },
        "addressType": "IPv4",
        "endpoints": [{ "addresses": ["192.0.2.99"], "conditions": { "ready": true } }],
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    }))
    .unwrap()
}

/// Creates a Service and its [`slice`].
pub async fn create(client: Client, service: Service) {
    let namespace = service.metadata.namespace().to_owned();
    let slice = slice(&service);
    let services: Api<Wire<Service>> = Api::namespaced(client.clone(), &namespace);
    services
        .create(&PostParams::default(), &service.into())
        .await
        .unwrap();
    let slices: Api<Wire<EndpointSlice>> = Api::namespaced(client, &namespace);
    slices
        .create(&PostParams::default(), &slice.into())
        .await
        .unwrap();
}

/// Deletes a Service's slice, and then the Service. In the other order, Kubernetes would delete the slice too.
pub async fn delete(client: Client, namespace: String, service: String, slice: String) {
    let slices: Api<Wire<EndpointSlice>> = Api::namespaced(client.clone(), &namespace);
    slices
        .delete(&slice, &DeleteParams::background())
        .await
        .unwrap();
    let services: Api<Wire<Service>> = Api::namespaced(client, &namespace);
    services
        .delete(&service, &DeleteParams::background())
        .await
        .unwrap();
}

/// Number of Services with the label of mirrors, and of slices with that label and at least one endpoint.
pub async fn count(client: &Client) -> (usize, usize) {
    let mirrors = ListParams::default().labels("mirror.linkerd.io/mirrored-service=true");
    let services: Api<Wire<Service>> = Api::all(client.clone());
    let services = paged(&mirrors, async |page| services.list_metadata(&page).await).await;
    let slices: Api<Wire<EndpointSlice>> = Api::all(client.clone());
    let slices = paged(&mirrors, async |page| slices.list(&page).await).await;
    let filled = slices
        .iter()
        .filter(|slice| !slice.object.endpoints.is_empty());
    (services.len(), filled.count())
}

/// Lists page by page, because the client limits the size of one response.
pub async fn paged<T: Clone>(
    what: &ListParams,
    list: impl AsyncFn(ListParams) -> kube::Result<ObjectList<T>>,
) -> Vec<T> {
    let (mut items, mut next) = (Vec::new(), what.clone().limit(500));
    loop {
        let page = list(next.clone()).await.unwrap();
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => next = next.continue_token(&token),
            None => return items,
        }
    }
}
