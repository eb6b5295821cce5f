//! Which Services of a target cluster take part, and how.

use super::Target;
use crate::{
    api::{k8s::Service, names::is_dns_label, selector::Selector},
    mirror::metadata::is_mirror,
};

/// How a Service is mirrored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Through the target cluster's gateway.
    Gateway,
    /// Pod to pod: Linkerd asks the target cluster for endpoints.
    RemoteDiscovery,
}

/// How a Link wants a Service mirrored, if at all. Remote discovery wins where both selectors match.
pub fn mode(target: &Target, service: &Service) -> Option<Mode> {
    if selects(target.discovery_selector.as_ref(), service) {
        Some(Mode::RemoteDiscovery)
    } else if selects(target.gateway_selector.as_ref(), service) {
        Some(Mode::Gateway)
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

#[cfg(test)]
mod tests;
