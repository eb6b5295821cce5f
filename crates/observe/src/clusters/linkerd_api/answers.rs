//! The answers of Linkerd's controllers as plain data. Pure.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
};

use linkerd2_proxy_api::{
    destination::{DestinationProfile, WeightedAddr, protocol_hint, tls_identity::Strategy},
    inbound::{
        Authn, Authz, Server,
        authn::{Permit, permit_mesh_tls::Clients},
        proxy_protocol::Kind as ServerProtocol,
    },
    meta::{Metadata, metadata},
    net::TcpAddress,
    outbound::{
        Backend, OutboundPolicy,
        backend::{self, endpoint_discovery},
        grpc_route, http_route, opaque_route,
        proxy_protocol::Kind as ClientProtocol,
        tls_route,
    },
};

use super::error::LinkerdApiError;

type Decoded<T> = Result<T, LinkerdApiError>;

/// An endpoint, as Linkerd's destination controller describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiscoveredEndpoint {
    /// Where the proxy connects to.
    pub address: SocketAddr,
    /// Its labels and those of its Service, as in the metrics of proxies but without `dst_`.
    pub labels: BTreeMap<String, String>,
    /// The identity that its proxy must have; `None` if it is not in the mesh.
    pub identity: Option<String>,
    /// The authority that requests get, as in gateway mode.
    pub authority: Option<String>,
    /// Whether the protocol of its connections is not detected.
    pub is_opaque: bool,
}

impl DiscoveredEndpoint {
    /// An endpoint of a set with these labels.
    pub fn of(endpoint: WeightedAddr, of_set: &HashMap<String, String>) -> Decoded<Self> {
        let labels = of_set.clone().into_iter().chain(endpoint.metric_labels);
        let tls = endpoint.tls_identity.and_then(|tls| tls.strategy);
        let hint = endpoint.protocol_hint.and_then(|hint| hint.protocol);
        Ok(Self {
            address: address(endpoint.addr)?,
            labels: labels.collect(),
            identity: tls.map(|strategy| match strategy {
                Strategy::DnsLikeIdentity(identity) => identity.name,
                Strategy::UriLikeIdentity(identity) => identity.uri,
            }),
            authority: endpoint
                .authority_override
                .map(|authority| authority.authority_override),
            is_opaque: matches!(hint, Some(protocol_hint::Protocol::Opaque(_))),
        })
    }

    /// A label; empty if there is none.
    #[cfg(test)]
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// What an address is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiscoveredProfile {
    /// The authority by which proxies ask for endpoints; empty if the address is no Service.
    pub name: String,
    /// Whether the protocol of connections is not detected.
    pub is_opaque: bool,
    /// The Service.
    pub parent: Option<PolicyReference>,
    /// The `ServiceProfile`, if there is one. Its routes take the place of `HTTPRoute`s.
    pub profile: Option<PolicyReference>,
    /// The endpoint, if the address is that of a Pod.
    pub endpoint: Option<DiscoveredEndpoint>,
    /// Number of routes of the `ServiceProfile`.
    pub routes: usize,
    /// Authorities to which a `ServiceProfile` sends requests in place of the Service, and their weights.
    pub overrides: Vec<(String, u32)>,
}

impl DiscoveredProfile {
    /// Fails if Linkerd's answer has a form that is not known.
    pub fn of(profile: DestinationProfile) -> Decoded<Self> {
        let endpoint = profile.endpoint;
        let overrides = profile.dst_overrides.into_iter();
        Ok(Self {
            name: profile.fully_qualified_name,
            is_opaque: profile.opaque_protocol,
            parent: profile.parent_ref.and_then(reference),
            profile: profile.profile_ref.and_then(reference),
            endpoint: endpoint
                .map(|endpoint| DiscoveredEndpoint::of(endpoint, &HashMap::new()))
                .transpose()?,
            routes: profile.routes.len(),
            overrides: overrides.map(|dst| (dst.authority, dst.weight)).collect(),
        })
    }
}

/// What a policy is about: an object, or a default that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyReference {
    /// A default, such as `undefined-port` or `all-unauthenticated`.
    Default(String),
    /// An object of the cluster.
    Object {
        /// Its group; `core` for a Service.
        group: String,
        /// Its kind.
        kind: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its port; 0 if the policy is for all.
        port: u32,
    },
}

impl PolicyReference {
    /// The name of an object of this kind, or of the default of this name.
    pub fn name(&self) -> &str {
        match self {
            Self::Default(name) | Self::Object { name, .. } => name,
        }
    }
}

pub fn reference(metadata: Metadata) -> Option<PolicyReference> {
    Some(match metadata.kind? {
        metadata::Kind::Default(name) => PolicyReference::Default(name),
        metadata::Kind::Resource(object) => PolicyReference::Object {
            group: object.group,
            kind: object.kind,
            namespace: object.namespace,
            name: object.name,
            port: object.port,
        },
    })
}

/// The policy for requests to an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientPolicy {
    /// The Service, or a default for addresses outside of the cluster.
    pub parent: Option<PolicyReference>,
    /// `detect`, `opaque`, `http/1`, `http/2`, `grpc` or `tls`.
    pub protocol: &'static str,
    /// Routes of requests. With `detect`, those of HTTP requests.
    pub routes: Vec<PolicyRoute>,
}

/// A rule of a route: where its requests go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyRoute {
    /// The route, or a default such as `http` or `undefined-port`.
    pub route: Option<PolicyReference>,
    /// Why all its requests fail, if they do.
    pub failure: Option<String>,
    /// Its backends. If there are none, all its requests fail.
    pub backends: Vec<PolicyBackend>,
}

/// A backend of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyBackend {
    /// The Service.
    pub backend: Option<PolicyReference>,
    /// Its weight; 1 for the only one.
    pub weight: u32,
    /// The authority by which its endpoints are discovered; `None` for a single endpoint.
    pub authority: Option<String>,
    /// Why its requests fail, if they do, as with a Service that does not exist.
    pub failure: Option<String>,
}

impl ClientPolicy {
    /// The port is not declared in the Service. Proxies that hear this do not ask again while they use it.
    pub fn is_undefined_port(&self) -> bool {
        let mut routes = self.routes.iter();
        routes.any(|route| route.route == Some(PolicyReference::Default("undefined-port".into())))
    }

    /// Fails if Linkerd's answer has a form that is not known.
    pub fn of(policy: OutboundPolicy) -> Decoded<Self> {
        let kind = policy.protocol.and_then(|protocol| protocol.kind);
        let kind = kind.ok_or(LinkerdApiError::Malformed("a policy without protocol"))?;
        let (protocol, routes) = match kind {
            ClientProtocol::Detect(detect) => (
                "detect",
                http(detect.http1.into_iter().flat_map(|http| http.routes)),
            ),
            ClientProtocol::Opaque(opaque) => ("opaque", self::opaque(opaque.routes)),
            ClientProtocol::Http1(http1) => ("http/1", http(http1.routes)),
            ClientProtocol::Http2(http2) => ("http/2", http(http2.routes)),
            ClientProtocol::Grpc(grpc) => ("grpc", self::grpc(grpc.routes)),
            ClientProtocol::Tls(tls) => ("tls", self::tls(tls.routes)),
        };
        Ok(Self {
            parent: policy.metadata.and_then(reference),
            protocol,
            routes,
        })
    }
}

/// Converts the routes of one protocol. Their types have the same fields, and nothing else in common.
macro_rules! routes {
    ($convert:ident, $module:ident, $route:ident, $failure:expr) => {
        fn $convert(
            routes: impl IntoIterator<Item = linkerd2_proxy_api::outbound::$route>,
        ) -> Vec<PolicyRoute> {
            use $module::{WeightedRouteBackend, distribution::Kind};

            let failure = |filters: Vec<$module::Filter>| {
                let kinds = filters.into_iter().filter_map(|filter| filter.kind);
                kinds.filter_map($failure).next()
            };
            let backend = |weighted: WeightedRouteBackend| {
                let backend = weighted.backend.unwrap_or_default();
                let failure = failure(backend.filters);
                PolicyBackend {
                    weight: weighted.weight,
                    failure,
                    ..policy_backend(backend.backend)
                }
            };
            let rules = routes.into_iter().flat_map(|route| {
                let metadata = route.metadata.and_then(reference);
                route
                    .rules
                    .into_iter()
                    .map(move |rule| (metadata.clone(), rule))
            });
            rules
                .map(|(route, rule)| {
                    let first = |backend| WeightedRouteBackend {
                        backend: Some(backend),
                        weight: 1,
                    };
                    let backends = match rule.backends.and_then(|backends| backends.kind) {
                        Some(Kind::FirstAvailable(all)) => {
                            all.backends.into_iter().map(first).collect()
                        }
                        Some(Kind::RandomAvailable(all)) => all.backends,
                        Some(Kind::Empty(_)) | None => Vec::new(),
                    };
                    PolicyRoute {
                        route,
                        failure: failure(rule.filters),
                        backends: backends.into_iter().map(backend).collect(),
                    }
                })
                .collect()
        }
    };
}

routes!(http, http_route, HttpRoute, |kind| match kind {
    http_route::filter::Kind::FailureInjector(failure) => Some(failure.message),
    _ => None,
});
routes!(grpc, grpc_route, GrpcRoute, |kind| match kind {
    grpc_route::filter::Kind::FailureInjector(failure) => Some(failure.message),
    grpc_route::filter::Kind::RequestHeaderModifier(_) => None,
});
routes!(opaque, opaque_route, OpaqueRoute, |kind| Some(match kind {
    opaque_route::filter::Kind::Invalid(invalid) => invalid.message,
    opaque_route::filter::Kind::Forbidden(_) => "forbidden".to_owned(),
}));
routes!(tls, tls_route, TlsRoute, |kind| Some(match kind {
    tls_route::filter::Kind::Invalid(invalid) => invalid.message,
    tls_route::filter::Kind::Forbidden(_) => "forbidden".to_owned(),
}));

fn policy_backend(backend: Option<Backend>) -> PolicyBackend {
    let backend = backend.unwrap_or_default();
    let authority = match backend.kind {
        Some(backend::Kind::Balancer(balancer)) => {
            let discovery = balancer.discovery.and_then(|discovery| discovery.kind);
            discovery.map(|endpoint_discovery::Kind::Dst(dst)| dst.path)
        }
        Some(backend::Kind::Forward(_)) | None => None,
    };
    PolicyBackend {
        backend: backend.metadata.and_then(reference),
        weight: 1,
        authority,
        failure: None,
    }
}

/// The policy of a Pod's port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerPolicy {
    /// `detect`, `opaque`, `http/1`, `http/2`, `grpc` or `tls`.
    pub protocol: &'static str,
    /// Labels that name the `Server`, or the default policy: `group`, `kind`, `name`.
    pub labels: BTreeMap<String, String>,
    /// Who may connect. If there are none, nobody may.
    pub authorizations: Vec<Authorization>,
    /// Who may send requests to some route, in addition.
    pub of_routes: Vec<Authorization>,
}

/// Clients that may connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorization {
    /// The policy that says so.
    pub policy: Option<PolicyReference>,
    /// From these networks, such as `10.0.0.0/8`.
    pub networks: Vec<String>,
    /// These clients.
    pub clients: PermittedClients,
}

/// Which clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermittedClients {
    /// All, also those that are not in the mesh.
    All,
    /// All that connect by the mesh's TLS.
    Meshed,
    /// Those with one of these identities, or with one that ends in one of these suffixes. An empty suffix is any.
    Identities {
        /// Whole identities.
        names: Vec<String>,
        /// Their ends.
        suffixes: Vec<String>,
    },
}

impl PermittedClients {
    /// Whether a client with this identity is one of them; `None` is a client that is not in the mesh.
    pub fn permit(&self, identity: Option<&str>) -> bool {
        match (self, identity) {
            (Self::All, _) | (Self::Meshed, Some(_)) => true,
            (Self::Identities { names, suffixes }, Some(identity)) => {
                let ends = |suffix: &String| {
                    let before = identity.strip_suffix(suffix.as_str());
                    suffix.is_empty() || before.is_some_and(|before| before.ends_with('.'))
                };
                names.iter().any(|name| name == identity) || suffixes.iter().any(ends)
            }
            (Self::Meshed | Self::Identities { .. }, None) => false,
        }
    }
}

impl ServerPolicy {
    /// Fails if Linkerd's answer has a form that is not known.
    pub fn of(server: Server) -> Decoded<Self> {
        let kind = server.protocol.and_then(|protocol| protocol.kind);
        let kind = kind.ok_or(LinkerdApiError::Malformed("a Server without protocol"))?;
        let of_http = |routes: Vec<linkerd2_proxy_api::inbound::HttpRoute>| {
            let routes = routes.into_iter();
            routes.flat_map(|route| route.authorizations).collect()
        };
        let (protocol, of_routes): (_, Vec<Authz>) = match kind {
            ServerProtocol::Detect(detect) => ("detect", of_http(detect.http_routes)),
            ServerProtocol::Http1(http1) => ("http/1", of_http(http1.routes)),
            ServerProtocol::Http2(http2) => ("http/2", of_http(http2.routes)),
            ServerProtocol::Grpc(grpc) => {
                let routes = grpc.routes.into_iter();
                let of_routes = routes.flat_map(|route| route.authorizations);
                ("grpc", of_routes.collect())
            }
            ServerProtocol::Opaque(_) => ("opaque", Vec::new()),
            ServerProtocol::Tls(_) => ("tls", Vec::new()),
        };
        let authorizations = server.authorizations.into_iter().map(authorization);
        Ok(Self {
            protocol,
            labels: server.labels.into_iter().collect(),
            authorizations: authorizations.collect::<Decoded<_>>()?,
            of_routes: of_routes
                .into_iter()
                .map(authorization)
                .collect::<Decoded<_>>()?,
        })
    }
}

fn authorization(authz: Authz) -> Decoded<Authorization> {
    let networks = authz.networks.into_iter().map(|network| {
        let network = network.net.and_then(|net| ipnet::IpNet::try_from(net).ok());
        network
            .map(|network| network.to_string())
            .ok_or(LinkerdApiError::Malformed("an invalid network"))
    });
    let permit = authz.authentication.and_then(|Authn { permit }| permit);
    let permit = permit.ok_or(LinkerdApiError::Malformed("an authorization for nobody"))?;
    let clients = match permit {
        Permit::Unauthenticated(_) => PermittedClients::All,
        Permit::MeshTls(tls) => match tls.clients {
            Some(Clients::Identities(permitted)) => {
                let names = permitted.identities.into_iter();
                let suffixes = permitted.suffixes.into_iter();
                PermittedClients::Identities {
                    names: names.map(|identity| identity.name).collect(),
                    suffixes: suffixes.map(|suffix| suffix.parts.join(".")).collect(),
                }
            }
            Some(Clients::Unauthenticated(_)) | None => PermittedClients::Meshed,
        },
    };
    Ok(Authorization {
        policy: authz.metadata.and_then(reference),
        networks: networks.collect::<Decoded<_>>()?,
        clients,
    })
}

/// An address of an answer.
pub fn address(address: Option<TcpAddress>) -> Decoded<SocketAddr> {
    let read = || {
        let address = address?;
        let ip = IpAddr::try_from(address.ip?).ok()?;
        Some(SocketAddr::new(ip, u16::try_from(address.port).ok()?))
    };
    read().ok_or(LinkerdApiError::Malformed("an invalid address"))
}
