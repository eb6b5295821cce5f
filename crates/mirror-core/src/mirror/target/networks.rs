//! Which addresses a gateway may have. The author of a Link, or the owner of a DNS name in it, must not be able to
//! direct the traffic of mirrors to internal addresses: a Pod's loopback, a cloud's metadata server, or the API server.

use std::{collections::BTreeSet, fmt, net::IpAddr, sync::LazyLock};

use ipnet::IpNet;
use thiserror::Error;

use crate::api::text::short;

/// Networks of this cluster in which no gateway may be, unless its Link names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterNetworks {
    /// Addresses of the API server.
    pub api_servers: BTreeSet<IpAddr>,
    /// The ranges of `ClusterIP`s, as far as they are known.
    pub services: Vec<IpNet>,
}

/// Why an address is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// It means no host, or this one.
    Unspecified,
    /// It means the host that uses it.
    Loopback,
    /// It is valid only on the local network, such as that of a cloud's metadata server.
    LinkLocal,
    /// It is a cloud's metadata server that is not link-local, or another service of the cloud for its machines.
    Metadata,
    /// It means several hosts.
    Multicast,
    /// It is this cluster's API server.
    ApiServer,
    /// It may be a Service of this cluster.
    ServiceRange,
    /// The Link allows other networks.
    NotAllowed,
}

/// An address of a gateway that is not used, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Refused {
    /// The address.
    pub address: IpAddr,
    /// Why it is not used.
    pub why: Refusal,
}

/// Why a text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NetworkError {
    /// It is neither an address nor a network.
    #[error("invalid network {0:?} (use an address, or a network such as 192.0.2.0/24)")]
    NoNetwork(String),
    /// It has bits beyond its prefix.
    #[error("network {0} has host bits set (use {1})")]
    HostBits(IpNet, IpNet),
}

/// Networks that are refused in every cluster.
static RESERVED: LazyLock<Vec<(Refusal, IpNet)>> = LazyLock::new(|| {
    let networks = [
        (Refusal::Unspecified, "0.0.0.0/8"),
        (Refusal::Unspecified, "::/128"),
        (Refusal::Loopback, "127.0.0.0/8"),
        (Refusal::Loopback, "::1/128"),
        (Refusal::LinkLocal, "169.254.0.0/16"),
        (Refusal::LinkLocal, "fe80::/10"),
        (Refusal::Metadata, "168.63.129.16/32"),      // Azure
        (Refusal::Metadata, "100.100.100.200/32"),    // Alibaba Cloud
        (Refusal::Metadata, "fd00:100::100:200/128"), // Alibaba Cloud
        (Refusal::Metadata, "192.0.0.192/32"),        // Oracle Cloud
        (Refusal::Metadata, "fd00:c1::a9fe:a9fe/128"), // Oracle Cloud
        (Refusal::Metadata, "fd00:ec2::/32"), // AWS: metadata, credentials of EKS Pods, DNS, time
        (Refusal::Metadata, "fd20:ce::254/128"), // Google Cloud
        (Refusal::Metadata, "fd00:42::42/128"), // Scaleway
        (Refusal::Metadata, "fd00:a9fe:a9fe::1/128"), // Akamai (Linode)
        (Refusal::Multicast, "224.0.0.0/4"),
        (Refusal::Multicast, "ff00::/8"),
        (Refusal::Multicast, "255.255.255.255/32"),
    ];
    let parse = |text: &str| text.parse::<IpNet>().expect("these are networks");
    networks.map(|(why, text)| (why, parse(text))).into()
});

/// Prefixes of IPv6 addresses that end in the IPv4 address that they stand for: those that NAT64 translates (RFC 6052),
/// IPv4-translated ones (RFC 2765) and IPv4-compatible ones (RFC 4291).
const ENDING: [[u16; 6]; 3] = [[0x64, 0xff9b, 0, 0, 0, 0], [0, 0, 0, 0, 0xffff, 0], [0; 6]];
/// Prefix of IPv6 addresses that NAT64 translates within an organization (RFC 8215).
const LOCAL_NAT64: [u16; 3] = [0x64, 0xff9b, 1];
/// First segment of 6to4 addresses (RFC 3056). The IPv4 address follows.
const SIX_TO_FOUR: u16 = 0x2002;

/// Reads networks that are joined by commas. Blank items are dropped. An address is a network with one address.
pub fn networks(text: &str) -> Result<Vec<IpNet>, NetworkError> {
    let items = text.split(',').map(str::trim);
    items.filter(|item| !item.is_empty()).map(network).collect()
}

fn network(text: &str) -> Result<IpNet, NetworkError> {
    let network: IpNet = text
        .parse()
        .or_else(|_| text.parse::<IpAddr>().map(IpNet::from))
        .map_err(|_| NetworkError::NoNetwork(short(text)))?;
    if network == network.trunc() {
        Ok(network)
    } else {
        Err(NetworkError::HostBits(network, network.trunc()))
    }
}

/// Why a gateway may not have this address; `None` if it may.
///
/// `allowed` are the networks that the Link names. If it names any, the address must be in one of them. An address in a
/// refused range is allowed only by a network that lies completely within that range: `0.0.0.0/0` does not allow
/// loopback addresses.
pub fn refusal(
    address: IpAddr,
    allowed: Option<&[IpNet]>,
    cluster: &ClusterNetworks,
) -> Option<Refusal> {
    let address = address.to_canonical();
    let within: Vec<&IpNet> = allowed.map_or_else(Vec::new, |allowed| {
        allowed
            .iter()
            .filter(|net| net.contains(&address))
            .collect()
    });
    if allowed.is_some() && within.is_empty() {
        return Some(Refusal::NotAllowed);
    }
    let meant = meant(address);
    let api_servers = cluster.api_servers.iter();
    let api_servers = api_servers.map(|own| (Refusal::ApiServer, IpNet::from(own.to_canonical())));
    let services = cluster.services.iter();
    let services = services.map(|range| (Refusal::ServiceRange, *range));
    let mut refused = (RESERVED.iter().copied().chain(api_servers).chain(services))
        .filter(|(_, range)| meant.iter().any(|address| range.contains(address)))
        .filter(|(_, range)| !within.iter().any(|net| range.contains(*net)));
    refused.next().map(|(why, _)| why)
}

/// The address itself, or the IPv4 addresses that an IPv6 address may stand for as well.
fn meant(address: IpAddr) -> Vec<IpAddr> {
    let mut all = vec![address];
    let IpAddr::V6(address) = address else {
        return all;
    };
    if address.is_loopback() || address.is_unspecified() {
        return all;
    }
    let (segments, bytes) = (address.segments(), address.octets());
    let mut add = |at: [usize; 4]| all.push(IpAddr::from(at.map(|at| bytes[at])));
    if ENDING.iter().any(|prefix| segments.starts_with(prefix)) {
        add([12, 13, 14, 15]);
    }
    if segments[0] == SIX_TO_FOUR {
        add([2, 3, 4, 5]);
    }
    if segments.starts_with(&LOCAL_NAT64) {
        // Where the IPv4 address is depends on the length of the prefix, which may be 48, 56, 64 or 96 bits. Byte 8 is
        // never part of it. A place that begins with zero is taken for one without an address, unless all of them do.
        let places = [
            [6, 7, 9, 10],
            [7, 9, 10, 11],
            [9, 10, 11, 12],
            [12, 13, 14, 15],
        ];
        let used = places.into_iter().filter(|at| bytes[at[0]] != 0);
        let used: Vec<_> = used.collect();
        let none = used.is_empty().then_some([12, 13, 14, 15]);
        used.into_iter().chain(none).for_each(add);
    }
    all
}

impl Refusal {
    /// The rest of a sentence that begins with the address.
    fn because(self) -> &'static str {
        match self {
            Self::Unspecified => "is an unspecified address",
            Self::Loopback => "is a loopback address",
            Self::LinkLocal => "is a link-local address",
            Self::Metadata => "is a cloud's metadata server",
            Self::Multicast => "is a multicast or broadcast address",
            Self::ApiServer => "is this cluster's API server",
            Self::ServiceRange => "is in this cluster's Service range",
            Self::NotAllowed => "is not in a network that the Link allows",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.address, self.why.because())
    }
}

/// The message about refused addresses. It names only the first few, because a host name may have many.
pub fn refused_message(refused: &[Refused]) -> String {
    const MAX_SHOWN: usize = 5;
    let mut shown: Vec<String> = refused
        .iter()
        .take(MAX_SHOWN)
        .map(ToString::to_string)
        .collect();
    if refused.len() > MAX_SHOWN {
        shown.push(format!("and {} more", refused.len() - MAX_SHOWN));
    }
    shown.join("; ")
}

#[cfg(test)]
mod tests;
