//! What the policy of a gateway lets other clusters use, and which Services these may mirror.

use std::collections::BTreeSet;

use client::{ReadError, requests::list_all};
use k8s_openapi::api::core::v1 as core;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta},
};
use mirror_core::api::{consent::ExportConsent, labels as l, metadata::ResourceId};
use serde_json::Value;

/// The policy of `install` that permits the whole gateway.
pub const WHOLE: &str = "linkerd-gateway";
/// Selects the routes that the controller writes.
const ROUTES: &str = "component=gateway-exports";

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
    let api = |version, kind| {
        let kind =
            ApiResource::from_gvk(&GroupVersionKind::gvk("policy.linkerd.io", version, kind));
        Api::<DynamicObject>::namespaced_with(client.clone(), namespace, &kind)
    };
    let routes = list_all(&api("v1beta3", "HTTPRoute"), ROUTES).await?;
    let policies = list_all(&api("v1alpha1", "AuthorizationPolicy"), "").await?;
    let hosts = routes.iter().flat_map(|route| {
        let hosts = route.data.pointer("/spec/hostnames");
        hosts.and_then(Value::as_array).into_iter().flatten()
    });
    Ok(GatewayPermits {
        is_whole: policies.iter().any(|policy| policy.name_any() == WHOLE),
        hosts: hosts
            .filter_map(|host| host.as_str().map(str::to_owned))
            .collect(),
    })
}
