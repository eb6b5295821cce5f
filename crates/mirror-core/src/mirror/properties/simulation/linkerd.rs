//! What Linkerd's destination controller makes of EndpointSlices, event by event.
//!
//! It identifies an endpoint without a target by its Service, address, port and host name, whichever slice it is in.
//! When a slice loses an endpoint, Linkerd forgets it, even if another slice has it too. Any event of the other slice
//! brings it back (`controller/api/destination/watcher/port_publisher.go`).

use std::collections::{BTreeMap, BTreeSet};

use super::super::cluster::Id;
use crate::{api::k8s::EndpointSlice, mirror::Indexed as _};

/// Endpoints by Service.
pub(crate) type Known = BTreeMap<Id, BTreeSet<String>>;

/// Applies a change of a slice to what Linkerd knows.
pub(crate) fn saw(
    known: &mut Known,
    before: Option<&EndpointSlice>,
    after: Option<&EndpointSlice>,
) {
    if let Some((service, endpoints)) = before.and_then(ready) {
        let of = known.entry(service).or_default();
        of.retain(|endpoint| !endpoints.contains(endpoint));
    }
    if let Some((service, endpoints)) = after.and_then(ready) {
        known.entry(service).or_default().extend(endpoints);
    }
}

/// The endpoints of the existing slices.
pub(crate) fn said<'a>(slices: impl Iterator<Item = &'a EndpointSlice>) -> Known {
    let mut said = Known::new();
    for (service, endpoints) in slices.filter_map(ready) {
        said.entry(service).or_default().extend(endpoints);
    }
    said
}

/// The endpoints of a slice that take traffic, and their Service.
fn ready(slice: &EndpointSlice) -> Option<(Id, BTreeSet<String>)> {
    let service = (
        slice.metadata.namespace().to_owned(),
        slice.group()?.to_owned(),
    );
    let mut endpoints = BTreeSet::new();
    for endpoint in slice
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.is_ready())
    {
        let host = endpoint.hostname.as_deref().unwrap_or_default();
        for port in slice.ports.iter().filter_map(|port| port.port) {
            let of = |address: &_| format!("{address}-{port}-{host}");
            endpoints.extend(endpoint.addresses.iter().map(of));
        }
    }
    (!endpoints.is_empty()).then_some((service, endpoints))
}
