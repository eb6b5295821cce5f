//! The way between the clusters: the gateway, by its probes, or the networks of Pods.

use std::{collections::BTreeSet, net::IpAddr};

use hints::suggest::Suggested;
use mirror_core::api::{conditions as c, link::LinkSpec};

use super::{
    connection,
    context::PathContext,
    exported, inbound,
    layer::LayerReport,
    silence::silence,
    subject::{Mode, Subject},
    target::no_common_anchor,
};
use crate::{
    clusters::{
        pod_networks::PodNetworks,
        request_path::{GatewayFacts, PodState},
        snapshot::LinkSnapshot,
    },
    finding::{
        Finding, Level,
        causes::{Cause, Layer},
    },
};

/// Begins a message of the controller if something has answered its probe, though not as a gateway does.
const ANSWERED: &str = "the gateway returned status";

pub fn judge(way: &PathContext<'_>) -> LayerReport {
    let mut report = LayerReport::new(Layer::Network);
    let Some(mode) = way.subject.mode() else {
        return report;
    };
    let level = way.level();
    let clusters: BTreeSet<&str> = way
        .subject
        .remotes()
        .into_iter()
        .map(|(cluster, _)| cluster)
        .collect();
    for cluster in clusters {
        match (mode, way.facts.link_to(cluster)) {
            (Mode::Discovery, _) => networks(way, cluster, level, &mut report),
            (Mode::Gateway, Some(link)) => gateway(way, link, level, &mut report),
            (Mode::Gateway, None) => {
                report.cannot_see(format!("the gateway of {cluster}"), "its Link is not known");
            }
        }
    }
    report
}

/// The gateway of a target cluster: as its own cluster shows it, and as the controller's probes see it.
fn gateway(way: &PathContext<'_>, link: &LinkSnapshot, level: Level, report: &mut LayerReport) {
    let facts = own(way, link, report);
    let spec = &link.link.spec;
    // What an invalid Link says is not in force.
    let is_valid = connection::invalid(way, link, level).is_none();
    if is_valid && !spec.gateway_port.is_empty() && spec.gateway_port == spec.probe_spec.port {
        // The port for probes is that of the proxy's admin server, which answers requests with status 404.
        let evidence = format!(
            "Link {} has port {} for requests and for probes",
            link.id(),
            spec.gateway_port
        );
        let found = Finding::new(Cause::GatewayPortWrong, level, evidence);
        let relink = way
            .commands
            .link_with_port(link.cluster(), link.namespace());
        return report.find(Some(found.fixed_by(&relink)));
    }
    let status = way.status(link);
    let alive = status.and_then(|status| status.condition(c::GATEWAY_ALIVE));
    let in_force = facts.filter(|_| is_valid);
    if let Some(found) = in_force.and_then(|facts| differs(way, link, facts)) {
        let is_dead = alive.is_some_and(|alive| alive.status == "False");
        // The addresses of its own Service have the ports of this Service. At others, something may map them.
        let is_own = facts.is_some_and(|gateway| {
            !gateway.addresses.is_empty() && !has_other_addresses(link, gateway)
        });
        if found.cause == Some(Cause::GatewayPortWrong) && !is_dead && !is_own {
            let is_alive = alive.is_some_and(|alive| alive.status == "True");
            let but = if is_alive {
                "it answers the controller's probes"
            } else {
                "whether something maps it is not known"
            };
            report.see(format!("{}, and {but}", found.evidence));
        } else {
            report.find(Some(Finding { level, ..found }));
            return;
        }
    }
    let at = address(link);
    if let Some((reason, message)) = way.problem(link, c::GATEWAY_ADDRESS_REFUSED)
        && reason == c::gateway_address_refused::ALL_REFUSED
    {
        let edit = way.commands.source.kubectl(
            "-n {} edit links.multicluster.linkerd.io {}",
            &[link.namespace(), link.name()],
        );
        let evidence = format!("Link {}: {message}", link.id());
        report.find(Some(
            Finding::new(Cause::GatewayAddressRefused, level, evidence)
                .since(link.since(c::GATEWAY_ADDRESS_REFUSED))
                .fixed_by(&edit),
        ));
        return;
    }
    let policy = |report: &mut LayerReport| {
        if let Some(port) = facts.and_then(|facts| facts.inbound.as_ref()) {
            let place = (link.cluster(), level);
            inbound::of_gateway(way, place, port, report);
        }
    };
    let Some(condition) = alive else {
        let silent = silence(way.facts, link.namespace());
        let why = silent.unwrap_or_else(|| "the Link's status says nothing of it".to_owned());
        report.cannot_see(format!("the gateway at {at}"), why);
        report.find(facts.and_then(|facts| down(way, link, facts, level)));
        policy(report);
        return;
    };
    let message = &condition.message;
    match condition.status.as_str() {
        "True" => {
            report.see(format!(
                "the gateway at {at} answers the controller's probes"
            ));
            if way.facts.proxy.is_none() {
                report.cannot_see(
                    format!("port {} of the gateway", link.link.spec.gateway_port),
                    "only the proxy of a calling Pod connects to it; pass --from POD",
                );
            }
            // The next probes will fail. Where there are no Pods at all, something else answers.
            let down = facts.and_then(|facts| down(way, link, facts, Level::Warning));
            let has_pods = facts.is_some_and(|facts| facts.pods.iter().flatten().next().is_some());
            match down {
                Some(found) if has_pods => report.find(Some(found)),
                Some(found) => report.see(found.evidence),
                None => {}
            }
            policy(report);
        }
        "False" => {
            let found = dead(way, link, facts, level, message);
            report.find(Some(found.since(link.since(c::GATEWAY_ALIVE))));
        }
        _ if !message.is_empty() && has_no_address(link) => {
            let evidence = format!("Link {}: {message}", link.id());
            let found = Finding::new(Cause::GatewayAddressUnknown, level, evidence);
            // `link` alone keeps the addresses that a Link has.
            let keeps = !link.link.spec.gateway_address.is_empty();
            let moved = facts.filter(|gateway| keeps && has_other_addresses(link, gateway));
            let relink = match moved {
                Some(gateway) => with_addresses(way, link, gateway),
                None => relink(way, link),
            };
            report.find(Some(found.fixed_by(&relink)));
        }
        _ if link.link.spec.probe_spec.port.is_empty() => report.cannot_see(
            format!("the gateway at {at}"),
            "its Link does not ask for probes",
        ),
        _ => report.cannot_see(format!("the gateway at {at}"), "it was not probed yet"),
    }
}

/// The gateway as its own cluster shows it: the one with an address of the Link, or the only one.
fn own<'a>(
    way: &PathContext<'a>,
    link: &LinkSnapshot,
    report: &mut LayerReport,
) -> Option<&'a GatewayFacts> {
    let Some(target) = way.facts.target_of(link.cluster()) else {
        report.cannot_see(
            format!("the gateway's Service and Pods in {}", link.cluster()),
            "no context was named; pass --target CONTEXT",
        );
        return None;
    };
    match target.gateways.as_deref() {
        Err(why) => {
            report.cannot_see("gateways", why);
            None
        }
        Ok([one]) => Some(one),
        Ok(all) => {
            let addresses = addresses(link);
            let found = all.iter().find(|one| {
                one.addresses
                    .iter()
                    .any(|own| addresses.contains(own.as_str()))
            });
            if found.is_none() {
                report.cannot_see(
                    "the gateway",
                    format!("none of {} gateways has an address of the Link", all.len()),
                );
            }
            found
        }
    }
}

/// A finding if the Link has another identity or port of the gateway than the gateway itself.
fn differs(way: &PathContext<'_>, link: &LinkSnapshot, gateway: &GatewayFacts) -> Option<Finding> {
    let LinkSpec {
        gateway_identity,
        gateway_port,
        ..
    } = &link.link.spec;
    let (cause, evidence) = if *gateway_identity != gateway.identity {
        (
            Cause::GatewayIdentityWrong,
            format!(
                "Link {} expects {gateway_identity}, and gateway {} is {}",
                link.id(),
                gateway.id,
                gateway.identity
            ),
        )
    } else if gateway
        .port
        .is_some_and(|port| port.to_string() != *gateway_port)
    {
        let port = gateway.port.unwrap_or_default();
        (
            Cause::GatewayPortWrong,
            format!(
                "Link {} has port {gateway_port}, and gateway {} has {port}",
                link.id(),
                gateway.id
            ),
        )
    } else {
        return None;
    };
    let relink = match cause {
        Cause::GatewayPortWrong => way
            .commands
            .link_with_port(link.cluster(), link.namespace()),
        _ => relink(way, link),
    };
    Some(Finding::broken(cause, evidence).fixed_by(&relink))
}

/// The command that links the cluster again, with its gateway also if the Link has none.
fn relink(way: &PathContext<'_>, link: &LinkSnapshot) -> Suggested {
    let (cluster, namespace) = (link.cluster(), link.namespace());
    if link.link.spec.gateway_address.is_empty() {
        way.commands.link_with_gateway(cluster, namespace)
    } else {
        way.commands.link(cluster, namespace)
    }
}

/// The command that links the cluster again with the addresses that its gateway has now.
fn with_addresses(way: &PathContext<'_>, link: &LinkSnapshot, gateway: &GatewayFacts) -> Suggested {
    let (cluster, namespace) = (link.cluster(), link.namespace());
    way.commands
        .link_with_addresses(cluster, namespace, &gateway.addresses)
}

/// Whether a gateway has addresses, and none of them is in the Link.
fn has_other_addresses(link: &LinkSnapshot, gateway: &GatewayFacts) -> bool {
    let named = addresses(link);
    let is_named = |own: &String| named.contains(own.as_str());
    !gateway.addresses.is_empty() && !gateway.addresses.iter().any(is_named)
}

/// The command that shows the Pods and Services of a gateway.
fn shown(way: &PathContext<'_>, cluster: &str, namespace: &str, found: Finding) -> Finding {
    found.fixed_in(way.commands, cluster, |flags| {
        flags.kubectl("-n {} get pods,services", &[namespace])
    })
}

/// The finding if none of the gateway's Pods is ready.
fn down(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    gateway: &GatewayFacts,
    level: Level,
) -> Option<Finding> {
    let pods = gateway.pods.as_ref().ok()?;
    if pods.iter().any(|pod| pod.ready) {
        return None;
    }
    let all = pods.len();
    let evidence = format!("0 of {all} Pods of gateway {} are ready", gateway.id);
    let found = Finding::new(Cause::GatewayDown, level, evidence);
    Some(shown(way, link.cluster(), &gateway.id.namespace, found))
}

/// The gateway does not answer probes.
fn dead(
    way: &PathContext<'_>,
    link: &LinkSnapshot,
    facts: Option<&GatewayFacts>,
    level: Level,
    message: &str,
) -> Finding {
    let (cluster, at) = (link.cluster(), address(link));
    let port = &link.link.spec.probe_spec.port;
    let why = if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    };
    let silent = format!("the gateway at {at} does not answer probes on port {port}{why}");
    let Some((gateway, pods)) = facts.and_then(|one| Some((one, one.pods.as_ref().ok()?))) else {
        let namespace = facts.map_or_else(|| link.namespace(), |gateway| &gateway.id.namespace);
        let found = Finding::new(Cause::GatewayUnreachable, level, silent);
        return shown(way, cluster, namespace, found);
    };
    if let Some(found) = down(way, link, gateway, level) {
        let evidence = format!("{silent}; {}", found.evidence);
        return Finding { evidence, ..found };
    }
    if link.link.spec.gateway_address.is_empty() {
        let evidence = format!("{silent}; Link {} names no address", link.id());
        let found = Finding::new(Cause::GatewayAddressUnknown, level, evidence);
        let relink = if has_other_addresses(link, gateway) {
            with_addresses(way, link, gateway)
        } else {
            relink(way, link)
        };
        return found.fixed_by(&relink);
    }
    let ready = pods.iter().filter(|pod| pod.ready).count();
    let evidence = format!("{silent}; {ready} Pods of gateway {} are ready", gateway.id);
    // Probes go through both proxies, which need a common trust anchor.
    let target = way.facts.target_of(cluster);
    let is_shared = match target.map(|target| no_common_anchor(way, target, level)) {
        Some(Ok(Some(found))) => {
            let evidence = format!("{evidence}; {}", found.evidence);
            return Finding { evidence, ..found };
        }
        Some(Ok(None)) => true,
        Some(Err(_)) | None => false,
    };
    let others = other_gateways(way, link).unwrap_or_default();
    let mut rivals = Vec::new();
    if connection::invalid(way, link, level).is_some() {
        rivals.push("the Link is invalid, so it is not known what is probed".to_owned());
    }
    if others > 0 {
        rivals.push(format!("those of all {} Links do not answer", others + 1));
    }
    if has_other_addresses(link, gateway) {
        let has = gateway.addresses.join(", ");
        rivals.push(format!(
            "the Service has {has}, so {at} is right only if something leads from there to the gateway"
        ));
    }
    if message.contains(ANSWERED) {
        rivals.push("the port is open, and what answers there is no gateway that is ready".into());
    }
    if !is_shared {
        rivals.push("whether the clusters share a trust anchor is not known".to_owned());
    }
    let namespace = &gateway.id.namespace;
    if rivals.is_empty() {
        let found = Finding::new(Cause::ProbePortClosed, level, evidence);
        return shown(way, cluster, namespace, found);
    }
    let evidence = format!("{evidence}; {}", rivals.join("; "));
    let found = Finding::new(Cause::ProbesFail, level, evidence);
    if others > 0 {
        return found.fixed_by(&controller_pods(way, link));
    }
    shown(way, cluster, namespace, found).fixed_by(&controller_pods(way, link))
}

/// The number of other Links with a gateway, if none of these gateways answers probes.
fn other_gateways(way: &PathContext<'_>, link: &LinkSnapshot) -> Option<usize> {
    let links = way.facts.source.links.as_ref().ok()?.iter();
    let others = links
        .filter(|other| other.namespace() == link.namespace() && other.cluster() != link.cluster());
    let mut alive = others.filter_map(|other| other.status()?.condition(c::GATEWAY_ALIVE));
    let mut count = 0;
    alive
        .all(|alive| {
            count += 1;
            alive.status == "False"
        })
        .then_some(count)
}

/// The command that shows what the controller, which sends the probes, says.
fn controller_pods(way: &PathContext<'_>, link: &LinkSnapshot) -> Suggested {
    way.commands.source.kubectl(
        "-n {} get pods -o wide -l component=controller",
        &[link.namespace()],
    )
}

/// The addresses of the gateway, as the Link names them and as its controller has resolved them.
fn addresses(link: &LinkSnapshot) -> BTreeSet<&str> {
    let named = link.link.spec.gateway_address.split(',').map(str::trim);
    let resolved = link.status().and_then(|status| status.gateway.as_ref());
    let resolved = resolved.into_iter().flat_map(|gateway| &gateway.addresses);
    named
        .chain(resolved.map(String::as_str))
        .filter(|text| !text.is_empty())
        .collect()
}

fn has_no_address(link: &LinkSnapshot) -> bool {
    let gateway = link.status().and_then(|status| status.gateway.as_ref());
    gateway.is_none_or(|gateway| gateway.addresses.is_empty())
}

fn address(link: &LinkSnapshot) -> &str {
    match link.link.spec.gateway_address.as_str() {
        "" => "unknown address",
        address => address,
    }
}

/// Whether addresses of Pods in a target cluster are in the networks of this cluster's own Pods.
fn networks(way: &PathContext<'_>, cluster: &str, level: Level, report: &mut LayerReport) {
    let Some(target) = way.facts.target_of(cluster) else {
        return report.cannot_see(
            format!("the addresses of Pods in {cluster}"),
            "no context was named; pass --target CONTEXT",
        );
    };
    let (slices, own) = match (&target.slices, &way.facts.source.pod_networks) {
        (Err(why), _) => return report.cannot_see(format!("EndpointSlices of {cluster}"), why),
        (_, Err(why)) => return report.cannot_see("Nodes", why),
        (Ok(slices), Ok(own)) => (slices, own),
    };
    let local = way.facts.source.destination_pods.iter().flatten();
    let client = way.client().map(|client| &client.state);
    let local: Vec<IpAddr> = local
        .chain(client)
        .filter_map(|pod: &PodState| pod.address)
        .collect();
    let own = PodNetworks {
        networks: own.clone(),
        own: local,
    };
    if !own.in_force() {
        return report.cannot_see(
            "the networks of this cluster's Pods",
            "its Nodes do not tell them",
        );
    }
    let endpoints = slices.iter().flat_map(|slice| &slice.endpoints);
    let remote = endpoints.flat_map(|endpoint| &endpoint.addresses);
    let remote: Vec<IpAddr> = remote.filter_map(|address| address.parse().ok()).collect();
    match own.overlap(remote.iter()) {
        Some((address, network)) => {
            let evidence = format!(
                "{address} of {} in {cluster} is in {network}, a network of this cluster's own Pods",
                target.remote
            );
            let found = Finding::new(Cause::NetworksOverlap, level, evidence);
            let link = way.facts.link_to(cluster);
            let is_federated = matches!(way.subject, Subject::Federated(_));
            report.find(Some(match link.filter(|_| is_federated) {
                Some(link) => {
                    let namespace = link.namespace();
                    found.fixed_by(&way.commands.link_through_gateway(cluster, namespace))
                }
                None => exported::labelled(way, link, target, found),
            }));
        }
        None => report.see(format!(
            "the Pods in {cluster} have addresses of other networks"
        )),
    }
    report.cannot_see(
        format!("connections to Pods in {cluster}"),
        "only the proxy of a calling Pod opens them",
    );
}
