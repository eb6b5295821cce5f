//! EndpointSlices of mirrors: their desired state, and the writes that bring it about.

mod gateway;
mod hosts;
mod slice;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use serde_json::json;

#[cfg(test)]
pub(crate) use self::slice::MAX_ENDPOINTS;
pub(crate) use self::{
    gateway::{GatewayAddresses, GatewayEndpoints, through_gateway},
    hosts::{HostEndpoint, as_it_is, by_host},
    slice::{DesiredSlice, SlicePort, slice_metadata},
};
use crate::{
    api::{
        k8s::{Endpoint, EndpointSlice},
        labels as l,
    },
    mirror::{
        metadata::{ContentHash, DesiredMetadata},
        state::{State, store::Indexed as _},
        write::{self, Object, ObjectKind, Write, guarded},
    },
};

/// Part of a slice's hash of the desired state while other slices have some of its addresses. A hash of their
/// names follows.
const SHARED: &str = "-shared-";

/// Names of slices by address.
type Holders<'a> = BTreeMap<&'a str, Vec<&'a str>>;

/// The slices in which each address takes traffic. Linkerd removes an address that becomes unready, like a deleted one.
fn holders(slices: &[Arc<EndpointSlice>]) -> Holders<'_> {
    let mut holders = Holders::new();
    for slice in slices {
        let ready = slice
            .endpoints
            .iter()
            .filter(|endpoint| endpoint.is_ready());
        for address in ready.flat_map(|endpoint| &endpoint.addresses) {
            let of = holders.entry(address).or_default();
            of.push(slice.metadata.name());
        }
    }
    holders
}

/// The end of the hash of the desired state of the slice with this name. It is empty unless other slices have some of the
/// addresses of these endpoints.
fn shared_mark(name: &str, endpoints: &[Endpoint], holders: &Holders<'_>) -> String {
    let addresses = endpoints.iter().flat_map(|e| &e.addresses);
    let of = addresses.filter_map(|address| holders.get(&**address));
    let others: BTreeSet<&str> = of.flatten().copied().filter(|of| *of != name).collect();
    if others.is_empty() {
        return String::new();
    }
    let mut content = ContentHash::default();
    for other in others {
        content.feed(other.as_bytes());
    }
    format!("{SHARED}{content}")
}

impl DesiredSlice<'_> {
    /// Whether a patch can turn `actual` into this slice. The address type is immutable, and the admission policy does
    /// not let the controller move a slice to another Service.
    fn can_patch(&self, actual: &EndpointSlice) -> bool {
        let service = actual.metadata.labels.get(l::SLICE_SERVICE);
        *actual.address_type == *self.address_type
            && service
                .is_none_or(|service| self.metadata.labels.get(l::SLICE_SERVICE) == Some(service))
    }

    /// Records in the hash of the desired state which slices share addresses with this one. When one of them loses these
    /// addresses, the hash differs, and this slice is written again.
    fn mark_shared(&mut self, holders: &Holders<'_>) {
        let mark = shared_mark(&self.name, &self.endpoints, holders);
        if !mark.is_empty() {
            let DesiredMetadata { annotations, .. } = &mut self.metadata;
            let state = annotations.get(l::DESIRED_STATE).unwrap_or_default();
            let shared = format!("{state}{mark}");
            annotations.insert(l::DESIRED_STATE, shared.into());
        }
    }
}

/// The writes that turn `actual` into what is desired. Slices that are not ours, or are another installation's, are not
/// touched.
///
/// Linkerd's destination controller forgets an address when any slice of the Service loses it, even if another slice
/// still has it. It learns the address again when that other slice changes (`deleteEndpointSlice` in its
/// `port_publisher.go`). So a slice of ours is written again when a slice with which it shared an address has lost it. The
/// other slice may be ours, or the one that Kubernetes created for the Endpoints of Linkerd's service mirror.
pub(crate) fn reconcile(
    state: &State,
    desired: Vec<DesiredSlice<'_>>,
    actual: &[Arc<EndpointSlice>],
    writes: &mut Vec<Write>,
) {
    reconcile_except(state, desired, actual, |_| false, writes);
}

/// The writes for slices that all stay as they are: those of [`reconcile_except`].
pub(crate) fn keep(state: &State, actual: &[Arc<EndpointSlice>], writes: &mut Vec<Write>) {
    reconcile_except(state, Vec::new(), actual, |_| true, writes);
}

/// Like [`reconcile`], but slices that stay keep their endpoints, and are not deleted. They too are written again when
/// another slice loses an address that they share.
pub(crate) fn reconcile_except(
    state: &State,
    desired: Vec<DesiredSlice<'_>>,
    actual: &[Arc<EndpointSlice>],
    stays: impl Fn(&EndpointSlice) -> bool,
    writes: &mut Vec<Write>,
) {
    let ours = actual.iter().map(AsRef::as_ref);
    let ours = ours.filter(|slice| state.writes_slice(slice));
    let (kept, mut ours): (Vec<&EndpointSlice>, Vec<&EndpointSlice>) =
        ours.partition(|slice| stays(slice));
    let alone = |slice: &DesiredSlice<'_>| {
        let mut others = actual
            .iter()
            .filter(|other| other.metadata.name() != slice.name);
        others.next().is_none()
    };
    let holders = if kept.is_empty() && desired.iter().all(alone) {
        Holders::new()
    } else {
        holders(actual)
    };
    writes.extend(kept.into_iter().filter_map(|slice| mark(slice, &holders)));
    for mut slice in desired {
        slice.mark_shared(&holders);
        let found = ours
            .iter()
            .position(|actual| actual.metadata.name() == slice.name);
        match found.map(|index| ours.swap_remove(index)) {
            None => writes.push(Write::Create(Object::EndpointSlice(Box::new(
                slice.slice(),
            )))),
            Some(actual) if !slice.can_patch(actual) => {
                // The slice is created again once its deletion has been seen.
                writes.push(Write::delete_slice(actual));
            }
            Some(actual) => writes.extend(patch(&slice, actual)),
        }
    }
    ours.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    for slice in ours {
        writes.extend(empty(slice));
        writes.push(Write::delete_slice(slice));
    }
}

/// The write that removes the endpoints of a slice before it is deleted, if some of them are Pods.
///
/// When a slice is deleted, Linkerd's destination controller looks up its Pods, and keeps the address of one that does
/// not exist any more until it is restarted (`deleteEndpointSlice` in its `port_publisher.go`). When a slice is changed,
/// it goes by the names of Pods.
fn empty(slice: &EndpointSlice) -> Option<Write> {
    let ready = slice
        .endpoints
        .iter()
        .filter(|endpoint| endpoint.is_ready());
    let mut pods = ready.filter_map(|endpoint| endpoint.pod.as_ref()?.target.as_ref());
    pods.next()?;
    Some(guarded(
        ObjectKind::EndpointSlice,
        slice.group().unwrap_or_default(),
        &slice.metadata,
        json!({}),
        json!({ "endpoints": [] }),
    ))
}

/// The write that updates the mark of a slice that stays, if other slices now share its addresses, or no longer do.
fn mark(slice: &EndpointSlice, holders: &Holders<'_>) -> Option<Write> {
    let marked = slice.metadata.annotation(l::DESIRED_STATE);
    let plain = marked.split(SHARED).next().unwrap_or_default();
    let shared = shared_mark(slice.metadata.name(), &slice.endpoints, holders);
    let state = format!("{plain}{shared}");
    (state != marked).then(|| {
        guarded(
            ObjectKind::EndpointSlice,
            slice.group().unwrap_or_default(),
            &slice.metadata,
            json!({ "annotations": { l::DESIRED_STATE: state } }),
            json!({}),
        )
    })
}

fn patch(desired: &DesiredSlice<'_>, actual: &EndpointSlice) -> Option<Write> {
    let mut ports = desired.ports.iter().zip(&actual.ports);
    let same_ports =
        desired.ports.len() == actual.ports.len() && ports.all(|(port, actual)| port.is(actual));
    let rest = if *desired.endpoints == *actual.endpoints && same_ports {
        json!({})
    } else {
        json!({ "endpoints": desired.endpoints, "ports": desired.ports() })
    };
    write::patch(
        ObjectKind::EndpointSlice,
        desired.owner.0,
        &desired.metadata,
        // A second owner would keep the slice after its Service is deleted.
        Some(&desired.owners()),
        &actual.metadata,
        rest,
    )
}

#[cfg(test)]
mod tests;
