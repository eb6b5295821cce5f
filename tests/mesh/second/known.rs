//! Differences between both service mirrors that docs/differences.md lists, each with its number there.

use std::collections::BTreeSet;

use super::seen::{REMOTE_DISCOVERY, Seen, SeenService, Target, TargetService};

/// Where the differences are listed.
const LIST: &str = include_str!("../../../docs/differences.md");
/// Label of a host's mirror.
const HOST: &str = "mirror.linkerd.io/headless-mirror-svc-name";

/// Takes the known differences out, and returns their numbers and what is left.
pub(super) fn agreed(
    mut ours: Seen,
    mut theirs: Seen,
    target: &Target,
) -> (BTreeSet<&'static str>, Vec<String>) {
    let mut known = BTreeSet::new();
    for (name, own) in &mut ours.0 {
        if let Some(other) = theirs.0.get_mut(name) {
            let of = target.of(name);
            let found = RULES.iter().filter(|(_, rule)| rule(of, own, other));
            known.extend(found.map(|(row, _)| *row));
        }
    }
    let undiscovered = |_: &str, of: TargetService| of.is_headless && of.is_discovered;
    let unexported = |_: &str, of: TargetService| of.is_headless && !of.is_exported;
    let joins = |name: &str, of: TargetService| is_late(name, of) && of.is_member;
    let leaves = |name: &str, of: TargetService| is_late(name, of) && !of.is_member;
    let external = |name: &str, of: TargetService| is_federated(name) && of.is_external;
    let without_hosts = |_: &str, of: TargetService| of.is_headless && !of.is_backed;
    let alone = [
        ("D-15", only(&mut ours, &theirs, undiscovered, target)),
        ("D-28", only(&mut theirs, &ours, unexported, target)),
        ("D-31", only(&mut ours, &theirs, joins, target)),
        ("D-31", only(&mut theirs, &ours, leaves, target)),
        ("D-34", only(&mut theirs, &ours, external, target)),
        ("D-33", only(&mut ours, &theirs, without_hosts, target)),
        ("D-33", only(&mut theirs, &ours, without_hosts, target)),
    ];
    let rows = alone.into_iter().filter(|(_, found)| *found);
    known.extend(rows.map(|(row, _)| row));
    (known, differences(&ours, &theirs))
}

/// Fails if one of these differences is not listed.
pub(super) fn are_listed(rows: &[&str]) -> anyhow::Result<()> {
    let is_listed = |row: &&&str| LIST.contains(&format!("\n| {row} |"));
    let missing: Vec<_> = rows.iter().filter(|row| !is_listed(row)).collect();
    anyhow::ensure!(missing.is_empty(), "docs/differences.md has no {missing:?}");
    Ok(())
}

/// Takes out mirrors of such Services that only one has.
fn only(
    has: &mut Seen,
    lacks: &Seen,
    is_such: fn(&str, TargetService) -> bool,
    target: &Target,
) -> bool {
    let before = has.0.len();
    has.0
        .retain(|name, _| !is_such(name, target.of(name)) || lacks.0.contains_key(name));
    has.0.len() < before
}

/// Whether this is a federated Service, and its member is exported in another way too: then Linkerd's sees that only at
/// its next look (W-69).
fn is_late(name: &str, of: TargetService) -> bool {
    is_federated(name) && of.is_exported
}

fn is_federated(name: &str) -> bool {
    name.ends_with("-federated")
}

/// A known difference: makes both the same in one respect, and says whether they were not.
type Rule = fn(TargetService, &mut SeenService, &mut SeenService) -> bool;

const RULES: &[(&str, Rule)] = &[
    ("D-12", never_copied),
    ("D-14", application_protocols),
    ("D-15", overwritten_hosts),
    ("D-15", hosts_as_they_were),
    ("D-29", unknown_endpoints),
    ("D-30", filled),
    ("D-31", joins_later),
    ("D-32", kept_for_streams),
    ("D-34", external_members),
];

/// Linkerd's copies what another tool has written for itself.
fn never_copied(_: TargetService, ours: &mut SeenService, theirs: &mut SeenService) -> bool {
    let key = "kubectl.kubernetes.io/last-applied-configuration";
    theirs.annotations.remove(key).is_some() && !ours.annotations.contains_key(key)
}

/// Linkerd's drops `appProtocol`.
fn application_protocols(
    _: TargetService,
    ours: &mut SeenService,
    theirs: &mut SeenService,
) -> bool {
    let mut found = false;
    for (name, port) in &mut ours.ports {
        let other = theirs.ports.get(name);
        if port.application.is_some() && other.is_some_and(|other| other.application.is_none()) {
            port.application = None;
            found = true;
        }
    }
    found
}

/// A change of a headless Service overwrites its hosts with the gateway (W-29).
fn overwritten_hosts(_: TargetService, ours: &mut SeenService, theirs: &mut SeenService) -> bool {
    let has_gateway = theirs
        .endpoints
        .keys()
        .any(|endpoint| !endpoint.contains('='));
    let found = ours.is_headless && theirs.is_headless && has_gateway;
    if found {
        forget(ours, theirs);
    }
    found
}

/// The mirror of a host never changes (W-32), nor do its Endpoints (W-61).
fn hosts_as_they_were(_: TargetService, ours: &mut SeenService, theirs: &mut SeenService) -> bool {
    if !ours.labels.contains_key(HOST) || !theirs.labels.contains_key(HOST) {
        return false;
    }
    let has_other_ports = ours.endpoint_ports != theirs.endpoint_ports;
    theirs.endpoint_ports.clone_from(&ours.endpoint_ports);
    is_stale(ours, theirs) || has_other_ports
}

/// Ours takes a Service without a selector for one with endpoints as long as no slice with the label is seen.
fn unknown_endpoints(
    target: TargetService,
    ours: &mut SeenService,
    theirs: &mut SeenService,
) -> bool {
    let found = target.is_manual && theirs.endpoints.is_empty() && !ours.endpoints.is_empty();
    if found {
        forget(ours, theirs);
    }
    found
}

/// Linkerd's fills the endpoints of a mirror whenever its Service changes, though the Service has none (W-47).
fn filled(target: TargetService, ours: &mut SeenService, theirs: &mut SeenService) -> bool {
    let found = !target.is_backed && ours.endpoints.is_empty() && !theirs.endpoints.is_empty();
    if found {
        forget(ours, theirs);
    }
    found
}

/// A Service that is exported too joins a federated Service of Linkerd's minutes later, and its changes reach it as late
/// (W-69).
fn joins_later(target: TargetService, ours: &mut SeenService, theirs: &mut SeenService) -> bool {
    let is_late = target.is_exported && target.is_member;
    if !is_late || !ours.annotations.contains_key(REMOTE_DISCOVERY) {
        return false;
    }
    is_stale(ours, theirs)
}

/// Ours keeps the gateway's slices of a mirror that turns to remote discovery, for streams that began with them.
fn kept_for_streams(
    target: TargetService,
    ours: &mut SeenService,
    theirs: &mut SeenService,
) -> bool {
    let found = target.is_discovered && theirs.endpoints.is_empty() && !ours.endpoints.is_empty();
    if found {
        forget(ours, theirs);
    }
    found
}

/// A Service that leads to a name joins a federated Service of Linkerd's.
fn external_members(target: TargetService, _: &mut SeenService, theirs: &mut SeenService) -> bool {
    target.is_external && theirs.annotations.remove(REMOTE_DISCOVERY).is_some()
}

/// Makes what both have copied the same, and says whether it was not.
fn is_stale(ours: &SeenService, theirs: &mut SeenService) -> bool {
    let found = ours.labels != theirs.labels
        || ours.annotations != theirs.annotations
        || ours.ports != theirs.ports;
    theirs.labels.clone_from(&ours.labels);
    theirs.annotations.clone_from(&ours.annotations);
    theirs.ports.clone_from(&ours.ports);
    found
}

/// Makes the endpoints of both the same.
fn forget(ours: &mut SeenService, theirs: &mut SeenService) {
    for service in [ours, theirs] {
        service.endpoints.clear();
        service.endpoint_ports.clear();
        service.gateway.clear();
    }
}

/// What one has and the other has not.
fn differences(ours: &Seen, theirs: &Seen) -> Vec<String> {
    let names: BTreeSet<&String> = ours.0.keys().chain(theirs.0.keys()).collect();
    let mut found = Vec::new();
    for name in names {
        match (ours.0.get(name), theirs.0.get(name)) {
            (Some(ours), Some(theirs)) if ours == theirs => {}
            (Some(ours), Some(theirs)) => found.extend(fields(name, ours, theirs)),
            (Some(_), None) => found.push(format!("{name}: only ours")),
            (None, _) => found.push(format!("{name}: only Linkerd's")),
        }
    }
    found
}

fn fields(name: &str, ours: &SeenService, theirs: &SeenService) -> Vec<String> {
    let shown = |service: &SeenService| {
        [
            ("labels", format!("{:?}", service.labels)),
            ("annotations", format!("{:?}", service.annotations)),
            ("ports", format!("{:?}", service.ports)),
            ("headless", service.is_headless.to_string()),
            ("endpoints", format!("{:?}", service.endpoints)),
            (
                "ports of endpoints",
                format!("{:?}", service.endpoint_ports),
            ),
            ("gateway", format!("{:?}", service.gateway)),
        ]
    };
    let pairs = shown(ours).into_iter().zip(shown(theirs));
    let pairs = pairs.filter(|(own, other)| own != other);
    pairs
        .map(|((field, own), (_, other))| format!("{name}: {field}: ours {own}, Linkerd's {other}"))
        .collect()
}
