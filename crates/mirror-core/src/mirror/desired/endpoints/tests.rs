//! Slices: families, ports, identity and readiness, and which existing slices are written.

use std::{borrow::Cow, net::IpAddr};

use super::*;
use crate::{
    api::{
        k8s::{Endpoint, EndpointPort, ServicePort},
        metadata::OwnerReference,
    },
    mirror::{
        desired::service::Desired,
        fixtures::{described, endpoint as seen, ip, map, port, slice, state, target},
    },
};

/// A Service whose mirror has labels that were copied.
fn service(ports: &[ServicePort]) -> Desired<'_> {
    let labels = [
        ("app", "web".into()),
        (l::MIRRORED_SERVICE, "true".into()),
        (l::CLUSTER_NAME, "east".into()),
    ];
    let annotations = [(l::REMOTE_FQ_NAME, "web.ns.svc.cluster.local".into())];
    Desired {
        installation: "mc",
        namespace: "ns",
        name: "web-east",
        uid: Some("uid-web-east"),
        metadata: DesiredMetadata {
            labels: labels.into(),
            annotations: annotations.into(),
        },
        ports,
        headless: false,
    }
}

/// The slices for these addresses and ports. `ready`: whether the gateway is; `backed`: whether the Service has
/// endpoints.
fn made(
    addresses: &[&str],
    ports: &[ServicePort],
    ready: bool,
    backed: bool,
) -> Vec<EndpointSlice> {
    let (service, addresses) = (service(ports), ips(addresses));
    let slices = through_gateway(&service, &through(&addresses, ready, backed), "").into_iter();
    slices.map(DesiredSlice::slice).collect()
}

fn ips(addresses: &[&str]) -> Vec<IpAddr> {
    addresses.iter().map(|text| ip(text)).collect()
}

fn through(addresses: &[IpAddr], ready: bool, backed: bool) -> GatewayEndpoints<'_> {
    GatewayEndpoints {
        port: target("east").gateway.unwrap().port,
        identity: "identity",
        addresses: Cow::Borrowed(addresses),
        refused: Vec::new(),
        ready,
        backed,
    }
}

fn of(protocol: &str, made: ServicePort) -> ServicePort {
    ServicePort {
        protocol: Some(protocol.into()),
        ..made
    }
}

#[test]
fn each_address_family_has_a_slice_of_its_own() {
    let (v4, v6) = ("192.0.2.1", "2001:db8::1");
    for (addresses, expected) in [
        (vec![v4], vec![("web-east-ipv4", "IPv4", vec![v4])]),
        (vec![v6], vec![("web-east-ipv6", "IPv6", vec![v6])]),
        (
            vec![v6, v4, "192.0.2.2"],
            vec![
                ("web-east-ipv4", "IPv4", vec![v4, "192.0.2.2"]),
                ("web-east-ipv6", "IPv6", vec![v6]),
            ],
        ),
    ] {
        let slices = made(&addresses, &[port("http", 80)], true, true);
        let found: Vec<_> = slices
            .iter()
            .map(|slice| {
                let addresses = slice.endpoints.iter().map(|e| &*e.addresses[0]);
                let name = slice.metadata.name.as_deref().unwrap();
                (name, &*slice.address_type, addresses.collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn ports_have_the_services_names_and_the_gateways_number() {
    let named = ServicePort {
        app_protocol: Some("kubernetes.io/h2c".into()),
        ..port("grpc", 81)
    };
    let unnamed = ServicePort {
        name: None,
        protocol: None,
        ..port("", 80)
    };
    let tcp = |name: &str, app: Option<&str>| EndpointPort {
        name: Some(name.into()),
        protocol: Some("TCP".into()),
        port: Some(4143),
        app_protocol: app.map(Into::into),
    };
    for (what, ports, expected) in [
        (
            "3.1 by name",
            vec![port("http", 80)],
            vec![tcp("http", None)],
        ),
        (
            "the only port may have no name",
            vec![unnamed],
            vec![tcp("", None)],
        ),
        (
            "D14 appProtocol is copied",
            vec![port("http", 80), named],
            vec![tcp("http", None), tcp("grpc", Some("kubernetes.io/h2c"))],
        ),
        (
            "D14 the gateway carries TCP only",
            vec![
                of("UDP", port("dns", 53)),
                port("dns-tcp", 53),
                of("SCTP", port("s", 9)),
            ],
            vec![tcp("dns-tcp", None)],
        ),
    ] {
        let slices = made(&["192.0.2.1"], &ports, true, true);
        assert_eq!(slices[0].ports, expected.into(), "{what}");
    }
    let no_tcp = made(&["192.0.2.1"], &[of("UDP", port("dns", 53))], true, true);
    assert_eq!(
        (no_tcp[0].ports.len(), no_tcp[0].endpoints.len()),
        (0, 0),
        "D14 no port, no endpoint"
    );
}

#[test]
fn endpoints_are_as_ready_as_the_gateway_and_absent_for_services_without_endpoints() {
    for (what, ready, backed, expected) in [
        ("3.2 alive", true, true, vec![true]),
        ("3.2 dead", false, true, vec![false]),
        ("nothing behind it", true, false, vec![]),
    ] {
        let slices = made(&["192.0.2.1"], &[port("http", 80)], ready, backed);
        let found: Vec<bool> = slices[0].endpoints.iter().map(Endpoint::is_ready).collect();
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn metadata_is_what_linkerd_reads_and_no_copied_labels() {
    let slices = made(&["192.0.2.1"], &[port("http", 80)], true, true);
    let metadata = &slices[0].metadata;
    let labels = map(&[
        (l::MIRRORED_SERVICE, "true"),
        (l::CLUSTER_NAME, "east"),
        (l::SLICE_SERVICE, "web-east"),
        (l::SLICE_MANAGED_BY, l::MANAGER),
    ]);
    assert_eq!(metadata.labels, labels);
    let annotation = |key| metadata.annotations.get(key);
    assert_eq!(annotation(l::REMOTE_GATEWAY_IDENTITY), Some("identity"));
    let fq_name = Some("web.ns.svc.cluster.local");
    assert_eq!(annotation(l::REMOTE_FQ_NAME), fq_name);
    let owner = OwnerReference {
        api_version: "v1".into(),
        kind: "Service".into(),
        name: "web-east".into(),
        uid: "uid-web-east".into(),
        ..OwnerReference::default()
    };
    assert_eq!(metadata.owner_references, [owner].into());
    let service = Desired {
        metadata: DesiredMetadata::default(),
        ..service(&[])
    };
    let metadata = slice_metadata(&service, "");
    assert!(
        metadata.annotations.iter().next().is_none(),
        "no identity: no annotation"
    );
}

#[test]
fn only_our_slices_that_differ_are_written() {
    let addresses = ["192.0.2.1", "2001:db8::1"];
    let http = [port("http", 80)];
    let (service, known) = (service(&http), ips(&addresses));
    let both = || through_gateway(&service, &through(&known, true, true), "");
    let made = || made(&addresses, &[port("http", 80)], true, true);
    let existing = |slices: Vec<EndpointSlice>| -> Vec<Arc<EndpointSlice>> {
        let slices = slices.into_iter().map(|mut slice| {
            slice.metadata.uid = slice.metadata.name.clone();
            Arc::new(slice)
        });
        slices.collect()
    };
    let with = |edit: fn(&mut EndpointSlice)| {
        let mut slices = made();
        edit(&mut slices[0]);
        existing(slices)
    };
    let patch = vec!["patch EndpointSlice ns/web-east-ipv4"];
    for (what, desired, actual, writes) in [
        ("nothing differs", both(), existing(made()), vec![]),
        (
            "the gateway has no IPv6 address any more",
            both()[..1].to_vec(),
            existing(made()),
            vec!["delete EndpointSlice ns/web-east-ipv6"],
        ),
        (
            "the gateway has a new IPv6 address",
            both(),
            existing(made()[..1].to_vec()),
            vec!["create EndpointSlice ns/web-east-ipv6"],
        ),
        (
            "endpoints were changed",
            both(),
            with(|s| s.endpoints = Box::default()),
            patch.clone(),
        ),
        (
            "ports were changed",
            both(),
            with(|s| s.ports = Box::default()),
            patch.clone(),
        ),
        (
            "a port's name was changed",
            both(),
            with(|s| s.ports[0].name = Some("web".into())),
            patch.clone(),
        ),
        (
            "a port's protocol was changed",
            both(),
            with(|s| s.ports[0].protocol = Some("UDP".into())),
            patch.clone(),
        ),
        (
            "a port's number was changed",
            both(),
            with(|s| s.ports[0].port = Some(80)),
            patch.clone(),
        ),
        (
            "a port's appProtocol was changed",
            both(),
            with(|s| s.ports[0].app_protocol = Some("http".into())),
            patch.clone(),
        ),
        (
            "the owner was changed",
            both(),
            with(|s| s.metadata.owner_references = Box::default()),
            patch.clone(),
        ),
        (
            "an owner was added, which would keep the slice",
            both(),
            with(|s| {
                let own = &s.metadata.owner_references;
                let added = OwnerReference::to_service("theirs", "uid-theirs");
                s.metadata.owner_references = [own[0].clone(), added].into();
            }),
            patch.clone(),
        ),
        (
            "an address type is immutable: the slice is created again in the next pass",
            both(),
            with(|s| s.address_type = "IPv6".into()),
            vec!["delete EndpointSlice ns/web-east-ipv4"],
        ),
        (
            "somebody else's slice is not touched",
            Vec::new(),
            vec![Arc::new(slice("web-east", "theirs"))],
            vec![],
        ),
    ] {
        let mut found = Vec::new();
        reconcile(&state(), desired, &actual, &mut found);
        assert_eq!(described(&found), writes, "{what}");
    }
}

#[test]
fn slices_with_copied_labels_lose_them_in_one_write() {
    let mut earlier = made(&["192.0.2.1"], &[port("http", 80)], true, true).remove(0);
    earlier.metadata.labels.insert("app", "web");
    let annotations = &mut earlier.metadata.annotations;
    annotations.remove(l::COPIED_KEYS);
    annotations.insert(l::DESIRED_STATE, "of another Service");
    let (ports, addresses) = ([port("http", 80)], ips(&["192.0.2.1"]));
    let service = service(&ports);
    let pass = |actual: &EndpointSlice| {
        let desired = through_gateway(&service, &through(&addresses, true, true), "");
        let mut writes = Vec::new();
        reconcile(&state(), desired, &[Arc::new(actual.clone())], &mut writes);
        writes
    };
    let writes = pass(&earlier);
    let [Write::Patch(patch)] = &writes[..] else {
        panic!("{writes:?}");
    };
    assert!(!patch.urgent, "traffic does not depend on it");
    assert!(patch.body.get("endpoints").is_none());
    let metadata = &patch.body["metadata"];
    assert_eq!(metadata["labels"]["app"], json!(null));
    assert_eq!(metadata["labels"][l::CLUSTER_NAME], "east");
    earlier.metadata.labels.remove("app");
    let state = metadata["annotations"][l::DESIRED_STATE].as_str().unwrap();
    earlier.metadata.annotations.insert(l::DESIRED_STATE, state);
    assert_eq!(pass(&earlier), []);
}

#[test]
fn keys_that_people_add_to_a_slice_survive_our_writes() {
    let (ports, addresses) = ([port("http", 80)], ips(&["192.0.2.1"]));
    let service = service(&ports);
    let mut actual = made(&["192.0.2.1"], &ports, true, true).remove(0);
    actual.metadata.labels.insert("theirs", "x");
    actual.metadata.annotations.insert("theirs", "x");
    let dead = through_gateway(&service, &through(&addresses, false, true), "");
    let mut writes = Vec::new();
    reconcile(&state(), dead, &[Arc::new(actual)], &mut writes);
    let [Write::Patch(patch)] = &writes[..] else {
        panic!("{writes:?}");
    };
    let metadata = &patch.body["metadata"];
    for keys in ["labels", "annotations"] {
        let keys = metadata[keys].as_object().unwrap();
        assert!(!keys.contains_key("theirs"), "{keys:?}");
    }
}

#[test]
fn slices_of_another_installation_are_left_alone() {
    let written_by = |installation: Option<&str>| {
        let mut made = slice("web-east", "ipv4");
        made.metadata.labels.insert(l::SLICE_MANAGED_BY, l::MANAGER);
        if let Some(installation) = installation {
            made.metadata
                .annotations
                .insert(l::INSTALLATION, installation);
        }
        std::sync::Arc::new(made)
    };
    for (installation, writes) in [
        (Some("elsewhere"), vec![]),
        (None, vec!["delete EndpointSlice ns/web-east-ipv4"]),
        (
            Some(crate::mirror::fixtures::LINKS),
            vec!["delete EndpointSlice ns/web-east-ipv4"],
        ),
    ] {
        let mut found = Vec::new();
        let actual = [written_by(installation)];
        reconcile(&state(), Vec::new(), &actual, &mut found);
        assert_eq!(described(&found), writes, "{installation:?}");
    }
}

#[test]
fn slice_is_written_again_when_it_no_longer_shares_addresses() {
    let one = made(&["192.0.2.1"], &[port("http", 80)], true, true).remove(0);
    let mut other = slice("web-east", "of-endpoints");
    other.endpoints = [seen("192.0.2.1", None, true)].into();
    let mut elsewhere = other.clone();
    elsewhere.endpoints = [seen("192.0.2.2", None, true)].into();
    let (other, elsewhere) = (Arc::new(other), Arc::new(elsewhere));
    // The slices that exist after the writes, and the number of writes.
    let pass = |actual: &[Arc<EndpointSlice>]| {
        let (ports, addresses) = ([port("http", 80)], ips(&["192.0.2.1"]));
        let service = service(&ports);
        let desired = through_gateway(&service, &through(&addresses, true, true), "");
        let mut writes = Vec::new();
        reconcile(&state(), desired, actual, &mut writes);
        let count = writes.len();
        let mut stands = one.clone();
        for write in writes {
            match write {
                Write::Create(Object::EndpointSlice(made)) => stands = *made,
                Write::Patch(patch) => {
                    let state = &patch.body["metadata"]["annotations"][l::DESIRED_STATE];
                    let state = state.as_str().unwrap();
                    stands.metadata.annotations.insert(l::DESIRED_STATE, state);
                }
                other => panic!("{other:?}"),
            }
        }
        (Arc::new(stands), count)
    };
    let (shared, count) = pass(std::slice::from_ref(&other));
    assert_eq!(count, 1);
    assert_eq!(pass(&[shared.clone(), other.clone()]).1, 0);
    let (alone, count) = pass(std::slice::from_ref(&shared));
    assert_eq!(count, 1);
    assert_eq!(alone.metadata.annotations, one.metadata.annotations);
    assert_eq!(pass(std::slice::from_ref(&alone)).1, 0);
    // A slice with other addresses is no reason to write.
    assert_eq!(pass(&[alone.clone(), elsewhere]).1, 0);
    assert_eq!(pass(&[alone, other]).1, 1);
}

#[test]
fn slice_that_stays_is_marked_while_it_shares_addresses_and_written_again_after_that() {
    let mut kept = made(&["192.0.2.1"], &[port("http", 80)], true, true).remove(0);
    let mut other = slice("web-east", "of-endpoints");
    other.endpoints = [seen("192.0.2.1", None, true)].into();
    // The states that are written. Nothing else is written.
    let pass = |kept: &EndpointSlice, others: &[EndpointSlice]| -> Vec<String> {
        let actual: Vec<_> = others.iter().chain([kept]).cloned().map(Arc::new).collect();
        let mut writes = Vec::new();
        reconcile_except(&state(), Vec::new(), &actual, |_| true, &mut writes);
        let written = writes.into_iter().map(|write| match write {
            Write::Patch(patch) => {
                assert!(patch.urgent);
                assert!(patch.body.get("endpoints").is_none());
                let annotations = patch.body["metadata"]["annotations"].as_object().unwrap();
                assert_eq!(annotations.len(), 1);
                annotations[l::DESIRED_STATE].as_str().unwrap().to_owned()
            }
            other => panic!("{other:?}"),
        });
        written.collect()
    };
    let plain = kept.metadata.annotation(l::DESIRED_STATE).to_owned();
    assert_eq!(pass(&kept, &[]), [""; 0]);
    let shared = pass(&kept, std::slice::from_ref(&other));
    assert!(
        matches!(&*shared, [state] if state.starts_with(&format!("{plain}{SHARED}"))),
        "{shared:?}"
    );
    let mark = |kept: &mut EndpointSlice, state: &str| {
        kept.metadata.annotations.insert(l::DESIRED_STATE, state);
    };
    mark(&mut kept, &shared[0]);
    assert_eq!(pass(&kept, std::slice::from_ref(&other)), [""; 0]);
    // It is written again for each slice that goes, also while another one still has the address.
    let mut third = slice("web-east", "third");
    third.endpoints = other.endpoints.clone();
    let by_three = pass(&kept, &[other.clone(), third.clone()]);
    assert_eq!(by_three.len(), 1);
    mark(&mut kept, &by_three[0]);
    assert_eq!(pass(&kept, &[other.clone(), third]), [""; 0]);
    assert_eq!(pass(&kept, std::slice::from_ref(&other)), shared);
    mark(&mut kept, &shared[0]);
    let mut unready = other;
    unready.endpoints = [seen("192.0.2.1", None, false)].into();
    assert_eq!(pass(&kept, &[unready]), std::slice::from_ref(&plain));
    assert_eq!(pass(&kept, &[]), [plain]);
}
