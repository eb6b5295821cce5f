//! The calls against a server of this process, which answers as Linkerd's controllers do.

mod controller;
mod port_forward;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use linkerd2_proxy_api::{
    destination::{
        AddrSet, AuthorityOverride, DestinationProfile, NoEndpoints, TlsIdentity, WeightedAddr,
        WeightedAddrSet,
        tls_identity::{DnsLikeIdentity, Strategy},
    },
    inbound::{self, Authn, Authz, Identity, IdentitySuffix, Network, Server, authn},
    meta::{Metadata, Resource, metadata},
    net::IpNetwork,
    opaque_route::Forbidden,
    outbound::{self, OutboundPolicy, opaque_route},
};
use tokio::net::TcpListener;

use self::controller::{ControllerAnswers, serve};
use super::*;

const SOON: Duration = Duration::from_secs(10);

async fn api(answers: ControllerAnswers) -> (LinkerdApi, Arc<ControllerAnswers>) {
    let answers = Arc::new(answers);
    let address = serve(answers.clone()).await.to_string();
    (at_address(&address, SOON), answers)
}

/// Both controllers at one address.
fn at_address(address: &str, deadline: Duration) -> LinkerdApi {
    let address = Some(address.to_owned());
    let addresses = ControllerAddresses {
        destination: address.clone(),
        policy: address,
    };
    LinkerdApi::at(addresses, deadline)
}

fn client() -> ProxyWorkload {
    ProxyWorkload {
        pod: ResourceId::new("shop", "cart-1"),
        node: "node-1".to_owned(),
    }
}

fn tcp(last: u8, port: u32) -> TcpAddress {
    let ip = IpAddr::from(Ipv4Addr::new(10, 1, 2, last));
    TcpAddress {
        ip: Some(ip.into()),
        port,
    }
}

fn socket(last: u8, port: u16) -> SocketAddr {
    (Ipv4Addr::new(10, 1, 2, last), port).into()
}

fn labels(labels: &[(&str, &str)]) -> HashMap<String, String> {
    let labels = labels.iter();
    labels
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn add(addrs: Vec<WeightedAddr>, of_set: &[(&str, &str)]) -> Update {
    let set = WeightedAddrSet {
        addrs,
        metric_labels: labels(of_set),
    };
    Update {
        update: Some(update::Update::Add(set)),
    }
}

fn without(exists: bool) -> Update {
    Update {
        update: Some(update::Update::NoEndpoints(NoEndpoints { exists })),
    }
}

fn at(last: u8) -> WeightedAddr {
    WeightedAddr {
        addr: Some(tcp(last, 8080)),
        ..WeightedAddr::default()
    }
}

fn object(group: &str, kind: &str, name: &str, port: u32) -> Metadata {
    let object = Resource {
        group: group.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: "shop".to_owned(),
        port,
        ..Resource::default()
    };
    Metadata {
        kind: Some(metadata::Kind::Resource(object)),
    }
}

#[tokio::test]
async fn endpoints_are_those_of_all_updates() {
    let gateway = WeightedAddr {
        tls_identity: Some(TlsIdentity {
            strategy: Some(Strategy::DnsLikeIdentity(DnsLikeIdentity {
                name: "gateway.east".to_owned(),
            })),
            ..TlsIdentity::default()
        }),
        authority_override: Some(AuthorityOverride {
            authority_override: "web.shop.svc.cluster.local:80".to_owned(),
        }),
        metric_labels: labels(&[("zone_locality", "unknown")]),
        ..at(1)
    };
    let remove = Update {
        update: Some(update::Update::Remove(AddrSet {
            addrs: vec![tcp(3, 8080)],
        })),
    };
    let updates = vec![
        add(vec![gateway], &[("target_cluster", "east")]),
        add(vec![at(2), at(3)], &[("service", "web")]),
        remove,
    ];
    let (api, answers) = api(ControllerAnswers {
        updates,
        ..ControllerAnswers::default()
    })
    .await;
    let authority = "web-federated.shop.svc.cluster.local:80";
    let found = api.endpoints(&client(), authority).await.unwrap().unwrap();
    let addresses: Vec<_> = found.iter().map(|endpoint| endpoint.address).collect();
    assert_eq!(addresses, [socket(1, 8080), socket(2, 8080)]);
    assert_eq!(found[0].identity.as_deref(), Some("gateway.east"));
    assert_eq!(
        found[0].authority.as_deref(),
        Some("web.shop.svc.cluster.local:80")
    );
    assert_eq!(found[0].label("target_cluster"), "east");
    assert_eq!(found[0].label("zone_locality"), "unknown");
    assert_eq!(found[1].identity, None);
    assert_eq!(found[1].label("service"), "web");
    let asked = answers.asked.lock().unwrap().concat();
    let token = json!({"ns": "shop", "nodeName": "node-1", "pod": "cart-1"}).to_string();
    assert!(asked.contains(&format!("{token:?}")), "{asked}");
    assert!(asked.contains(authority), "{asked}");
}

#[tokio::test]
async fn service_without_endpoints_is_not_one_that_is_unknown() {
    for (exists, expected) in [(true, Some(vec![])), (false, None)] {
        let (api, _) = api(ControllerAnswers {
            updates: vec![without(exists)],
            ..ControllerAnswers::default()
        })
        .await;
        let found = api.endpoints(&client(), "web:80").await;
        assert_eq!(found, Ok(expected), "{exists}");
    }
}

#[tokio::test]
async fn profile_says_what_an_address_is() {
    let profile = DestinationProfile {
        fully_qualified_name: "web.shop.svc.cluster.local".to_owned(),
        opaque_protocol: true,
        parent_ref: Some(object("core", "Service", "web", 80)),
        ..DestinationProfile::default()
    };
    let (api, _) = api(ControllerAnswers {
        profile: Some(profile),
        ..ControllerAnswers::default()
    })
    .await;
    let found = api.profile(&client(), "10.0.0.1:80").await.unwrap();
    assert_eq!(found.name, "web.shop.svc.cluster.local");
    assert!(found.is_opaque);
    assert_eq!(found.parent.unwrap().name(), "web");

    let (api, _) = self::api(ControllerAnswers::default()).await;
    let error = api.profile(&client(), "10.0.0.1:80").await.unwrap_err();
    assert_eq!(error, LinkerdApiError::NotFound("no such service".into()));
}

#[tokio::test]
async fn undefined_port_is_known_by_its_route() {
    let forbidden = opaque_route::Filter {
        kind: Some(opaque_route::filter::Kind::Forbidden(Forbidden {})),
    };
    let empty = opaque_route::Distribution {
        kind: Some(opaque_route::distribution::Kind::Empty(
            opaque_route::distribution::Empty {},
        )),
    };
    let route = outbound::OpaqueRoute {
        metadata: Some(Metadata {
            kind: Some(metadata::Kind::Default("undefined-port".to_owned())),
        }),
        rules: vec![opaque_route::Rule {
            filters: vec![forbidden],
            backends: Some(empty),
        }],
    };
    let opaque = outbound::proxy_protocol::Opaque {
        routes: vec![route],
    };
    let policy = OutboundPolicy {
        metadata: Some(object("core", "Service", "web", 81)),
        protocol: Some(outbound::ProxyProtocol {
            kind: Some(outbound::proxy_protocol::Kind::Opaque(opaque)),
        }),
    };
    let (api, answers) = api(ControllerAnswers {
        policy: Some(policy),
        ..ControllerAnswers::default()
    })
    .await;
    let found = api.client_policy(&client(), socket(9, 81)).await.unwrap();
    assert!(found.is_undefined_port());
    assert_eq!(found.protocol, "opaque");
    assert_eq!(found.routes[0].failure.as_deref(), Some("forbidden"));
    assert!(found.routes[0].backends.is_empty());
    let asked = answers.asked.lock().unwrap().concat();
    let workload = json!({"ns": "shop", "pod": "cart-1"}).to_string();
    assert!(asked.contains(&format!("{workload:?}")), "{asked}");
}

#[tokio::test]
async fn routes_have_their_backends() {
    use outbound::{
        Backend,
        backend::{self, BalanceP2c, EndpointDiscovery, endpoint_discovery},
        http_route::{
            Distribution, RouteBackend, Rule, WeightedRouteBackend,
            distribution::{self, RandomAvailable},
        },
    };
    let path = "web.shop.svc.cluster.local:80";
    let discovery = endpoint_discovery::DestinationGet {
        path: path.to_owned(),
    };
    let balancer = BalanceP2c {
        discovery: Some(EndpointDiscovery {
            kind: Some(endpoint_discovery::Kind::Dst(discovery)),
        }),
        ..BalanceP2c::default()
    };
    let backend = RouteBackend {
        backend: Some(Backend {
            metadata: Some(object("core", "Service", "web", 80)),
            kind: Some(backend::Kind::Balancer(balancer)),
            ..Backend::default()
        }),
        ..RouteBackend::default()
    };
    let all = RandomAvailable {
        backends: vec![WeightedRouteBackend {
            backend: Some(backend),
            weight: 7,
        }],
    };
    let route = outbound::HttpRoute {
        metadata: Some(object("gateway.networking.k8s.io", "HTTPRoute", "r", 0)),
        rules: vec![Rule {
            backends: Some(Distribution {
                kind: Some(distribution::Kind::RandomAvailable(all)),
            }),
            ..Rule::default()
        }],
        ..outbound::HttpRoute::default()
    };
    let detect = outbound::proxy_protocol::Detect {
        http1: Some(outbound::proxy_protocol::Http1 {
            routes: vec![route],
            ..Default::default()
        }),
        ..Default::default()
    };
    let policy = OutboundPolicy {
        metadata: None,
        protocol: Some(outbound::ProxyProtocol {
            kind: Some(outbound::proxy_protocol::Kind::Detect(detect)),
        }),
    };
    let (api, _) = api(ControllerAnswers {
        policy: Some(policy),
        ..ControllerAnswers::default()
    })
    .await;
    let found = api.client_policy(&client(), socket(9, 80)).await.unwrap();
    assert!(!found.is_undefined_port());
    let [route] = found.routes.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(route.route.as_ref().unwrap().name(), "r");
    assert_eq!(route.failure, None);
    let [backend] = route.backends.as_slice() else {
        panic!("{route:?}");
    };
    assert_eq!(backend.authority.as_deref(), Some(path));
    assert_eq!(backend.weight, 7);
}

#[tokio::test]
async fn server_policy_says_which_identities_may_connect() {
    let identities = authn::permit_mesh_tls::PermitClientIdentities {
        identities: vec![Identity {
            name: "cart.shop.id".to_owned(),
        }],
        suffixes: vec![IdentitySuffix {
            parts: vec!["gw".to_owned(), "id".to_owned()],
        }],
    };
    let authz = Authz {
        networks: vec![Network {
            net: Some(IpNetwork {
                ip: Some(IpAddr::from([10, 0, 0, 0]).into()),
                prefix_len: 8,
            }),
            except: vec![],
        }],
        authentication: Some(Authn {
            permit: Some(authn::Permit::MeshTls(authn::PermitMeshTls {
                clients: Some(authn::permit_mesh_tls::Clients::Identities(identities)),
            })),
        }),
        ..Authz::default()
    };
    let server = Server {
        protocol: Some(inbound::ProxyProtocol {
            kind: Some(inbound::proxy_protocol::Kind::Opaque(
                inbound::proxy_protocol::Opaque {},
            )),
        }),
        authorizations: vec![authz],
        labels: labels(&[("name", "web-http")]),
        ..Server::default()
    };
    let (api, _) = api(ControllerAnswers {
        server: Some(server),
        ..ControllerAnswers::default()
    })
    .await;
    let found = api.server_policy(&client(), 8080).await.unwrap();
    assert_eq!(found.labels["name"], "web-http");
    let [authorization] = found.authorizations.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(authorization.networks, ["10.0.0.0/8"]);
    for (identity, expected) in [
        (Some("cart.shop.id"), true),
        (Some("a.gw.id"), true),
        (Some("agw.id"), false),
        (Some("other.shop.id"), false),
        (None, false),
    ] {
        let permitted = authorization.clients.permit(identity);
        assert_eq!(permitted, expected, "{identity:?}");
    }
    assert!(PermittedClients::All.permit(None));
    assert!(PermittedClients::Meshed.permit(Some("x")));
    assert!(!PermittedClients::Meshed.permit(None));
}

#[tokio::test]
async fn silent_controllers_end_a_call_at_its_deadline() {
    let answers = Arc::new(ControllerAnswers::default());
    let address = serve(answers).await.to_string();
    let deadline = Duration::from_millis(200);
    let api = at_address(&address, deadline);
    // No update ever comes.
    let error = api.endpoints(&client(), "web:80").await.unwrap_err();
    assert_eq!(error, LinkerdApiError::Late(deadline));
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let api = at_address(&address, SOON);
    let error = api.profile(&client(), "10.0.0.1:80").await.unwrap_err();
    let expected = format!("cannot connect to {address}: Connection refused");
    assert!(error.to_string().starts_with(&expected), "{error}");

    let unnamed = LinkerdApi::at(ControllerAddresses::default(), SOON);
    let error = unnamed.server_policy(&client(), 80).await.unwrap_err();
    let expected = "cannot connect to port 8090: no address was given";
    assert_eq!(error.to_string(), expected);
}
