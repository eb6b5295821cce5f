//! The kinds of objects in a bundle.

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use mirror_core::{api::labels, mirror::local_queries};
use serde_json::Value;

use super::redaction::without_secrets;
use crate::{
    clusters::{collect_full::of_extension, workloads::CONTROL_PLANE_PODS},
    timeline::{Happened, history, of_events},
};

/// Where objects are listed.
pub enum ListedIn {
    /// In all namespaces, or not in any.
    All,
    /// In the namespaces of the extension and of the Links.
    Installation,
    /// In the namespace of Linkerd's control plane.
    Linkerd,
}

/// Which objects are listed.
pub enum ListedObjects {
    All,
    /// Mirrors, federated Services and what belongs to them.
    Mirrors,
    /// Those with this label.
    With(&'static str),
    /// Those of this extension.
    Extension,
}

/// A kind, and which of its objects belong into a bundle.
pub struct BundledKind {
    /// Name of the file.
    pub file: &'static str,
    group: &'static str,
    version: &'static str,
    name: &'static str,
    pub plural: &'static str,
    pub scope: ListedIn,
    which: ListedObjects,
    /// What the file holds.
    pub what: &'static str,
}

#[rustfmt::skip]
pub const KINDS: &[BundledKind] = &[
    BundledKind { file: "links", group: "multicluster.linkerd.io", version: "v1alpha3", name: "Link", plural: "links", scope: ListedIn::All, which: ListedObjects::All, what: "all Links, with their status" },
    BundledKind { file: "namespaces", group: "", version: "v1", name: "Namespace", plural: "namespaces", scope: ListedIn::All, which: ListedObjects::Extension, what: "namespaces of the extension" },
    BundledKind { file: "deployments", group: "apps", version: "v1", name: "Deployment", plural: "deployments", scope: ListedIn::Installation, which: ListedObjects::All, what: "Deployments of the extension" },
    BundledKind { file: "pods", group: "", version: "v1", name: "Pod", plural: "pods", scope: ListedIn::Installation, which: ListedObjects::Extension, what: "Pods of the extension" },
    BundledKind { file: "linkerd-pods", group: "", version: "v1", name: "Pod", plural: "pods", scope: ListedIn::Linkerd, which: ListedObjects::With(CONTROL_PLANE_PODS), what: "Pods of Linkerd's destination and identity controllers" },
    BundledKind { file: "leases", group: "coordination.k8s.io", version: "v1", name: "Lease", plural: "leases", scope: ListedIn::Installation, which: ListedObjects::All, what: "which replica leads" },
    BundledKind { file: "events", group: "", version: "v1", name: "Event", plural: "events", scope: ListedIn::Installation, which: ListedObjects::All, what: "Events of the last hour" },
    BundledKind { file: "linkerd-events", group: "", version: "v1", name: "Event", plural: "events", scope: ListedIn::Linkerd, which: ListedObjects::All, what: "Events of Linkerd's namespace" },
    BundledKind { file: "mirrors", group: "", version: "v1", name: "Service", plural: "services", scope: ListedIn::All, which: ListedObjects::Mirrors, what: "mirrors and federated Services" },
    BundledKind { file: "endpointslices", group: "discovery.k8s.io", version: "v1", name: "EndpointSlice", plural: "endpointslices", scope: ListedIn::All, which: ListedObjects::With(labels::CLUSTER_NAME), what: "endpoints of mirrors" },
    BundledKind { file: "routes", group: "gateway.networking.k8s.io", version: "v1", name: "HTTPRoute", plural: "httproutes", scope: ListedIn::All, which: ListedObjects::Mirrors, what: "routes of federated Services" },
    BundledKind { file: "exported", group: "", version: "v1", name: "Service", plural: "services", scope: ListedIn::All, which: ListedObjects::With(labels::EXPORTED), what: "Services that this cluster exports" },
    BundledKind { file: "members", group: "", version: "v1", name: "Service", plural: "services", scope: ListedIn::All, which: ListedObjects::With(labels::FEDERATED), what: "Services of this cluster that are members of federated Services" },
    BundledKind { file: "policies", group: "admissionregistration.k8s.io", version: "v1", name: "ValidatingAdmissionPolicy", plural: "validatingadmissionpolicies", scope: ListedIn::All, which: ListedObjects::Extension, what: "admission policies of the extension" },
    BundledKind { file: "servicecidrs", group: "networking.k8s.io", version: "v1", name: "ServiceCIDR", plural: "servicecidrs", scope: ListedIn::All, which: ListedObjects::All, what: "ranges of ClusterIPs" },
];

impl BundledKind {
    pub fn resource(&self) -> ApiResource {
        let kind = GroupVersionKind::gvk(self.group, self.version, self.name);
        ApiResource::from_gvk_with_plural(&kind, self.plural)
    }

    /// Selects its objects; `None` for all.
    pub fn selector(&self) -> Option<String> {
        match self.which {
            ListedObjects::All => None,
            ListedObjects::Mirrors => local_queries().mirrors.labels,
            ListedObjects::With(label) => Some(label.to_owned()),
            ListedObjects::Extension => Some(of_extension()),
        }
    }

    /// What happened to objects of this kind, or what Events say.
    pub fn history(&self, objects: &[DynamicObject]) -> Vec<Happened> {
        match self.plural {
            "events" => {
                let events = objects.iter().filter_map(|event| {
                    let event = serde_json::to_value(event).ok()?;
                    serde_json::from_value(event).ok()
                });
                of_events(&events.collect::<Vec<_>>(), &[String::new()].into())
            }
            // That of our controllers is known.
            "leases" => Vec::new(),
            _ => {
                let all = objects.iter();
                all.flat_map(|object| history(self.name, object)).collect()
            }
        }
    }

    /// An object of this kind without what is secret. A list has no types.
    pub fn shown(&self, object: DynamicObject) -> Value {
        let mut shown = serde_json::to_value(object).unwrap_or_default();
        shown["apiVersion"] = self.resource().api_version.into();
        shown["kind"] = self.name.into();
        without_secrets(&mut shown);
        shown
    }
}
