//! What is wrong with Links, in one line each, for all views of them. Pure.

use std::collections::BTreeSet;

use observe::{
    clusters::topology::{Edge, Topology},
    finding::{Finding, causes::Cause},
};

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

/// What a Link is called. If there are `several` clusters, this names the Link's own.
fn named(edge: &Edge, links: &[Edge], several: bool) -> String {
    let name = called(edge, links);
    if several {
        format!("{} → {name}", edge.source)
    } else {
        name
    }
}

/// What is wrong with Links, in a line each: installations without an active controller, once each, then the findings of
/// each Link that are wanted.
pub fn notes(
    topology: &Topology,
    several: bool,
    is_wanted: impl Fn(&Edge, &Finding) -> bool,
) -> Vec<String> {
    let found = findings(topology, several, is_wanted);
    found.iter().map(Finding::told).collect()
}

/// The same as findings, each about its Link or its cluster.
pub fn findings(
    topology: &Topology,
    several: bool,
    is_wanted: impl Fn(&Edge, &Finding) -> bool,
) -> Vec<Finding> {
    let mut silent = BTreeSet::new();
    let (mut silences, mut others) = (Vec::new(), Vec::new());
    for edge in &topology.links {
        for finding in &edge.link.findings {
            if finding.is_consequence || !is_wanted(edge, finding) {
                continue;
            }
            let finding = finding.clone();
            if finding.cause != Some(Cause::ControllerDown) {
                others.push(finding.of(&named(edge, &topology.links, several)));
            } else if silent.insert((&edge.source, &edge.link.namespace)) {
                silences.push(if several {
                    finding.of(&edge.source)
                } else {
                    finding
                });
            }
        }
    }
    silences.extend(others);
    silences
}

#[cfg(test)]
mod tests {
    use observe::{
        clusters::fixtures::{silence, snapshots},
        finding::Level,
    };

    use super::*;

    #[test]
    fn a_link_is_called_as_commands_name_its_target() {
        let mut topology = Topology::of(&snapshots());
        let names = |topology: &Topology| {
            let links = &topology.links;
            links
                .iter()
                .map(|edge| named(edge, links, true))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            names(&topology),
            ["east → w", "west → east", "west → n", "north → moon"]
        );
        let mut again = topology.links[0].clone();
        again.link.name = "w-again".into();
        topology.links.push(again);
        let names = names(&topology);
        assert_eq!(names[0], "east → w (linkerd-multicluster/w)");
        assert_eq!(names[4], "east → w (linkerd-multicluster/w-again)");
        assert_eq!(named(&topology.links[1], &topology.links, false), "east");
    }

    #[test]
    fn each_installation_without_an_active_controller_is_named_once() {
        let mut topology = Topology::of(&snapshots());
        let now = "2026-11-21T12:00:00Z";
        for edge in &mut topology.links[1..3] {
            silence(&mut edge.link, now);
        }
        let lines = notes(&topology, true, |_, finding| finding.level == Level::Error);
        assert_eq!(
            lines,
            [
                "west: no controller is active: controller-1 last renewed the Lease \
              linkerd-multicluster/service-mirror-write at 2026-11-21 11:48:00 UTC, and nothing has been reported since: run \
              `kubectl -n linkerd-multicluster get pods`"
            ]
        );
    }
}
