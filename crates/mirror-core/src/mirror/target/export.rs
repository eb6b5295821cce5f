//! Which Services of a target cluster take part, and how. And the selectors for requests to a target cluster: the watches of
//! the controller and the lists of `plan` share them, so that both see the same objects.

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

/// How a Link wants a Service mirrored, if at all. Remote discovery wins where both selectors match.
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
    /// Selectors of the EndpointSlices of Services behind the gateway; none if the Link has no gateway mode.
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

/// Selects the slices of probe Services, in the namespace of Links. Slices that Kubernetes creates for the Endpoints of
/// Linkerd's own service mirror have no other label of ours than the one for the cluster.
pub fn slices_of_probes() -> String {
    format!("{},!{}", l::CLUSTER_NAME, l::MIRRORED_SERVICE)
}

#[cfg(test)]
mod tests;
