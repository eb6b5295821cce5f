//! Who may connect: the policies of the gateway and of the Service's Pods in the target cluster.

use std::net::IpAddr;

use hints::suggest::Suggested;
use ipnet::IpNet;
use mirror_core::api::k8s::Service;
use serde_json::{Value, json};

use super::{context::PathContext, layer::LayerReport, subject::Mode};
use crate::{
    clusters::{
        linkerd_api::{Authorization, PermittedClients, PolicyReference, ServerPolicy},
        request_path::{InboundPort, TargetFacts},
    },
    finding::{Finding, Level, causes::Cause},
};

/// The default policy for the probes of a Pod. It is for their paths only.
const PROBES: &str = "probe";
/// Maximum number of identities in a text.
const SHOWN: usize = 5;

/// Who asks.
struct Caller<'a> {
    /// In words.
    who: &'a str,
    /// Its identity; `None` if it is unknown.
    identity: Option<String>,
    /// Its address, as the other side sees it; `None` if something between them may replace it.
    address: Option<IpAddr>,
}

/// Judges whether the client may connect to the gateway.
pub fn of_gateway(
    way: &PathContext<'_>,
    place: (&str, Level),
    port: &InboundPort,
    report: &mut LayerReport,
) {
    let caller = Caller {
        who: "the client",
        identity: way.client_identity(),
        address: None,
    };
    judge(way, (Cause::GatewayDenies, place), port, &caller, report);
}

/// Judges whether the gateway, or the client, may connect to a Pod of the Service.
pub fn of_server(
    way: &PathContext<'_>,
    target: &TargetFacts,
    (mode, level): (Mode, Level),
    report: &mut LayerReport,
) {
    let port = match &target.serving {
        None => return, // There is no ready Pod, or none with this port.
        Some(Err(why)) => {
            let what = format!("who may connect to the Pods of {}", target.remote);
            return report.cannot_see(what, why);
        }
        Some(Ok(port)) => port,
    };
    let client = way.client().and_then(|client| client.state.address);
    let caller = match mode {
        Mode::Discovery => Caller {
            who: "the client",
            identity: way.client_identity(),
            address: client,
        },
        Mode::Gateway => {
            let gateways = target.gateways.as_deref().unwrap_or_default();
            let [gateway] = gateways else {
                let what = format!("who may connect to the Pods of {}", target.remote);
                return report.cannot_see(what, "it is unknown which gateway asks them");
            };
            let pod = gateway.inbound.as_ref().map(|inbound| &inbound.pod);
            Caller {
                who: "the gateway",
                identity: Some(gateway.identity.clone()),
                address: pod.and_then(|pod| pod.address),
            }
        }
    };
    let place = (target.cluster.as_str(), level);
    judge(way, (Cause::ServerDenies, place), port, &caller, report);
}

fn judge(
    way: &PathContext<'_>,
    (cause, (cluster, level)): (Cause, (&str, Level)),
    port: &InboundPort,
    caller: &Caller<'_>,
    report: &mut LayerReport,
) {
    let InboundPort {
        pod,
        port: number,
        policy,
    } = port;
    let what = format!("port {number} of Pod {} in {cluster}", pod.id);
    let policy = match policy {
        Ok(policy) => policy,
        Err(why) => return report.cannot_see(format!("who may connect to {what}"), why),
    };
    let Some(identity) = &caller.identity else {
        let why = format!(
            "the identity of {} is not known; pass --from POD",
            caller.who
        );
        return report.cannot_see(format!("whether {} may connect to {what}", caller.who), why);
    };
    let by = server(policy, &pod.id.namespace);
    let admits =
        |one: &&Authorization| one.clients.permit(Some(identity)) && is_from(one, caller.address);
    if policy.authorizations.iter().any(|one| admits(&one)) {
        return report.see(format!("{by} lets {} connect to {what}", caller.who));
    }
    let of_routes = policy.of_routes.iter().filter(|one| !is_probe(one));
    if of_routes.clone().any(|one| admits(&one)) {
        return report.see(format!(
            "{by} lets {} connect to {what} for some routes",
            caller.who
        ));
    }
    let permitted: Vec<String> = policy
        .authorizations
        .iter()
        .chain(of_routes)
        .map(describe)
        .collect();
    let permitted = match permitted.as_slice() {
        [] => "nobody".to_owned(),
        all => all.join(", "),
    };
    let from = caller.address.map(|address| format!(" at {address}"));
    let evidence = format!(
        "{by} lets {permitted} connect to {what}, and {} is {identity}{}",
        caller.who,
        from.unwrap_or_default()
    );
    let found = Finding::new(cause, level, evidence);
    report.find(Some(permit(
        way,
        found,
        (cluster, policy),
        (port, identity),
    )));
}

/// The commands that let the caller connect, or show who may.
fn permit(
    way: &PathContext<'_>,
    found: Finding,
    (cluster, policy): (&str, &ServerPolicy),
    (port, identity): (&InboundPort, &str),
) -> Finding {
    let namespace = &port.pod.id.namespace;
    let mut policies = policy
        .authorizations
        .iter()
        .filter_map(|one| match &one.policy {
            Some(PolicyReference::Object { kind, name, .. }) => Some((kind, name)),
            _ => None,
        });
    let label = |name: &str| policy.labels.get(name).map_or("", String::as_str);
    if let Some((kind, name)) = policies.next() {
        let resource = format!("{kind}.policy.linkerd.io");
        return found.fixed_in(way.commands, cluster, |flags| {
            flags.kubectl("-n {} edit {} {}", &[namespace, &resource, name])
        });
    }
    if found.cause == Some(Cause::GatewayDenies) {
        // `install` has the policies, but only the user has the values for it.
        return found.fixed_in(way.commands, cluster, |flags| {
            flags.kubectl(
                "-n {} get authorizationpolicies.policy.linkerd.io",
                &[namespace],
            )
        });
    }
    if label("kind") == "server" {
        let name = label("name");
        return found.fixed_in(way.commands, cluster, |flags| {
            flags.kubectl(
                "-n {} edit servers.policy.linkerd.io {}",
                &[namespace, name],
            )
        });
    }
    let service = way.facts.target_of(cluster);
    let service = service.and_then(|target| target.service.as_ref().ok()?.as_ref());
    match service.filter(|service| !service.spec.selector.is_empty()) {
        Some(service) => {
            let objects = opened(service, port.port, label("name"), identity).to_string();
            found.fixed_in(way.commands, cluster, |flags| {
                let echo = Suggested::of("echo {}", &[&objects]);
                echo.piped(&flags.kubectl("apply -f -", &[]))
            })
        }
        None => found.fixed_in(way.commands, cluster, |flags| {
            flags.kubectl("-n {} get servers.policy.linkerd.io", &[namespace])
        }),
    }
}

/// A Server for a port of a Service's Pods that lets in whom the default policy lets in, and a policy that lets in this
/// identity too.
fn opened(service: &Service, port: u16, default: &str, identity: &str) -> Value {
    let name = format!("{}-{port}", service.metadata.name());
    let object = |version: &str, kind: &str, spec: Value| {
        json!({
            "apiVersion": format!("policy.linkerd.io/{version}"), "kind": kind,
            "metadata": { "namespace": service.metadata.namespace(), "name": name },
            "spec": spec,
        })
    };
    let server = json!({
        "podSelector": { "matchLabels": service.spec.selector },
        "port": port, "accessPolicy": default,
    });
    let group = "policy.linkerd.io";
    let policy = json!({
        "targetRef": { "group": group, "kind": "Server", "name": name },
        "requiredAuthenticationRefs": [{ "group": group, "kind": "MeshTLSAuthentication", "name": name }],
    });
    json!({
        "apiVersion": "v1", "kind": "List",
        "items": [
            object("v1alpha1", "MeshTLSAuthentication", json!({ "identities": [identity] })),
            object("v1alpha1", "AuthorizationPolicy", policy),
            object("v1beta3", "Server", server),
        ],
    })
}

/// The object that decides.
fn server(policy: &ServerPolicy, namespace: &str) -> String {
    let label = |name: &str| policy.labels.get(name).map_or("", String::as_str);
    match (label("kind"), label("name")) {
        ("server", name) => format!("Server {namespace}/{name}"),
        (_, name) => format!("the default policy {name}"),
    }
}

fn is_probe(one: &Authorization) -> bool {
    one.policy == Some(PolicyReference::Default(PROBES.to_owned()))
}

/// Whether a client with this address is in the networks of an authorization.
fn is_from(one: &Authorization, address: Option<IpAddr>) -> bool {
    let nets = || {
        one.networks
            .iter()
            .filter_map(|net| net.parse::<IpNet>().ok())
    };
    address
        .is_none_or(|address| one.networks.is_empty() || nets().any(|net| net.contains(&address)))
}

/// Whom an authorization permits.
fn describe(one: &Authorization) -> String {
    let clients = match &one.clients {
        PermittedClients::All => "all clients".to_owned(),
        PermittedClients::Meshed => "all clients of the mesh".to_owned(),
        PermittedClients::Identities { names, suffixes } => {
            let suffixes = suffixes.iter().map(|suffix| match suffix.as_str() {
                "" => "all clients of the mesh".to_owned(),
                suffix => format!("*.{suffix}"),
            });
            let mut all: Vec<String> = names.iter().cloned().chain(suffixes).collect();
            if all.len() > SHOWN {
                let more = all.len() - SHOWN;
                all.truncate(SHOWN);
                all.push(format!("{more} more"));
            }
            match all.as_slice() {
                [] => "no identity".to_owned(),
                all => all.join(", "),
            }
        }
    };
    let is_any = |net: &String| net.ends_with("/0");
    let from = match one.networks.as_slice() {
        [] => String::new(),
        nets if nets.iter().any(is_any) => String::new(),
        nets => format!(" from {}", nets.join(", ")),
    };
    let by = match &one.policy {
        Some(PolicyReference::Object { kind, name, .. }) => format!(" ({kind} {name})"),
        _ => String::new(),
    };
    format!("{clients}{from}{by}")
}
