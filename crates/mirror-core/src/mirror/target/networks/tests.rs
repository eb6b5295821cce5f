//! Which addresses are refused, and how mirrors change then.

use super::*;
use crate::mirror::{
    Key, State, Target,
    fixtures::{GATEWAY, LINKS, at, backing, described, ip, link, plan, reported, state, svc},
};

fn nets(text: &str) -> Vec<IpNet> {
    networks(text).unwrap()
}

/// A cluster with the usual Service range, and an API server outside of it.
fn cluster() -> ClusterNetworks {
    ClusterNetworks {
        api_servers: [ip("10.96.0.1"), ip("198.51.100.1"), ip("2001:db8::a")].into(),
        services: nets("10.96.0.0/12,fd00:10::/108"),
    }
}

#[test]
fn internal_and_special_addresses_are_refused() {
    use Refusal::{ApiServer, LinkLocal, Loopback, Metadata, Multicast, ServiceRange, Unspecified};
    for (address, expected) in [
        ("192.0.2.1", None),
        ("10.0.0.1", None),
        ("172.16.0.1", None),
        ("2001:db8::1", None),
        ("fd00::1", None),
        ("64:ff9b::192.0.2.1", None),
        ("0.0.0.0", Some(Unspecified)),
        ("0.1.2.3", Some(Unspecified)),
        ("::", Some(Unspecified)),
        ("127.0.0.1", Some(Loopback)),
        ("127.255.255.254", Some(Loopback)),
        ("::1", Some(Loopback)),
        ("::ffff:127.0.0.1", Some(Loopback)),
        ("::ffff:7f00:1", Some(Loopback)),
        ("169.254.169.254", Some(LinkLocal)),
        ("::ffff:169.254.169.254", Some(LinkLocal)),
        ("64:ff9b::169.254.169.254", Some(LinkLocal)),
        ("fe80::1", Some(LinkLocal)),
        ("febf::1", Some(LinkLocal)),
        ("168.63.129.16", Some(Metadata)),
        ("168.63.129.17", None),
        ("100.100.100.200", Some(Metadata)),
        ("192.0.0.192", Some(Metadata)),
        ("fd00:100::100:200", Some(Metadata)),
        ("fd00:c1::a9fe:a9fe", Some(Metadata)),
        ("fd00:ec2::254", Some(Metadata)),
        ("fd00:ec2::23", Some(Metadata)),
        ("fd00:ec3::254", None),
        ("fd20:ce::254", Some(Metadata)),
        ("fd00:42::42", Some(Metadata)),
        ("fd00:a9fe:a9fe::1", Some(Metadata)),
        ("224.0.0.1", Some(Multicast)),
        ("239.255.255.255", Some(Multicast)),
        ("255.255.255.255", Some(Multicast)),
        ("ff02::1", Some(Multicast)),
        ("198.51.100.1", Some(ApiServer)),
        ("::ffff:198.51.100.1", Some(ApiServer)),
        ("2001:db8::a", Some(ApiServer)),
        ("10.96.0.1", Some(ApiServer)),
        ("10.96.0.10", Some(ServiceRange)),
        ("10.111.255.255", Some(ServiceRange)),
        ("10.112.0.0", None),
        ("fd00:10::5", Some(ServiceRange)),
    ] {
        assert_eq!(
            refusal(ip(address), None, &cluster()),
            expected,
            "{address}"
        );
    }
    assert_eq!(
        refusal(ip("10.96.0.1"), None, &ClusterNetworks::default()),
        None
    );
}

#[test]
fn ipv6_forms_of_refused_ipv4_addresses_are_refused() {
    use Refusal::{ApiServer, LinkLocal, Loopback, Metadata, ServiceRange, Unspecified};
    for (address, expected) in [
        // NAT64
        ("64:ff9b::168.63.129.16", Some(Metadata)),
        ("64:ff9b::10.96.0.10", Some(ServiceRange)),
        // NAT64 with a prefix of 96, 64, 56 and 48 bits
        ("64:ff9b:1::192.0.2.1", None),
        ("64:ff9b:1::169.254.169.254", Some(LinkLocal)),
        ("64:ff9b:1:aabb:cc::127.0.0.1", Some(Loopback)),
        ("64:ff9b:1:aabb:c0:2:100:0", None),
        ("64:ff9b:1:aabb:a9:fea9:fe00:0", Some(LinkLocal)),
        ("64:ff9b:1:aac0:0:201::", None),
        ("64:ff9b:1:aaa9:fe:a9fe::", Some(LinkLocal)),
        ("64:ff9b:1:c000:2:100::", None),
        ("64:ff9b:1:a9fe:a9:fe00::", Some(LinkLocal)),
        ("64:ff9b:1:a9fe:a9:fe00:c000:201", Some(LinkLocal)),
        ("64:ff9b:1::", Some(Unspecified)),
        ("64:ff9b:1::1", Some(Unspecified)),
        // 6to4
        ("2002:c000:201::1", None),
        ("2002:a9fe:a9fe::1", Some(LinkLocal)),
        ("2002:7f00:1::", Some(Loopback)),
        ("2002:c633:6401::7", Some(ApiServer)),
        ("2003:a9fe:a9fe::1", None),
        // IPv4-compatible and IPv4-translated
        ("::192.0.2.1", None),
        ("::127.0.0.1", Some(Loopback)),
        ("::100.100.100.200", Some(Metadata)),
        ("::0.0.0.2", Some(Unspecified)),
        ("::ffff:0:192.0.2.1", None),
        ("::ffff:0:169.254.169.254", Some(LinkLocal)),
    ] {
        assert_eq!(
            refusal(ip(address), None, &cluster()),
            expected,
            "{address}"
        );
        let allowed = Some(&nets("::/0,0.0.0.0/0")[..]);
        assert_eq!(refusal(ip(address), allowed, &cluster()), expected);
    }
}

#[test]
fn a_link_allows_refused_ranges_only_by_networks_within_them() {
    use Refusal::{ApiServer, LinkLocal, Loopback, Metadata, NotAllowed, ServiceRange};
    for (allowed, address, expected) in [
        ("192.0.2.0/24", "192.0.2.9", None),
        ("192.0.2.0/24", "198.51.100.9", Some(NotAllowed)),
        ("192.0.2.0/24,198.51.100.9", "198.51.100.9", None),
        ("192.0.2.0/24", "2001:db8::1", Some(NotAllowed)),
        ("192.0.2.0/24", "::ffff:192.0.2.9", None),
        ("192.0.2.0/24", "127.0.0.1", Some(NotAllowed)),
        ("0.0.0.0/0,::/0", "192.0.2.9", None),
        ("0.0.0.0/0,::/0", "127.0.0.1", Some(Loopback)),
        ("0.0.0.0/0,::/0", "::1", Some(Loopback)),
        ("127.0.0.0/8", "127.0.0.1", None),
        ("127.0.0.1", "127.0.0.1", None),
        ("127.0.0.1", "127.0.0.2", Some(NotAllowed)),
        ("::1", "::1", None),
        ("126.0.0.0/7", "127.0.0.1", Some(Loopback)),
        ("169.254.0.0/16", "169.254.169.254", None),
        ("fd00::/16", "fd00:ec2::254", Some(Metadata)),
        ("fd00:ec2::/48", "fd00:ec2::254", None),
        ("64:ff9b::/96", "64:ff9b::192.0.2.1", None),
        ("64:ff9b::/96", "64:ff9b::169.254.169.254", Some(LinkLocal)),
        ("10.0.0.0/8", "10.0.0.1", None),
        ("10.0.0.0/8", "10.96.0.10", Some(ServiceRange)),
        ("10.0.0.0/8,10.96.0.10/32", "10.96.0.10", None),
        ("10.96.0.0/12", "10.96.0.10", None),
        ("10.96.0.0/12", "10.96.0.1", Some(ApiServer)),
        ("10.96.0.1", "10.96.0.1", None),
        ("198.51.100.0/24", "198.51.100.1", Some(ApiServer)),
    ] {
        let found = refusal(ip(address), Some(&nets(allowed)), &cluster());
        assert_eq!(found, expected, "{address} where {allowed} is allowed");
    }
}

#[test]
fn networks_are_parsed_and_mistakes_are_reported() {
    assert_eq!(nets(""), []);
    assert_eq!(nets(" , "), []);
    let read: Vec<String> = nets(" 10.0.0.0/8 ,192.0.2.1,,2001:db8::/32,::1")
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        read,
        ["10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32", "::1/128"]
    );
    for (text, error) in [
        (
            "10.0.0.1/8",
            "network 10.0.0.1/8 has host bits set (use 10.0.0.0/8)",
        ),
        (
            "10.0.0.0/33",
            "invalid network \"10.0.0.0/33\" (use an address, or a network such as 192.0.2.0/24)",
        ),
        (
            "east",
            "invalid network \"east\" (use an address, or a network such as 192.0.2.0/24)",
        ),
        (
            "10.0.0.0/8 10.1.0.0/16",
            "invalid network \"10.0.0.0/8 10.1.0.0/16\" (use an address, or a network such as 192.0.2.0/24)",
        ),
    ] {
        assert_eq!(networks(text).unwrap_err().to_string(), error);
    }
}

#[test]
fn the_message_about_many_refused_addresses_is_short() {
    let refused: Vec<Refused> = (1..=7)
        .map(|last| Refused {
            address: IpAddr::from([127, 0, 0, last]),
            why: Refusal::Loopback,
        })
        .collect();
    assert_eq!(
        refused_message(&refused[..2]),
        "127.0.0.1 is a loopback address; 127.0.0.2 is a loopback address"
    );
    assert!(refused_message(&refused[..5]).ends_with("127.0.0.5 is a loopback address"));
    let all = refused_message(&refused);
    assert!(
        all.ends_with("127.0.0.5 is a loopback address; and 2 more"),
        "{all}"
    );
}

/// A Link to east that allows these networks, whose gateway has these addresses, and a mirror that was created with the
/// usual address.
fn mirrored(allowed: &str, addresses: &[&str]) -> State {
    let mut made = link("east");
    let annotations = made.metadata.annotations.get_or_insert_default();
    annotations.insert(
        crate::api::labels::GATEWAY_NETWORKS.to_owned(),
        allowed.to_owned(),
    );
    let target = Target::parse(&made, false).unwrap();
    let key = Key::mirror("east", "ns", "web");
    let mut state = state()
        .linked(target, &[svc("web").exported()], &[backing("web")])
        .worked_on(&key)
        .worked_on(&Key::gateway("east"))
        .with_link("east", |entry| {
            let addresses = addresses.iter().map(|address| ip(address)).collect();
            entry.gateway.addresses = Some(addresses);
        });
    state.here().networks = cluster();
    state
}

#[test]
fn refused_addresses_are_removed_from_mirrors_and_reported() {
    let mirror = Key::mirror("east", "ns", "web");
    let (slice, probe) = (
        "EndpointSlice ns/web-east-ipv4",
        "EndpointSlice mc/probe-east-ipv4",
    );
    let failed = "web@east: Error: Failed to get gateway address: 127.0.0.1 is a loopback address";
    for (what, state, writes, reports) in [
        (
            "all is well",
            mirrored("", &[GATEWAY]),
            None,
            "web@east: web-east",
        ),
        (
            "one of two is refused: the other is what it was",
            mirrored("", &["127.0.0.1", GATEWAY]),
            None,
            "web@east: web-east",
        ),
        (
            "one of two is refused: the other is new",
            mirrored("", &["127.0.0.1", "192.0.2.9"]),
            Some("patch"),
            "web@east: web-east",
        ),
        (
            "all are refused",
            mirrored("", &["127.0.0.1"]),
            Some("delete"),
            failed,
        ),
        (
            "the Link allows what is refused otherwise",
            mirrored("127.0.0.1", &["127.0.0.1"]),
            Some("create"),
            "web@east: web-east",
        ),
    ] {
        let planned = plan(&state, &mirror);
        let expected = |name: &str| -> Vec<String> {
            writes.iter().map(|verb| format!("{verb} {name}")).collect()
        };
        assert_eq!(described(&planned.writes), expected(slice), "{what}");
        assert_eq!(reported(&planned), [reports], "{what}");
        let planned = plan(&state, &Key::gateway("east"));
        assert_eq!(described(&planned.writes), expected(probe), "{what}");
        let text = format!("{:?}", planned.writes);
        assert!(!text.contains("::ffff:"), "{text}");
    }
    // The addresses of another Link to the cluster, which is not in charge, do not matter.
    let mut younger = link("younger");
    "east".clone_into(&mut younger.spec.target_cluster_name);
    younger.metadata.creation_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(9)));
    let state =
        mirrored("", &["127.0.0.1"]).linked(Target::parse(&younger, false).unwrap(), &[], &[]);
    assert_eq!(state.refused("east").len(), 1);
    assert_eq!(state.refused("younger"), []);
    assert_eq!(state.config.namespace, LINKS);
}

#[test]
fn mirror_of_linkerd_with_a_refused_address_loses_its_endpoints() {
    let mirror = Key::mirror("east", "ns", "web");
    let legacy = svc("web-east").mirrored_by_linkerd("east", "web");
    let state = state()
        .linked(
            Target::parse(&link("east"), false).unwrap(),
            &[svc("web").exported()],
            &[backing("web")],
        )
        .local(&[legacy])
        .with_link("east", |entry| {
            entry.gateway.addresses = Some(vec![ip("169.254.169.254")]);
        });
    let writes = described(&plan(&state, &mirror).writes);
    assert_eq!(
        writes,
        ["delete Endpoints ns/web-east", "patch Service ns/web-east"]
    );
}

#[test]
fn changed_cluster_networks_concern_the_links_with_addresses_in_them() {
    let known = mirrored("", &[GATEWAY]);
    let mut same = known.clone();
    assert_eq!(same.change_networks(ClusterNetworks::default()), []);
    let mut state = known;
    let keys = state.change_networks(ClusterNetworks {
        services: nets("192.0.2.0/24"),
        ..ClusterNetworks::default()
    });
    assert_eq!(keys, state.keys_of_cluster("east"));
    assert_eq!(
        state.refused("east"),
        [Refused {
            address: ip(GATEWAY),
            why: Refusal::ServiceRange
        }]
    );
    assert!(!state.change_networks(ClusterNetworks::default()).is_empty());
    assert_eq!(state.refused("east"), []);
}
