//! Namespaces, Services and endpoints on a control plane: functions that create them, change them, and wait for them.

use std::collections::BTreeMap;

use control_plane::{ControlPlane, eventually};
use k8s_openapi::api::{
    core::v1::{Endpoints, Namespace, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, ResourceExt as _,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::SOON;

pub(crate) fn services(plane: &ControlPlane, namespace: &str) -> Api<Service> {
    Api::namespaced(plane.client(), namespace)
}

pub(crate) fn slices(plane: &ControlPlane, namespace: &str) -> Api<EndpointSlice> {
    Api::namespaced(plane.client(), namespace)
}

/// A Service with two TCP ports and one UDP port.
pub(crate) fn web(name: &str, exported: &str) -> Service {
    serde_json::from_value(json!({
        "metadata": {
            "name": name,
            "labels": { "mirror.linkerd.io/exported": exported, "app": "web" },
            "annotations": { "team": "blue", "config.linkerd.io/opaque-ports": "8080" },
        },
        "spec": { "selector": { "app": "web" }, "ports": [
            { "name": "http", "port": 80, "targetPort": 8080, "appProtocol": "http" },
            { "name": "admin", "port": 9990, "targetPort": "admin" },
            { "name": "dns", "port": 53, "protocol": "UDP" },
        ] },
    }))
    .unwrap()
}

/// Creates endpoints of a Service, like those of Kubernetes. `ready` of them are ready.
pub(crate) async fn endpoints(plane: &ControlPlane, namespace: &str, service: &str, ready: usize) {
    let labels = services(plane, namespace)
        .get(service)
        .await
        .unwrap()
        .metadata
        .labels;
    let mut labels = labels.unwrap_or_default();
    labels.insert("kubernetes.io/service-name".into(), service.into());
    labels.insert(
        "endpointslice.kubernetes.io/managed-by".into(),
        "test".into(),
    );
    let endpoints: Vec<Value> = (0..2)
        .map(|n| {
            json!({ "addresses": [format!("192.0.2.{}", 100 + n)], "conditions": { "ready": n < ready } })
        })
        .collect();
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": format!("{service}-test"), "labels": labels },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    let patch = PatchParams::apply("test").force();
    slices(plane, namespace)
        .patch(&format!("{service}-test"), &patch, &Patch::Apply(slice))
        .await
        .unwrap();
}

/// Creates a Service with a ready endpoint.
pub(crate) async fn export(plane: &ControlPlane, namespace: &str, service: &Service) {
    create(plane, namespace, service).await;
    let name = service.metadata.name.as_deref().unwrap();
    endpoints(plane, namespace, name, 1).await;
}

/// A member of the federated Services of this group, the value of its label.
pub(crate) fn member(name: &str, group: &str, exported: &str) -> Service {
    let mut made = web(name, exported);
    let labels = made.metadata.labels.get_or_insert_default();
    labels.insert(l::FEDERATED.into(), group.into());
    made
}

/// Creates a Service, for which Kubernetes creates slices without endpoints.
pub(crate) async fn create(plane: &ControlPlane, namespace: &str, service: &Service) -> Service {
    services(plane, namespace)
        .create(&PostParams::default(), service)
        .await
        .unwrap()
}

/// Creates a [`member`].
pub(crate) async fn join(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    group: &str,
    exported: &str,
) {
    create(plane, namespace, &member(name, group, exported)).await;
}

/// Changes a Service with a merge patch.
pub(crate) async fn patch(plane: &ControlPlane, namespace: &str, service: &str, patch: Value) {
    services(plane, namespace)
        .patch(service, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
}

/// Sets the label by which a Service is exported, or removes it.
pub(crate) async fn relabel(
    plane: &ControlPlane,
    namespace: &str,
    service: &str,
    exported: Option<&str>,
) {
    let labels = json!({ "metadata": { "labels": { "mirror.linkerd.io/exported": exported } } });
    patch(plane, namespace, service, labels).await;
}

/// Sets the label by which a Service is a member of federated Services, or removes it.
pub(crate) async fn regroup(
    plane: &ControlPlane,
    namespace: &str,
    service: &str,
    group: Option<&str>,
) {
    let labels = json!({ "metadata": { "labels": { l::FEDERATED: group } } });
    patch(plane, namespace, service, labels).await;
}

/// Deletes a Service.
pub(crate) async fn delete(plane: &ControlPlane, namespace: &str, service: &str) {
    services(plane, namespace)
        .delete(service, &DeleteParams::default())
        .await
        .unwrap();
}

/// Whether a federated Service has these members: remote ones, as its annotation lists them, and a local one.
pub(crate) fn has_members(service: &Service, remote: Option<&str>, local: Option<&str>) -> bool {
    annotation(service, l::REMOTE_DISCOVERY) == remote
        && annotation(service, l::LOCAL_DISCOVERY) == local
}

/// Waits for a federated Service that [`has_members`].
pub(crate) async fn members_are(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    remote: Option<&str>,
    local: Option<&str>,
) -> Service {
    service(plane, namespace, name, |now| {
        has_members(now, remote, local)
    })
    .await
}

/// Waits for a Service that meets the condition.
pub(crate) async fn service(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    is: impl Fn(&Service) -> bool,
) -> Service {
    let what = format!("Service {namespace}/{name}");
    eventually(&what, SOON, async || {
        Ok(services(plane, namespace).get_opt(name).await?.filter(&is))
    })
    .await
    .unwrap()
}

pub(crate) async fn gone(plane: &ControlPlane, namespace: &str, name: &str) {
    eventually(
        &format!("{namespace}/{name} to be gone"),
        SOON,
        async || {
            let found = services(plane, namespace).get_opt(name).await?;
            let left = slices_of(plane, namespace, name).await?;
            Ok((found.is_none() && left.is_empty()).then_some(()))
        },
    )
    .await
    .unwrap();
}

pub(crate) async fn slices_of(
    plane: &ControlPlane,
    namespace: &str,
    service: &str,
) -> anyhow::Result<Vec<EndpointSlice>> {
    let parameters = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    Ok(slices(plane, namespace).list(&parameters).await?.items)
}

/// Waits for slices that meet the condition.
pub(crate) async fn slices_that(
    plane: &ControlPlane,
    namespace: &str,
    service: &str,
    are: impl Fn(&[EndpointSlice]) -> bool,
) -> Vec<EndpointSlice> {
    eventually(
        &format!("slices of {namespace}/{service}"),
        SOON,
        async || {
            let found = slices_of(plane, namespace, service).await?;
            Ok(are(&found).then_some(found))
        },
    )
    .await
    .unwrap()
}

pub(crate) fn addresses(slices: &[EndpointSlice]) -> Vec<String> {
    slices
        .iter()
        .flat_map(|s| &s.endpoints)
        .flat_map(|e| e.addresses.clone())
        .collect()
}

pub(crate) fn label<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    service
        .metadata
        .labels
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

pub(crate) fn annotation<'a>(service: &'a Service, key: &str) -> Option<&'a str> {
    service
        .metadata
        .annotations
        .as_ref()?
        .get(key)
        .map(String::as_str)
}

/// Names and numbers of a Service's ports.
pub(crate) fn ports(service: &Service) -> Vec<(&str, i32)> {
    let ports = service
        .spec
        .iter()
        .flat_map(|spec| spec.ports.iter().flatten());
    ports
        .map(|port| (port.name.as_deref().unwrap_or_default(), port.port))
        .collect()
}

/// The ClusterIP of a Service.
pub(crate) fn cluster_ip(service: &Service) -> &str {
    service
        .spec
        .as_ref()
        .unwrap()
        .cluster_ip
        .as_deref()
        .unwrap()
}

/// Whether every endpoint of these slices is ready; `None` if there is none.
pub(crate) fn readiness(slices: &[EndpointSlice]) -> Option<bool> {
    let ready = slices
        .iter()
        .flat_map(|slice| &slice.endpoints)
        .map(|endpoint| endpoint.conditions.as_ref().and_then(|c| c.ready) == Some(true));
    ready.reduce(|all, one| all && one)
}

/// Creates a namespace on each of these control planes.
pub(crate) async fn namespace(name: &str, planes: &[&ControlPlane]) {
    for plane in planes {
        let namespaces: Api<Namespace> = Api::all(plane.client());
        let namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }
}

/// Applies objects, without a process: many tests do, and kubectl takes longer to start than to do it. Tests of what
/// the program prints use [`ControlPlane::apply`].
pub(crate) async fn apply(plane: &ControlPlane, objects: &[Value]) {
    for object in objects {
        let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
        let kind = GroupVersionKind::try_from(object.types.as_ref().unwrap()).unwrap();
        let kind = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = match &object.metadata.namespace {
            Some(namespace) => Api::namespaced_with(plane.client(), namespace, &kind),
            None => Api::all_with(plane.client(), &kind),
        };
        let patch = PatchParams::apply("test").force();
        api.patch(&object.name_any(), &patch, &Patch::Apply(&object))
            .await
            .unwrap();
    }
}

/// A headless Service.
pub(crate) async fn stateful(
    plane: &ControlPlane,
    namespace: &str,
    name: &str,
    exported: &str,
) -> Service {
    let mut service = web(name, exported);
    service.spec.as_mut().unwrap().cluster_ip = Some("None".into());
    create(plane, namespace, &service).await
}

/// Endpoints of a headless Service: hosts with a name each, ready or not.
pub(crate) async fn hosts(
    plane: &ControlPlane,
    namespace: &str,
    service: &str,
    hosts: &[(&str, bool)],
) {
    let labels = services(plane, namespace)
        .get(service)
        .await
        .unwrap()
        .metadata
        .labels;
    let mut labels = labels.unwrap_or_default();
    labels.insert(l::SLICE_SERVICE.into(), service.into());
    labels.insert(l::SLICE_HEADLESS.into(), String::new());
    labels.insert(l::SLICE_MANAGED_BY.into(), "test".into());
    let endpoints: Vec<Value> = hosts
        .iter()
        .zip(100_u32..)
        .map(|((host, ready), n)| {
            let address = format!("192.0.{}.{}", 2 + n / 256, n % 256);
            json!({ "addresses": [address], "hostname": host, "conditions": { "ready": ready } })
        })
        .collect();
    let name = format!("{service}-test");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": name, "labels": labels },
        "addressType": "IPv4", "endpoints": endpoints,
        "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
    });
    slices(plane, namespace)
        .patch(
            &name,
            &PatchParams::apply("test").force(),
            &Patch::Apply(slice),
        )
        .await
        .unwrap();
}

/// A mirror and its Endpoints, as Linkerd's own service mirror creates them, with a former address of the gateway.
pub(crate) async fn linkerds_mirror(
    plane: &ControlPlane,
    namespace: &str,
    service: &str,
    cluster: &str,
) -> Service {
    linkerds_mirror_at(plane, namespace, service, cluster, "192.0.2.99").await
}

/// Like [`linkerds_mirror`], with this gateway.
pub(crate) async fn linkerds_mirror_at(
    plane: &ControlPlane,
    namespace: &str,
    service: &str,
    cluster: &str,
    gateway: &str,
) -> Service {
    let name = format!("{service}-{cluster}");
    let labels = json!({ l::MIRRORED_SERVICE: "true", l::CLUSTER_NAME: cluster, "app": "web" });
    let fq_name = format!("{service}.{namespace}.svc.cluster.local");
    let mirror = json!({
        "metadata": { "name": name, "labels": labels, "annotations": {
            l::REMOTE_FQ_NAME: fq_name, l::REMOTE_RESOURCE_VERSION: "1", "team": "blue",
        } },
        "spec": { "ports": [{ "name": "http", "port": 80, "targetPort": 8080 }] },
    });
    let mirror = serde_json::from_value(mirror).unwrap();
    let mirror = services(plane, namespace)
        .create(&PostParams::default(), &mirror)
        .await
        .unwrap();
    let endpoints = json!({
        "metadata": { "name": name, "labels": labels, "annotations": {
            l::REMOTE_FQ_NAME: fq_name, l::REMOTE_GATEWAY_IDENTITY: "gateway",
        } },
        "subsets": [{ "addresses": [{ "ip": gateway }], "ports": [{ "name": "http", "port": 4143 }] }],
    });
    Api::<Endpoints>::namespaced(plane.client(), namespace)
        .create(
            &PostParams::default(),
            &serde_json::from_value(endpoints).unwrap(),
        )
        .await
        .unwrap();
    // Kubernetes creates a slice for them.
    slices_that(plane, namespace, &name, |s| addresses(s) == [gateway]).await;
    mirror
}

/// The `ClusterIP`s of all Services of a namespace.
pub(crate) async fn cluster_ips(plane: &ControlPlane, namespace: &str) -> BTreeMap<String, String> {
    let all = services(plane, namespace)
        .list(&ListParams::default())
        .await;
    let all = all.unwrap().items;
    all.iter()
        .map(|service| {
            let name = service.metadata.name.clone().unwrap();
            (name, cluster_ip(service).to_owned())
        })
        .collect()
}
