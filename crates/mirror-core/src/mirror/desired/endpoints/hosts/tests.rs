//! More hosts than fit into one slice: which slice each is in, and which slices change when a host is added or removed.

use std::net::Ipv4Addr;

use super::*;
use crate::mirror::{
    desired::{endpoints::reconcile, service},
    fixtures::{described, state},
    metadata::DesiredMetadata,
    write::Write,
};

fn names(range: impl Iterator<Item = u32>) -> Vec<String> {
    range.map(|n| format!("db-{n:05}")).collect()
}

/// The slices that exist once the writes for these hosts are applied, and the writes.
fn then(actual: &[Arc<EndpointSlice>], hosts: &[String]) -> (Vec<Arc<EndpointSlice>>, Vec<String>) {
    let state = state();
    let installation = &state.config.namespace;
    let mut service = service::build(
        installation,
        "ns",
        "db-east",
        DesiredMetadata::default(),
        &[],
        true,
    );
    service.uid = Some("uid-db-east");
    let hosts: Vec<HostEndpoint<'_>> = hosts
        .iter()
        .map(|host| {
            let number: u32 = host[3..].parse().unwrap();
            (
                host.as_str(),
                Ipv4Addr::from(0x0a00_0000 + number).into(),
                true,
            )
        })
        .collect();
    let desired = by_host(&service, "", 0, &hosts, &[], actual);
    let stands = desired.iter().cloned().map(|slice| Arc::new(slice.slice()));
    let stands: Vec<_> = stands.collect();
    let mut writes: Vec<Write> = Vec::new();
    reconcile(&state, desired, actual, &mut writes);
    let again = by_host(&service, "", 0, &hosts, &[], &stands);
    let mut more = Vec::new();
    reconcile(&state, again, &stands, &mut more);
    assert_eq!(described(&more), [""; 0], "planned again");
    (stands, described(&writes))
}

fn sizes(slices: &[Arc<EndpointSlice>]) -> Vec<(&str, usize)> {
    let sizes = slices
        .iter()
        .map(|s| (s.metadata.name(), s.endpoints.len()));
    sizes.collect()
}

#[test]
fn slices_have_at_most_as_many_hosts_as_the_api_server_accepts() {
    for (count, expected) in [
        (1, vec![("db-east-ipv4", 1)]),
        (1000, vec![("db-east-ipv4", 1000)]),
        (1001, vec![("db-east-ipv4", 1000), ("db-east-ipv4-0-1", 1)]),
        (
            2500,
            vec![
                ("db-east-ipv4", 1000),
                ("db-east-ipv4-0-1", 1000),
                ("db-east-ipv4-0-2", 500),
            ],
        ),
    ] {
        let (stands, _) = then(&[], &names(0..count));
        assert_eq!(sizes(&stands), expected);
    }
}

#[test]
fn a_host_that_is_added_or_removed_changes_one_slice() {
    let mut hosts = names(0..2500);
    let (stands, _) = then(&[], &hosts);
    // The first host is removed: no other host moves.
    let gone = hosts.remove(0);
    let (stands, writes) = then(&stands, &hosts);
    assert_eq!(writes, ["patch EndpointSlice ns/db-east-ipv4"]);
    // A new host takes its place in the first slice, which has room, although its name comes last.
    hosts.push("db-09999".to_owned());
    let (stands, writes) = then(&stands, &hosts);
    assert_eq!(writes, ["patch EndpointSlice ns/db-east-ipv4"]);
    // The first slice is full again.
    hosts.insert(0, gone);
    let (stands, writes) = then(&stands, &hosts);
    assert_eq!(writes, ["patch EndpointSlice ns/db-east-ipv4-0-2"]);
    assert_eq!(
        sizes(&stands),
        [
            ("db-east-ipv4", 1000),
            ("db-east-ipv4-0-1", 1000),
            ("db-east-ipv4-0-2", 501)
        ]
    );
}

#[test]
fn slices_are_created_when_needed_and_deleted_with_their_last_host() {
    let (stands, writes) = then(&[], &names(0..999));
    assert_eq!(writes, ["create EndpointSlice ns/db-east-ipv4"]);
    let (stands, writes) = then(&stands, &names(0..2500));
    assert_eq!(
        writes,
        [
            "patch EndpointSlice ns/db-east-ipv4",
            "create EndpointSlice ns/db-east-ipv4-0-1",
            "create EndpointSlice ns/db-east-ipv4-0-2",
        ]
    );
    // All hosts of the second slice are removed.
    let left: Vec<String> = names((0..1000).chain(2000..2500));
    let (stands, writes) = then(&stands, &left);
    assert_eq!(writes, ["delete EndpointSlice ns/db-east-ipv4-0-1"]);
    // New hosts fill the gap.
    let (stands, writes) = then(&stands, &names((0..1000).chain(2000..2501)));
    assert_eq!(writes, ["create EndpointSlice ns/db-east-ipv4-0-1"]);
    let (stands, writes) = then(&stands, &names(0..10));
    assert_eq!(
        writes,
        [
            "patch EndpointSlice ns/db-east-ipv4",
            "delete EndpointSlice ns/db-east-ipv4-0-1",
            "delete EndpointSlice ns/db-east-ipv4-0-2",
        ]
    );
    assert_eq!(sizes(&stands), [("db-east-ipv4", 10)]);
}

#[test]
fn a_slice_with_too_many_hosts_is_split() {
    let (stands, _) = then(&[], &names(0..1000));
    let mut full = stands[0].as_ref().clone();
    let one_more = endpoint("10.0.3.232".parse().unwrap(), Some("db-01000"), true);
    full.endpoints = [full.endpoints.to_vec(), vec![one_more]].concat().into();
    let (stands, _) = then(&[Arc::new(full)], &names(0..1001));
    let expected = [("db-east-ipv4", 1000), ("db-east-ipv4-0-1", 1)];
    assert_eq!(sizes(&stands), expected);
}

#[test]
fn slices_with_other_names_are_ignored_for_placing_hosts() {
    let (stands, _) = then(&[], &names(0..1));
    let (full, _) = then(&[], &names(1..1001));
    for name in [
        "db-east-ipv4-0-0",
        "db-east-ipv4-0-01",
        "db-east-ipv4-0-x",
        "db-east-ipv4-1-1",
        "db-ipv4",
    ] {
        let mut other = stands[0].as_ref().clone();
        other.metadata.name = Some(name.into());
        let other = Arc::new(other);
        let (stands, writes) = then(std::slice::from_ref(&other), &names(0..2));
        assert_eq!(sizes(&stands), [("db-east-ipv4", 2)]);
        let deletes = format!("delete EndpointSlice ns/{name}");
        assert_eq!(writes, ["create EndpointSlice ns/db-east-ipv4", &deletes]);
        // The hosts in the other slice do not move any host out of the first slice.
        let (_, writes) = then(&[full[0].clone(), other], &names(0..1001));
        let creates = "create EndpointSlice ns/db-east-ipv4-0-1";
        assert!(writes.contains(&creates.to_owned()), "{name}: {writes:?}");
        assert!(writes.contains(&deletes), "{name}: {writes:?}");
        let moved = "patch EndpointSlice ns/db-east-ipv4".to_owned();
        assert!(!writes.contains(&moved), "{name}: {writes:?}");
    }
}
