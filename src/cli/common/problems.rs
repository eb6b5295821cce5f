//! What is wrong with Links, in one line each, for all views of them. Pure.

use std::collections::BTreeSet;

use jiff::Timestamp;
use observe::clusters::topology::{Edge, Topology};

use super::table::age;

/// What a Link is called among these: its target cluster, as commands name it, and its own name if several Links of a
/// cluster have the same target.
pub fn called(edge: &Edge, links: &[Edge]) -> String {
    let cluster = &edge.link.cluster;
    let same = |other: &&Edge| other.source == edge.source && other.link.cluster == *cluster;
    if links.iter().filter(same).count() < 2 {
        return cluster.clone();
    }
    format!("{cluster} ({}/{})", edge.link.namespace, edge.link.name)
}

/// The beginning of a line about a Link. If there are `several` clusters, it names the Link's own.
pub fn about(edge: &Edge, links: &[Edge], several: bool) -> String {
    let name = called(edge, links);
    if several {
        format!("{} → {name}: ", edge.source)
    } else {
        format!("{name}: ")
    }
}

/// Installations without an active controller, one line each.
pub fn silences(topology: &Topology, several: bool, now: Timestamp) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut lines = Vec::new();
    for edge in &topology.links {
        let Some(controller) = &edge.link.controller else {
            continue;
        };
        let ago = |time| format!("{} ago", age(now, Some(time)));
        let Some(silence) = controller.silence(topology.flags_of(edge), ago) else {
            continue;
        };
        if seen.insert((&edge.source, &edge.link.namespace)) {
            let of = several.then(|| format!("{}: ", edge.source));
            lines.push(of.unwrap_or_default() + &silence.told());
        }
    }
    lines
}

/// The problem of the gateway of a Link.
pub fn dead_gateway(edge: &Edge, now: Timestamp) -> Option<String> {
    let gateway = edge.link.gateway.as_ref()?;
    gateway.problem(|time| {
        let time_of_day = time.strftime("%Y-%m-%d %H:%M UTC");
        format!("{time_of_day} ({} ago)", age(now, Some(time)))
    })
}

#[cfg(test)]
mod tests {
    use observe::clusters::{fixtures::silent, fixtures::snapshots};

    use super::*;

    #[test]
    fn a_link_is_called_as_commands_name_its_target() {
        let mut topology = Topology::of(&snapshots());
        let names = |topology: &Topology| {
            let links = &topology.links;
            links
                .iter()
                .map(|edge| about(edge, links, true))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(&topology),
            [
                "east → w: ",
                "west → east: ",
                "west → n: ",
                "north → moon: "
            ]
        );
        let mut again = topology.links[0].clone();
        again.link.name = "w-again".into();
        topology.links.push(again);
        let names = names(&topology);
        assert_eq!(names[0], "east → w (linkerd-multicluster/w): ");
        assert_eq!(names[4], "east → w (linkerd-multicluster/w-again): ");
        assert_eq!(about(&topology.links[1], &topology.links, false), "east: ");
    }

    #[test]
    fn each_installation_without_an_active_controller_is_named_once() {
        let mut topology = Topology::of(&snapshots());
        let now = "2026-11-21T12:00:00Z";
        for edge in &mut topology.links[1..3] {
            edge.link.controller = Some(silent(now));
        }
        let lines = silences(&topology, true, now.parse().unwrap());
        assert_eq!(
            lines,
            [
                "west: no controller is active: controller-1 last renewed the Lease \
              linkerd-multicluster/service-mirror-write 12m ago, and nothing has been reported since: run \
              `kubectl -n linkerd-multicluster get pods`"
            ]
        );
    }

    #[test]
    fn a_dead_gateway_has_an_address_a_port_and_an_error() {
        let mut topology = Topology::of(&snapshots());
        let edge = &mut topology.links[0];
        let now = "2026-11-21T12:00:00Z".parse().unwrap();
        assert_eq!(dead_gateway(edge, now), None);
        let gateway = edge.link.gateway.as_mut().unwrap();
        gateway.alive = Some(false);
        gateway.since = Some("2026-11-21T11:48:00Z".parse().unwrap());
        gateway.probe_port = Some(4191);
        gateway.error = Some("connection refused".into());
        assert_eq!(
            dead_gateway(edge, now).unwrap(),
            "the gateway at 192.0.2.1 port 4191 fails probes since 2026-11-21 11:48 UTC (12m ago): connection refused; \
             check its Pods and the firewall"
        );
    }
}
