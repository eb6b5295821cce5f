//! EndpointSlices of target clusters: what is held of them, and whose they are.

use crate::{
    api::{
        k8s::{EndpointConditions, EndpointSlice},
        map::Map,
    },
    mirror::Grouped,
};

/// A slice without what nobody reads of slices in target clusters: annotations, and where endpoints are.
pub(super) fn bare(mut slice: EndpointSlice) -> EndpointSlice {
    slice.metadata.annotations = Map::default();
    for endpoint in &mut slice.endpoints {
        endpoint.place = None;
        let EndpointConditions { ready, .. } = endpoint.conditions;
        endpoint.conditions = EndpointConditions {
            ready,
            ..EndpointConditions::default()
        };
    }
    slice
}

/// Namespace and name of the Service that a slice belongs to.
pub(in crate::controller) fn service_of(slice: &EndpointSlice) -> (String, String) {
    let service = slice.group().unwrap_or_default();
    (slice.metadata.namespace().to_owned(), service.to_owned())
}
