//! Slices whose endpoints have host names: those of a headless mirror.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use super::{
    super::service::Desired,
    GatewayEndpoints,
    slice::{DesiredSlice, MAX_ENDPOINTS, SlicePort, endpoint, families, family, slice_metadata},
};
use crate::{api::k8s::EndpointSlice, mirror::metadata::is_our_slice};

/// A host: its name, its address, whether it takes traffic.
pub(crate) type HostEndpoint<'a> = (&'a str, IpAddr, bool);

/// The slices of hosts with equal ports, of at most [`MAX_ENDPOINTS`] each. `index` distinguishes the groups of hosts
/// of one Service.
///
/// A host stays in the slice of `actual` that it is in, and a new host is added to the first slice with room. So a host
/// that is added or removed changes only one slice.
pub(crate) fn by_host<'a>(
    service: &'a Desired<'_>,
    identity: &'a str,
    index: usize,
    hosts: &[HostEndpoint<'_>],
    ports: &[SlicePort<'a>],
    actual: &[Arc<EndpointSlice>],
) -> Vec<DesiredSlice<'a>> {
    let metadata = slice_metadata(service, identity);
    let addresses: Vec<IpAddr> = hosts.iter().map(|(_, address, _)| *address).collect();
    let mut slices = Vec::new();
    for (suffix, address_type, _) in families(&addresses) {
        let first = match index {
            0 => suffix.to_owned(),
            _ => format!("{suffix}-{index}"),
        };
        let more = format!("{suffix}-{index}-");
        let own = hosts
            .iter()
            .filter(|(_, address, _)| family(*address).1 == address_type);
        let own: Vec<_> = own.copied().collect();
        let present = present(service.name, &first, &more, actual);
        for (part, hosts) in split(&own, &present) {
            let endpoints = hosts
                .into_iter()
                .map(|(host, address, ready)| endpoint(address, Some(host), ready))
                .collect();
            let suffix = match part {
                0 => first.clone(),
                _ => format!("{more}{part}"),
            };
            slices.push(DesiredSlice::new(
                service,
                &metadata,
                &suffix,
                address_type,
                endpoints,
                ports.to_vec(),
            ));
        }
    }
    slices
}

/// An existing slice with its hosts and ports as they are, and with the identity and the readiness of the gateway as they
/// are known now.
pub(crate) fn as_it_is<'a>(
    service: &'a Desired<'_>,
    through: &GatewayEndpoints<'a>,
    actual: &'a EndpointSlice,
) -> DesiredSlice<'a> {
    let metadata = slice_metadata(service, through.identity);
    let suffix = actual.metadata.name().strip_prefix(service.name);
    let suffix = suffix.and_then(|suffix| suffix.strip_prefix('-'));
    let mut endpoints = actual.endpoints.to_vec();
    for endpoint in &mut endpoints {
        endpoint.conditions.ready = Some(through.ready);
    }
    DesiredSlice::new(
        service,
        &metadata,
        suffix.unwrap_or_default(),
        match &*actual.address_type {
            "IPv6" => "IPv6",
            _ => "IPv4",
        },
        endpoints,
        actual.ports.iter().map(SlicePort::of).collect(),
    )
}

/// The number of the slice that each host is in now. The names of slices after the first have their number after
/// `more`.
fn present<'a>(
    service: &str,
    first: &str,
    more: &str,
    actual: &'a [Arc<EndpointSlice>],
) -> BTreeMap<&'a str, usize> {
    let mut present = BTreeMap::new();
    for slice in actual.iter().filter(|slice| is_our_slice(slice)) {
        let name = slice.metadata.name();
        let Some(suffix) = name
            .strip_prefix(service)
            .and_then(|rest| rest.strip_prefix('-'))
        else {
            continue;
        };
        let part = if suffix == first {
            0
        } else {
            let number = suffix.strip_prefix(more).and_then(|n| n.parse().ok());
            match number {
                Some(part) if part > 0 && format!("{more}{part}") == suffix => part,
                _ => continue,
            }
        };
        for host in slice.endpoints.iter().filter_map(|e| e.hostname.as_deref()) {
            let known = present.entry(host).or_insert(part);
            *known = part.min(*known);
        }
    }
    present
}

/// Hosts by the number of their slice.
fn split<'a>(
    hosts: &[HostEndpoint<'a>],
    present: &BTreeMap<&str, usize>,
) -> BTreeMap<usize, BTreeSet<HostEndpoint<'a>>> {
    let mut parts: BTreeMap<usize, BTreeSet<HostEndpoint<'a>>> = BTreeMap::new();
    let mut new = Vec::new();
    for host in hosts {
        let part = present
            .get(host.0)
            .map(|part| parts.entry(*part).or_default());
        match part.filter(|part| part.len() < MAX_ENDPOINTS) {
            Some(part) => drop(part.insert(*host)),
            None => new.push(*host),
        }
    }
    let mut with_room = 0;
    for host in new {
        while parts
            .get(&with_room)
            .is_some_and(|part| part.len() >= MAX_ENDPOINTS)
        {
            with_room += 1;
        }
        parts.entry(with_room).or_default().insert(host);
    }
    parts.retain(|_, hosts| !hosts.is_empty());
    parts
}

#[cfg(test)]
mod tests;
