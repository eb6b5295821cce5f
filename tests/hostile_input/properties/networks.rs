//! Addresses of gateways, and the networks that a Link allows.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use linkerd_mc::{
    api::labels as l,
    mirror::{
        ClusterNetworks, Confirmed, Key, Object, Refused, Target, Write, networks as read, plan,
        refused_message,
    },
};
use serde_json::{Map, json};

use super::{
    draw::{Draw, is_one_line},
    states::{self, NS},
};

const ADDRESSES: [&str; 25] = [
    "192.0.2.1",
    "10.0.0.1",
    "10.96.0.1",
    "10.96.7.7",
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "169.254.169.254",
    "224.0.0.1",
    "255.255.255.255",
    "2001:db8::1",
    "::1",
    "::",
    "fe80::1",
    "ff02::1",
    "::ffff:127.0.0.1",
    "64:ff9b::7f00:1",
    "64:ff9b:1::a9fe:a9fe",
    "64:ff9b:1::c000:201",
    "2002:7f00:1::1",
    "2002:c000:201::1",
    "::7f00:1",
    "::c000:201",
    "168.63.129.16",
    "fd00:ec2::254",
];
const NETWORKS: [&str; 16] = [
    "",
    " ",
    "0.0.0.0/0",
    "::/0",
    "192.0.2.0/24",
    "10.0.0.0/8",
    "10.96.0.0/12",
    "10.96.0.1",
    "127.0.0.0/8",
    "127.0.0.1",
    "126.0.0.0/7",
    "::1",
    "::ffff:0:0/96",
    "10.0.0.1/8",
    "east",
    ",",
];

/// No slice has an address that is refused; one that is not refused is in the slices; and all that are left out are told.
pub fn networks(data: &[u8]) {
    let mut draw = Draw(data);
    let allowed: Vec<String> = (0..draw.below(4)).map(|_| draw.text(&NETWORKS)).collect();
    let known: Vec<IpAddr> = (0..draw.below(4)).map(|_| address(&mut draw)).collect();
    let cluster = ClusterNetworks {
        api_servers: [IpAddr::from([10, 96, 0, 1])].into(),
        services: read("10.96.0.0/12").unwrap(),
    };
    let mut link = states::link("east", &json!({}));
    link["metadata"]["annotations"] = json!({ l::GATEWAY_NETWORKS: allowed.join(",") });
    let target = match Target::parse(&serde_json::from_value(link).unwrap(), false) {
        Ok(target) => target,
        Err(error) => {
            is_one_line(&error.to_string());
            assert!(read(&allowed.join(",")).is_err(), "{allowed:?}");
            return;
        }
    };
    let allows = target.gateway.as_ref().unwrap().networks.is_some();

    let mut state = states::empty();
    state.local.get_or_insert_default().networks = cluster;
    let labels = Map::from_iter([(l::EXPORTED.to_owned(), "true".into())]);
    let service = states::service(NS, "web", false, &labels, &Map::new());
    states::add(
        &mut state,
        target,
        vec![service],
        vec![states::slice(NS, "web", None)],
    );
    let links = &mut state.links;
    links.get_mut("east").unwrap().gateway.addresses = Some(known.clone());

    let refused = state.refused("east");
    for key in [Key::mirror("east", NS, "web"), Key::gateway("east")] {
        let mut used = Vec::new();
        for write in plan(&state, &key, Confirmed::All).writes {
            if let Write::Create(Object::EndpointSlice(slice)) = write {
                let endpoints = slice.endpoints.iter().flat_map(|e| &e.addresses);
                used.extend(endpoints.map(|text| text.parse::<IpAddr>().unwrap()));
            }
        }
        for address in &used {
            assert!(!refused.iter().any(|r| r.address == *address), "{address}");
            assert!(allows || !is_special(*address), "{address}");
        }
        let left = |address: &&IpAddr| refused.iter().any(|r| r.address == **address);
        let expected = known.iter().filter(|address| !left(address)).count();
        assert_eq!(used.len(), expected, "{known:?} {refused:?}");
    }
    for address in refused.iter().map(|Refused { address, .. }| address) {
        let may_be = is_special(*address) || may_mean_special(*address);
        assert!(allows || may_be, "{address} is refused");
    }
    if !refused.is_empty() {
        is_one_line(&refused_message(&refused));
    }
}

/// One of the usual ones, or any.
fn address(draw: &mut Draw<'_>) -> IpAddr {
    match draw.below(4) {
        0 => IpAddr::from([(); 4].map(|()| draw.byte())),
        1 => IpAddr::from([(); 16].map(|()| draw.byte())),
        _ => draw.pick(&ADDRESSES).parse().unwrap(),
    }
}

fn is_special_v4(v4: Ipv4Addr) -> bool {
    let [a, b, ..] = v4.octets();
    v4 == Ipv4Addr::new(168, 63, 129, 16)
        || v4.is_loopback()
        || v4.is_link_local()
        || v4.is_multicast()
        || v4.is_broadcast()
        || a == 0
        || (a == 10 && (96..112).contains(&b))
}

/// Whether an address of the local NAT64 prefix (RFC 8215) stands for one that is refused, with some length of the
/// prefix.
fn may_mean_special(address: IpAddr) -> bool {
    let IpAddr::V6(v6) = address else {
        return false;
    };
    let bytes = v6.octets();
    let places = [
        [6, 7, 9, 10],
        [7, 9, 10, 11],
        [9, 10, 11, 12],
        [12, 13, 14, 15],
    ];
    let mut meant = places
        .map(|place| Ipv4Addr::from(place.map(|at| bytes[at])))
        .into_iter();
    v6.segments().starts_with(&[0x64, 0xff9b, 1]) && meant.any(is_special_v4)
}

/// Whether an address is refused unless a Link allows it explicitly, by the functions of the standard library.
fn is_special(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => is_special_v4(v4),
        IpAddr::V6(v6) => {
            let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
            let meant = match v6.segments() {
                [0x64, 0xff9b, 0 | 1, 0, 0, 0, high, low]
                | [0, 0, 0, 0, 0 | 0xffff, 0, high, low]
                | [0x2002, high, low, ..] => Some(v4(high, low)),
                _ => None,
            };
            v6.is_loopback()
                || v6.segments()[..2] == [0xfd00, 0xec2]
                || v6.is_unspecified()
                || v6.is_multicast()
                || (Ipv6Addr::is_unicast_link_local(&v6))
                || meant.is_some_and(is_special_v4)
        }
    }
}
