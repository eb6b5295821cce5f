//! EndpointSlices of target clusters: which fields are kept, and which Service they belong to.

use crate::{
    api::{
        k8s::{EndpointConditions, EndpointSlice},
        map::Map,
    },
    mirror::Indexed,
};

/// A slice without the fields that are not needed of slices in target clusters: annotations, and the locations of
/// endpoints and their conditions except readiness.
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
