//! A Link, parsed once into types whose values are always valid.

use std::{fmt, net::IpAddr, time::Duration};

use ipnet::IpNet;
use k8s_openapi::jiff::Timestamp;
use kube_core::ResourceExt as _;
use thiserror::Error;

use super::{
    api_gateway::ApiGatewaySettings,
    drain::{DrainError, drained_until},
    exclusions::{CopiedError, Exclusions, copied_rules},
    networks::{NetworkError, networks},
    policy::{Copied, FederatedThrough, Federation, PolicyError, allowed_namespaces},
};
use crate::api::{
    duration::parse_go_duration,
    labels as l,
    link::{Link, LinkObject, ProbeSpec},
    metadata::ResourceId,
    names::is_dns_label,
    selector::{Selector, SelectorError},
};
use crate::mirror::{
    names::{GatewayService, fits},
    outcome::{Problem, Reason},
};

/// A target cluster as one Link describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name of the Link.
    pub link: String,
    /// When the Link was created. `None` counts as the oldest.
    pub created: Option<Timestamp>,
    /// Name of the target cluster, a DNS label.
    pub cluster: String,
    /// DNS domain of the target cluster; Kubernetes' default if the Link has none.
    pub domain: String,
    /// The gateway, if the Link has one.
    pub gateway: Option<Gateway>,
    /// Selects Services to mirror in gateway mode.
    pub gateway_selector: Option<Selector>,
    /// Selects Services to mirror in remote-discovery mode. It wins where both match.
    pub discovery_selector: Option<Selector>,
    /// Selects members of federated Services.
    pub federated_selector: Option<Selector>,
    /// What is copied and what is not.
    pub exclusions: Exclusions,
    /// Whether headless Services are mirrored as headless ones.
    pub headless: bool,
    /// Selects the local namespaces that it may mirror into; `None` for all that are not protected.
    pub allowed_namespaces: Option<Selector>,
    /// Which federated Services it may join.
    pub federation: Federation,
    /// How it takes part in them.
    pub federated_through: FederatedThrough,
    /// The gateway through which its API server is reached; `None` for the address in the credentials.
    pub api_gateway: Option<ApiGateway>,
    /// Whether Linkerd's control plane reaches its API server too, for remote discovery.
    pub has_discovery: bool,
    /// What federated Services without a local member prefer if this is the oldest of their Links. It may be invalid.
    pub prefer: Option<String>,
    /// End of its drain, which may be in the past.
    pub drained_until: Option<Timestamp>,
}

/// A target cluster's gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Its addresses and host names; at least one.
    pub hosts: Vec<Host>,
    /// TCP port.
    pub port: u16,
    /// TLS identity; may be empty.
    pub identity: String,
    /// The networks in which its addresses must be, if the Link names any.
    pub networks: Option<Vec<IpNet>>,
    /// How it is probed. `Ok(None)` if the Link asks for no probe, `Err` if the settings of the probe are invalid.
    pub probe: Result<Option<Probe>, String>,
}

impl Gateway {
    /// Whether it is probed. If not, nothing can be known of whether it answers.
    pub(crate) fn is_probed(&self) -> bool {
        matches!(self.probe, Ok(Some(_)))
    }
}

/// A target cluster's gateway that leads to its API server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiGateway {
    /// It is not probed: the connections to the API server show whether it answers.
    pub gateway: Gateway,
    /// The Service of the target cluster that leads to its API server.
    pub service: ResourceId,
}

/// An item of a Link's `gatewayAddress`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// An address.
    Ip(IpAddr),
    /// A name that DNS resolves.
    Name(String),
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl Host {
    /// Why DNS cannot know this name, if so: people write a port or a URL.
    pub fn objection(name: &str) -> Option<&'static str> {
        name.contains([':', '/', '[', ']', '@', ' ']).then_some(
            "spec.gatewayAddress must have IP addresses or host names alone, as the port is in spec.gatewayPort",
        )
    }

    /// Reads a Link's `gatewayAddress`: items joined by commas, spaces around them and empty items ignored,
    /// sorted, without duplicates. Linkerd's service mirror does not trim, so that `a, b` fails for `b`.
    pub fn parse_list(text: &str) -> Vec<Self> {
        let items = text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty());
        let mut hosts: Vec<Self> = items
            .map(|item| match without_brackets(item).parse::<IpAddr>() {
                Ok(address) => Self::Ip(address.to_canonical()),
                Err(_) => Self::Name(item.to_owned()),
            })
            .collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }
}

/// An IPv6 address may be in brackets, as in URLs.
fn without_brackets(item: &str) -> &str {
    let inside = item
        .strip_prefix('[')
        .and_then(|item| item.strip_suffix(']'));
    inside.unwrap_or(item)
}

/// How a gateway is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// HTTP path, begins with `/`.
    pub path: String,
    /// TCP port.
    pub port: u16,
    /// Time between probes.
    pub period: Duration,
    /// Time limit of one probe, at most the period.
    ///
    /// Probes never overlap. Without this limit and with the CRD's default of 30 s, a gateway that accepts connections and
    /// does not answer would count as dead only after 90 s, even if the period is shorter.
    pub timeout: Duration,
    /// Consecutive failures that make a gateway dead, at least 1.
    pub threshold: u32,
}

/// Why a Link is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InvalidLink {
    /// The cluster's name cannot be part of a Service's name.
    #[error(
        "invalid spec.targetClusterName {0:?}: must be a DNS label (a-z, 0-9 and -, up to 63 characters)"
    )]
    ClusterName(String),
    /// The Link cannot be decoded at all.
    #[error("failed to read the Link: {0}")]
    Unreadable(String),
    /// The port is not a port number.
    #[error("invalid spec.gatewayPort {0:?}: must be a port number")]
    GatewayPort(String),
    /// A selector is malformed.
    #[error("invalid spec.{0}: {1}")]
    Selector(&'static str, SelectorError),
    /// A rule that says what is copied is malformed.
    #[error("invalid annotation {0}: {1}")]
    Copied(&'static str, CopiedError),
    /// An annotation that restricts the cluster is malformed.
    #[error("invalid annotation {0}: {1}")]
    Policy(&'static str, PolicyError),
    /// The end of a drain is not a time.
    #[error("invalid annotation {name}: {0}", name = l::DRAINED_UNTIL)]
    Drain(DrainError),
    /// The gateway that leads to the API server is malformed.
    #[error("invalid annotation {name}: {0}", name = l::API_GATEWAY)]
    ApiGateway(String),
    /// The networks of gateways are malformed.
    #[error("invalid annotation {name}: {0}", name = l::GATEWAY_NETWORKS)]
    Networks(NetworkError),
}

/// The DNS domain of a cluster that was set up without another one.
pub const DEFAULT_DOMAIN: &str = "cluster.local";
/// The CRD's default for `probeSpec.failureThreshold`.
const DEFAULT_THRESHOLD: u32 = 3;
/// The CRD's default for `probeSpec.timeout`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// Minimum period. More frequent probes would add load without finding failures noticeably earlier.
const MIN_PERIOD: Duration = Duration::from_millis(100);

impl Target {
    /// Parses a Link from the API server, which may be one that could not be decoded.
    pub fn parse_object(object: &LinkObject, headless_default: bool) -> Result<Self, InvalidLink> {
        match &object.unreadable {
            Some(error) => Err(InvalidLink::Unreadable(error.clone())),
            None => Self::parse(&object.link, headless_default),
        }
    }

    /// Parses a Link. `headless_default` applies if the Link says nothing about headless Services.
    pub fn parse(link: &Link, headless_default: bool) -> Result<Self, InvalidLink> {
        let spec = &link.spec;
        if !is_dns_label(&spec.target_cluster_name) {
            return Err(InvalidLink::ClusterName(spec.target_cluster_name.clone()));
        }
        let selector = |name, selector: Option<&_>| {
            Selector::parse(selector).map_err(|error| InvalidLink::Selector(name, error))
        };
        let discovery_selector = spec.remote_discovery_selector.as_ref();
        let federated_selector = spec.federated_service_selector.as_ref();
        let networks = gateway_networks(link)?;
        Ok(Self {
            link: link.name_any(),
            created: link.metadata.creation_timestamp.as_ref().map(|time| time.0),
            cluster: spec.target_cluster_name.clone(),
            domain: match &*spec.target_cluster_domain {
                "" => DEFAULT_DOMAIN.to_owned(),
                domain => domain.to_owned(),
            },
            headless: match annotation(link, l::HEADLESS_SERVICES) {
                Some("enabled" | "true") => true,
                Some("disabled" | "false") => false,
                _ => headless_default,
            },
            allowed_namespaces: policy(link, l::ALLOWED_NAMESPACES, allowed_namespaces)?,
            federation: policy(link, l::FEDERATION, Federation::parse)?.unwrap_or_default(),
            federated_through: policy(link, l::FEDERATED_THROUGH, FederatedThrough::parse)?
                .unwrap_or_default(),
            api_gateway: api_gateway(link, networks.clone()).map_err(InvalidLink::ApiGateway)?,
            has_discovery: has_discovery(link),
            prefer: annotation(link, l::PREFER).map(str::to_owned),
            drained_until: annotation(link, l::DRAINED_UNTIL)
                .map(drained_until)
                .transpose()
                .map_err(InvalidLink::Drain)?,
            exclusions: exclusions(link)?,
            gateway: gateway(link, networks)?,
            gateway_selector: selector("selector", spec.selector.as_ref())?,
            discovery_selector: selector("remoteDiscoverySelector", discovery_selector)?,
            federated_selector: selector("federatedServiceSelector", federated_selector)?,
        })
    }

    /// Whether it should take part in federated Services through a gateway, but the Link has none.
    pub(crate) fn lacks_gateway(&self) -> bool {
        self.federated_through == FederatedThrough::Gateway && self.gateway.is_none()
    }

    /// Whether its members of federated Services are reached by discovery, and cannot be reached through a gateway.
    pub(crate) fn is_only_discovered(&self) -> bool {
        self.federated_through == FederatedThrough::Discovery
            && self.gateway.is_none()
            && self.has_discovery
    }

    /// Why Linkerd cannot discover the endpoints of its Services, if the Link does not let it.
    pub(crate) fn lacks_discovery(&self) -> Option<Problem> {
        let message = || {
            format!(
                "Linkerd cannot discover its endpoints: the API server of cluster {} is reached through a gateway \
                 only; mirror it through the gateway, or link again with --discovery-through-gateway or --api-server-address",
                self.cluster
            )
        };
        (!self.has_discovery).then(|| Problem::new(Reason::NoDiscovery, message()))
    }

    /// Its gateway and the settings of the probe, if the gateway is probed. If so, the Link has a probe Service.
    pub(crate) fn probed(&self) -> Option<(&Gateway, &Probe)> {
        let gateway = self.gateway.as_ref()?;
        let probe = gateway.probe.as_ref().ok()?.as_ref()?;
        Some((gateway, probe))
    }

    /// Whether the Link has this Service.
    pub(crate) fn has(&self, service: GatewayService) -> bool {
        match service {
            GatewayService::Probe => self.probed().is_some(),
            GatewayService::ApiServer => self.api_gateway.is_some(),
        }
    }

    /// Sort key by age: the smaller one is the older Link. This is Linkerd's rule for federated Services. Links that
    /// were created in the same second are sorted by name.
    pub fn age(&self) -> (Option<Timestamp>, &str) {
        (self.created, &self.link)
    }

    /// The selectors of the watches of Services, as few as possible. The target cluster sends only exported Services.
    pub fn service_selectors(&self) -> Vec<Selector> {
        united([
            &self.gateway_selector,
            &self.discovery_selector,
            &self.federated_selector,
        ])
    }

    /// The selectors of the watches of slices: those of Services behind the gateway. `by_slices`: members of federated
    /// Services are behind the gateway too, if there is one.
    pub fn slice_selectors(&self, by_slices: bool) -> Vec<Selector> {
        let members = self.federated_selector.as_ref();
        let members = members.filter(|_| by_slices && self.gateway.is_some());
        united([&self.gateway_selector, &members.cloned()])
    }
}

fn united<'a>(selectors: impl IntoIterator<Item = &'a Option<Selector>>) -> Vec<Selector> {
    let mut united: Vec<Selector> = Vec::new();
    for selector in selectors.into_iter().flatten() {
        match united
            .iter_mut()
            .find_map(|known| known.union(selector).map(|both| (known, both)))
        {
            Some((known, both)) => *known = both,
            None => united.push(selector.clone()),
        }
    }
    united
}

fn annotation<'a>(link: &'a Link, key: &str) -> Option<&'a str> {
    link.annotations().get(key).map(String::as_str)
}

/// Whether the API server of a Link's cluster is reached through a gateway.
pub fn is_through_gateway(link: &Link) -> bool {
    annotation(link, l::API_GATEWAY).is_some()
}

/// Whether Linkerd's control plane reaches the API server of a Link's cluster, which it needs to discover endpoints.
pub fn has_discovery(link: &Link) -> bool {
    !is_through_gateway(link)
        || annotation(link, l::DISCOVERY_API_SERVER).is_some()
        || discovers_through_gateway(link)
}

/// Whether Linkerd's control plane reaches the API server of a Link's cluster through a gateway.
pub fn discovers_through_gateway(link: &Link) -> bool {
    matches!(ApiGatewaySettings::of(link), Ok(Some(way)) if way.discovery)
}

/// Parses an annotation that restricts the cluster; `None` if the Link does not have it.
fn policy<T>(
    link: &Link,
    key: &'static str,
    parse: fn(&str) -> Result<T, PolicyError>,
) -> Result<Option<T>, InvalidLink> {
    let parsed = annotation(link, key).map(parse).transpose();
    parsed.map_err(|error| InvalidLink::Policy(key, error))
}

fn exclusions(link: &Link) -> Result<Exclusions, InvalidLink> {
    let copied = |key| {
        let text = annotation(link, key).unwrap_or_default();
        copied_rules(text).map_err(|error| InvalidLink::Copied(key, error))
    };
    let which = policy(link, l::COPY, Copied::parse)?.unwrap_or_default();
    let spec = &link.spec;
    let exclusions = Exclusions::new(&spec.excluded_labels, &spec.excluded_annotations);
    Ok(exclusions
        .copying(&copied(l::COPIED_LABELS)?, &copied(l::COPIED_ANNOTATIONS)?)
        .only_copied(which))
}

/// The networks in which the addresses of gateways must be, if the Link names any.
fn gateway_networks(link: &Link) -> Result<Option<Vec<IpNet>>, InvalidLink> {
    let networks = match annotation(link, l::GATEWAY_NETWORKS) {
        Some(text) => networks(text).map_err(InvalidLink::Networks)?,
        None => Vec::new(),
    };
    Ok((!networks.is_empty()).then_some(networks))
}

fn gateway(link: &Link, networks: Option<Vec<IpNet>>) -> Result<Option<Gateway>, InvalidLink> {
    let spec = &link.spec;
    let hosts = Host::parse_list(&spec.gateway_address);
    if hosts.is_empty() {
        return Ok(None);
    }
    let port = port(&spec.gateway_port)
        .ok_or_else(|| InvalidLink::GatewayPort(spec.gateway_port.clone()))?;
    let identity = spec.gateway_identity.clone();
    Ok(Some(Gateway {
        hosts,
        port,
        identity,
        networks,
        probe: probe(&link.name_any(), &spec.probe_spec),
    }))
}

/// Its addresses have to be in the same networks as those of the gateway for traffic.
fn api_gateway(link: &Link, networks: Option<Vec<IpNet>>) -> Result<Option<ApiGateway>, String> {
    let Some(settings) = ApiGatewaySettings::of(link)? else {
        return Ok(None);
    };
    let hosts = Host::parse_list(&settings.addresses.join(","));
    if hosts.is_empty() {
        return Err("it has no address".to_owned());
    }
    Ok(Some(ApiGateway {
        service: settings.service()?,
        gateway: Gateway {
            hosts,
            port: settings.port.get(),
            identity: settings.identity,
            networks,
            probe: Ok(None),
        },
    }))
}

fn port(text: &str) -> Option<u16> {
    text.trim().parse().ok().filter(|port| *port > 0)
}

/// Whether an HTTP request can ask for this path, which may have a query (RFC 3986).
fn is_path(text: &str) -> bool {
    let is_allowed =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte);
    text.bytes().all(is_allowed)
}

fn probe(link: &str, spec: &ProbeSpec) -> Result<Option<Probe>, String> {
    if spec.path.is_empty() {
        return Ok(None);
    }
    fits(GatewayService::Probe.name(link)).map_err(|problem| {
        format!(
            "cannot create a probe Service for the Link: {}",
            problem.message
        )
    })?;
    let duration = |name: &str, text: &str| {
        parse_go_duration(text)
            .ok()
            .filter(|duration| !duration.is_zero())
            .ok_or_else(|| {
                format!("invalid spec.probeSpec.{name} {text:?}: must be a duration such as 3s")
            })
    };
    if !is_path(&spec.path) {
        return Err(format!(
            "invalid spec.probeSpec.path {:?}: must be a path such as /ready",
            spec.path
        ));
    }
    let path = if spec.path.starts_with('/') {
        spec.path.clone()
    } else {
        format!("/{}", spec.path)
    };
    let threshold = match spec.failure_threshold.as_deref() {
        None | Some("") => DEFAULT_THRESHOLD,
        Some(text) => text.trim().parse().ok().filter(|n| *n > 0).ok_or_else(|| {
            format!("invalid spec.probeSpec.failureThreshold {text:?}: must be a number above 0")
        })?,
    };
    let period = duration("period", &spec.period)?.max(MIN_PERIOD);
    let timeout = match spec.timeout.as_deref() {
        None | Some("") => DEFAULT_TIMEOUT,
        Some(text) => duration("timeout", text)?,
    };
    Ok(Some(Probe {
        path,
        port: port(&spec.port).ok_or_else(|| {
            format!(
                "invalid spec.probeSpec.port {:?}: must be a port number",
                spec.port
            )
        })?,
        period,
        timeout: timeout.min(period),
        threshold,
    }))
}

#[cfg(test)]
mod by_hand;
#[cfg(test)]
mod tests;
