//! Which addresses a gateway may have. The author of a Link, or the owner of a DNS name in it, must not be able to
//! direct the traffic of mirrors to internal addresses: a Pod's loopback, a cloud's metadata server, or the API server.

use std::{
    collections::BTreeSet,
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
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
const RESERVED: [(Refusal, IpNet); 9] = [
    (Refusal::Unspecified, v4([0, 0, 0, 0], 8)),
    (Refusal::Unspecified, v6(Ipv6Addr::UNSPECIFIED, 128)),
    (Refusal::Loopback, v4([127, 0, 0, 0], 8)),
    (Refusal::Loopback, v6(Ipv6Addr::LOCALHOST, 128)),
    (Refusal::LinkLocal, v4([169, 254, 0, 0], 16)),
    (Refusal::LinkLocal, v6(segment(0xfe80), 10)),
    (Refusal::Multicast, v4([224, 0, 0, 0], 4)),
    (Refusal::Multicast, v6(segment(0xff00), 8)),
    (Refusal::Multicast, v4([255, 255, 255, 255], 32)),
];

const fn v4(first: [u8; 4], prefix: u8) -> IpNet {
    let [a, b, c, d] = first;
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix))
}

const fn v6(first: Ipv6Addr, prefix: u8) -> IpNet {
    IpNet::V6(Ipv6Net::new_assert(first, prefix))
}

const fn segment(first: u16) -> Ipv6Addr {
    Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 0)
}

/// Prefix of IPv6 addresses that NAT64 translates into IPv4 addresses (RFC 6052).
const TRANSLATED: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

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
    let meant = translated(address).unwrap_or(address);
    let api_servers = cluster.api_servers.iter();
    let api_servers = api_servers.map(|own| (Refusal::ApiServer, IpNet::from(own.to_canonical())));
    let services = cluster.services.iter();
    let services = services.map(|range| (Refusal::ServiceRange, *range));
    let mut refused = (RESERVED.into_iter().chain(api_servers).chain(services))
        .filter(|(_, range)| range.contains(&meant) || range.contains(&address))
        .filter(|(_, range)| !within.iter().any(|net| range.contains(*net)));
    refused.next().map(|(why, _)| why)
}

/// The IPv4 address into which NAT64 translates an IPv6 address.
fn translated(address: IpAddr) -> Option<IpAddr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let [start @ .., high, low] = address.segments();
    let [a, b] = high.to_be_bytes();
    let [c, d] = low.to_be_bytes();
    (start == TRANSLATED).then(|| IpAddr::from([a, b, c, d]))
}

impl Refusal {
    /// The rest of a sentence that begins with the address.
    fn because(self) -> &'static str {
        match self {
            Self::Unspecified => "is an unspecified address",
            Self::Loopback => "is a loopback address",
            Self::LinkLocal => "is a link-local address",
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
    const TOLD: usize = 5;
    let mut told: Vec<String> = refused.iter().take(TOLD).map(ToString::to_string).collect();
    if refused.len() > TOLD {
        told.push(format!("and {} more", refused.len() - TOLD));
    }
    told.join("; ")
}

#[cfg(test)]
mod tests;
