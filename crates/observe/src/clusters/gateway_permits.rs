//! What the policy of a gateway lets other clusters use, and which Services these may mirror.

use std::collections::BTreeSet;

use client::{ReadError, requests::list_all};
use k8s_openapi::api::core::v1 as core;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta},
};
use mirror_core::api::{
    consent::ExportConsent, labels as l, metadata::ResourceId, route::RouteKind,
};
use serde_json::Value;

/// A Service that other clusters may mirror or federate, by the usual labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// Namespace and name.
    pub id: ResourceId,
    /// Whether it has ports whose protocol proxies do not detect.
    pub is_opaque: bool,
    /// To which clusters it is exported; `None` if its annotation is invalid.
    pub consent: Option<ExportConsent>,
}

/// What the policy of the gateway permits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayPermits {
    /// Whether each meshed workload may use all that the gateway forwards to.
    pub is_whole: bool,
    /// The hosts that have a route.
    pub hosts: BTreeSet<String>,
}

impl GatewayPermits {
    /// Whether a Service has a route.
    pub fn have(&self, of: &ResourceId) -> bool {
        let host = format!("{}.{}.svc.", of.name, of.namespace);
        self.hosts.iter().any(|own| own.starts_with(&host))
    }
}

/// The Services that other clusters may mirror or federate.
pub async fn exports(client: &Client) -> Result<Vec<Export>, ReadError> {
    let api: Api<PartialObjectMeta<core::Service>> = Api::all(client.clone());
    let (exported, members) = futures::try_join!(
        list_all(&api, l::EXPORTED_ANYHOW),
        list_all(&api, l::FEDERATED_MEMBERS)
    )?;
    let read = |service: &PartialObjectMeta<core::Service>| {
        let annotation = |key: &str| service.annotations().get(key).map(String::as_str);
        Export {
            id: ResourceId::of(service),
            is_opaque: annotation(l::OPAQUE_PORTS).is_some_and(|ports| !ports.trim().is_empty()),
            consent: ExportConsent::of(annotation).ok(),
        }
    };
    let mut all: Vec<Export> = exported.iter().chain(&members).map(read).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all.dedup();
    Ok(all)
}

/// What the policy of the gateway in a namespace permits.
pub async fn permits(client: &Client, namespace: &str) -> Result<GatewayPermits, ReadError> {
    let api = |kind| Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind);
    let kind = GroupVersionKind::gvk("policy.linkerd.io", "v1alpha1", "AuthorizationPolicy");
    let policies = ApiResource::from_gvk_with_plural(&kind, "authorizationpolicies");
    let ours = format!("{}={}", l::COMPONENT, l::GATEWAY_EXPORTS);
    let routes = list_all(&api(RouteKind::Policy.resource()), &ours).await?;
    let policies = list_all(&api(policies), "").await?;
    let hosts = routes.iter().flat_map(|route| {
        let hosts = route.data.pointer("/spec/hostnames");
        hosts.and_then(Value::as_array).into_iter().flatten()
    });
    Ok(GatewayPermits {
        is_whole: policies
            .iter()
            .any(|policy| policy.name_any() == l::GATEWAY_SERVER),
        hosts: hosts
            .filter_map(|host| host.as_str().map(str::to_owned))
            .collect(),
    })
}
