//! Which Services of a target cluster take part, and how. And the selectors for requests to a target cluster: the watches
//! of the controller and the lists of `plan` share them, so that both see the same objects. At the end, what is requested
//! from the source cluster.

use std::collections::BTreeSet;

use super::Target;
use crate::{
    api::{k8s::Service, labels as l, names::is_dns_label, selector::Selector},
    mirror::{key::Names, metadata::is_mirror},
};

/// How a Service is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorMode {
    /// Through the target cluster's gateway.
    Gateway,
    /// Pod to pod: Linkerd asks the target cluster for endpoints.
    RemoteDiscovery,
}

/// How a Link wants a Service mirrored, if at all. Remote discovery wins where both selectors match. `State::mode` also
/// knows the Services that are mirrored because a federated Service prefers their cluster.
pub fn mode(target: &Target, service: &Service) -> Option<MirrorMode> {
    if selects(target.discovery_selector.as_ref(), service) {
        Some(MirrorMode::RemoteDiscovery)
    } else if selects(target.gateway_selector.as_ref(), service) {
        Some(MirrorMode::Gateway)
    } else {
        None
    }
}

/// Whether a Link makes a Service a member of a federated Service.
pub fn member(target: &Target, service: &Service) -> bool {
    selects(target.federated_selector.as_ref(), service)
}

/// Whether a selector selects a Service. Services that a service mirror created are never selected, and neither are
/// those with an invalid name or namespace, which an untrusted API server could send.
pub(crate) fn selects(selector: Option<&Selector>, service: &Service) -> bool {
    selector.is_some_and(|selector| selector.matches(&service.metadata.labels))
        && !is_mirror(service)
        && is_dns_label(service.metadata.namespace())
        && is_dns_label(service.metadata.name())
}

/// Maximum number of names in one selector of [`slices_of`]: a name has up to 63 characters, and the length of a URL is
/// limited to a few thousand.
const NAMES: usize = 50;

/// The label selectors for requests to a target cluster. The target cluster sends only objects that match one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queries {
    /// Selectors of Services.
    pub services: Vec<String>,
    /// Selectors of the EndpointSlices of Services that are reached through the gateway: of mirrors in gateway mode,
    /// and of members of federated Services that are made of slices.
    ///
    /// Kubernetes copies a Service's labels to the slices that it creates. Whoever creates slices for a Service without
    /// a selector has to label them, as Linkerd requires it of Endpoints.
    pub slices: Vec<String>,
}

impl Target {
    /// The selectors for this cluster. `by_slices`: the value of [`Links::by_slices`](crate::mirror::Links::by_slices).
    pub fn queries(&self, by_slices: bool) -> Queries {
        let texts = |selectors: &[Selector]| selectors.iter().map(Selector::query).collect();
        Queries {
            services: texts(&self.service_selectors()),
            slices: texts(&self.slice_selectors(by_slices)),
        }
    }
}

/// Selectors of the slices of Services with these names. They ignore the namespaces, so slices of other Services with
/// the same names match too, and the caller has to ignore these.
pub fn slices_of(names: &Names) -> Vec<String> {
    let names: BTreeSet<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    names
        .chunks(NAMES)
        .map(|names| format!("{} in ({})", l::SLICE_SERVICE, names.join(",")))
        .collect()
}

/// Which objects of a kind are requested from the source cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only those in the namespace of Links.
    pub of_installation: bool,
    /// A label selector.
    pub labels: Option<String>,
    /// A field selector.
    pub fields: Option<String>,
}

impl Query {
    /// Objects with these labels, in all namespaces.
    pub fn of_labels(selector: impl Into<String>) -> Self {
        Self {
            labels: Some(selector.into()),
            ..Self::default()
        }
    }
}

/// The objects that are always requested from the source cluster, besides namespaces.
pub struct LocalQueries {
    /// Mirrors, and their slices.
    pub mirrors: Query,
    /// Services that lead to gateways themselves.
    pub gateways: Query,
    /// Slices of these Services.
    pub gateway_slices: Query,
    /// Links.
    pub links: Query,
    /// Secrets with credentials.
    pub credentials: Query,
}

/// What is always requested from the source cluster, besides namespaces.
pub fn local_queries() -> LocalQueries {
    let is_true = |label: &str| Query::of_labels(format!("{label}=true"));
    let links = Query {
        of_installation: true,
        ..Query::default()
    };
    // Slices that Kubernetes creates for the Endpoints of Linkerd's own service mirror have no other label of ours than
    // the one for the cluster.
    let slices_of_gateways = format!("{},!{}", l::CLUSTER_NAME, l::MIRRORED_SERVICE);
    LocalQueries {
        mirrors: is_true(l::MIRRORED_SERVICE),
        gateways: Query {
            of_installation: true,
            ..is_true(l::MIRRORED_GATEWAY)
        },
        gateway_slices: Query {
            of_installation: true,
            ..Query::of_labels(slices_of_gateways)
        },
        credentials: Query {
            fields: Some(format!("type={}", l::CREDENTIALS_TYPE)),
            ..links.clone()
        },
        links,
    }
}

#[cfg(test)]
mod tests;
