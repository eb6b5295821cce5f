//! Federated Services: one Service that spans the clusters in which it has members.
//!
//! It has one of two forms. Linkerd discovers its members, whom annotations name; or, as soon as one of them takes part
//! through its cluster's gateway, it is made of `EndpointSlices`.

mod drained;
mod failover;
mod form;
mod members;
mod preferred;
mod routes;
mod slices;

use std::collections::{BTreeMap, BTreeSet};

pub(super) use self::drained::stays;
use self::{
    form::{Form, form},
    members::{Members, Written},
};
use super::{
    claims::{Claim, Holder},
    endpoints,
    export::{member, selects},
    links::LinkEntry,
    metadata::{is_federated, is_managed, remote_members},
    mirrors::{enter, name_conflict},
    names::{federated_name, fits},
    outcome::{Plan, Problem, Reason, RemoteRef, Report},
    policy::FederatedThrough,
    service,
    target::Target,
    world::World,
    write::Write,
};
use crate::api::{k8s::Service, members::MEMBERS};

/// What is known of one target cluster's part in a federated Service.
enum Part<'a> {
    /// It cannot be seen: it keeps the place it has.
    Unseen,
    /// It has a member.
    Member(&'a Service),
    /// It has one that takes no part, because the cluster is drained.
    Drained(&'a Service),
    /// It may have none, whatever it has. What is to be said of its Service.
    Refused(Report),
    /// It has none.
    None,
}

/// Parts by cluster.
type Parts<'a> = BTreeMap<&'a str, Linked<'a>>;

/// A target cluster with its part.
struct Linked<'a> {
    target: &'a Target,
    entry: &'a LinkEntry,
    part: Part<'a>,
}

/// The plan for one federated Service.
pub(super) fn plan(world: &World, namespace: &str, service: &str) -> Plan {
    let name = federated_name(service);
    let actual = world.standing(namespace, &name);
    let own = Claim::Federated(service);
    let ours = actual.filter(|actual| is_ours(world, namespace, service, actual));
    let tokens = tokens(ours, service);
    let local = local_member(world, namespace, service);
    let (form, parts) = parts(world, (namespace, service), ours, &tokens, local.is_some());

    let mut plan = Plan::default();
    let outcome = (|| {
        // Those that may not be members leave at once; who has to be asked whether it has left does so after them.
        let refused = |cluster: &String| {
            let part = parts.get(cluster.as_str());
            part.is_some_and(|linked| matches!(linked.part, Part::Refused(_) | Part::Drained(_)))
        };
        let others_first = tokens.iter().any(refused);
        let stays = |cluster: &str, part: &Part<'_>| match part {
            Part::Member(_) => true,
            Part::Unseen => tokens.contains(cluster),
            Part::None => others_first && tokens.contains(cluster),
            Part::Refused(_) | Part::Drained(_) => false,
        };
        let mut clusters: BTreeSet<&str> = parts
            .iter()
            .filter(|(cluster, linked)| stays(cluster, &linked.part))
            .map(|(cluster, _)| *cluster)
            .collect();
        // A Link that cannot be read now, or whose new cluster is not listed yet, is no reason to leave.
        clusters.extend(
            tokens
                .iter()
                .map(String::as_str)
                .filter(|cluster| !parts.contains_key(cluster) && world.may_keep(cluster))
                .filter(|_| !world.protects(namespace)),
        );
        if clusters.is_empty() && local.is_none() {
            remove(world, ours, &parts, &tokens, &mut plan);
            confirm_leaving(namespace, service, &parts, &tokens, &clusters, &mut plan);
            return Ok(None);
        }
        let name = fits(name.clone())?;
        world
            .grants(own, namespace, &name, actual)
            .map_err(|who| name_conflict(namespace, &name, &who))?;
        enter(world, namespace, clusters.iter().copied(), &mut plan.writes)?;
        let members = Members {
            namespace,
            service,
            name: &name,
            local,
            clusters: &clusters,
            form,
        };
        let written = members.write(world, &parts, ours, &mut plan.writes);
        confirm_leaving(namespace, service, &parts, &tokens, &clusters, &mut plan);
        Ok(Some((name, written)))
    })();
    report(world, (namespace, service), &parts, &outcome, &mut plan);
    plan
}

/// Whether a Service of the federated Service's name is the one that we keep.
fn is_ours(world: &World, namespace: &str, service: &str, actual: &Service) -> bool {
    let own = Claim::Federated(service);
    match world.holder(actual) {
        Holder::Claim(claim) => claim == own,
        Holder::Stray => {
            let name = actual.metadata.name();
            is_federated(&actual.metadata) || world.first_claim(namespace, name) == Some(own)
        }
        Holder::Theirs(_) | Holder::Unnamed | Holder::Foreign => false,
    }
}

/// The form, and what is known of the parts of all clusters. `tokens`: those that the federated Service names.
fn parts<'a>(
    world: &'a World,
    (namespace, service): (&str, &str),
    actual: Option<&Service>,
    tokens: &BTreeSet<String>,
    has_local_member: bool,
) -> (Form, Parts<'a>) {
    let parts = world.active().map(|(target, entry)| {
        let part = part(world, (target, entry), namespace, service, has_local_member);
        let linked = Linked {
            target,
            entry,
            part,
        };
        (target.cluster.as_str(), linked)
    });
    let mut parts: Parts<'_> = parts.collect();
    // Drained clusters count: that one is drained is no reason to change the form.
    let form = form(world, actual, &parts, tokens, has_local_member);
    let was_slices = actual.map(Form::of) == Some(Form::Slices);
    for (cluster, linked) in &mut parts {
        let (lacks_gateway, takes_part) =
            (linked.target.lacks_gateway(), tokens.contains(*cluster));
        // One that has lost its gateway keeps the endpoints that it has, as mirrors do.
        let keeps = lacks_gateway && was_slices && takes_part;
        if (form == Form::Slices || lacks_gateway) && !keeps {
            linked.needs_gateway();
        }
        // It waits for the form in which it can be reached.
        let through = linked.target.federated_through;
        let waits = form == Form::Discovery && through == FederatedThrough::Gateway && !takes_part;
        if waits && matches!(linked.part, Part::Member(_)) {
            linked.part = Part::Unseen;
        }
    }
    drained::take_out(world, namespace, has_local_member, tokens, &mut parts);
    (form, parts)
}

impl Linked<'_> {
    /// Without a gateway it cannot take part.
    fn needs_gateway(&mut self) {
        if self.target.gateway.is_some() {
            return;
        }
        let report = match &self.part {
            Part::Member(_) => {
                let message =
                    "members of other clusters come through gateways, and the Link has none";
                Report::Failed(Problem::new(Reason::NoGateway, message))
            }
            Part::Unseen => Report::Unknown,
            Part::Drained(_) | Part::Refused(_) | Part::None => return,
        };
        self.part = Part::Refused(report);
    }
}

/// The clusters that the federated Service names with this Service.
fn tokens(actual: Option<&Service>, service: &str) -> BTreeSet<String> {
    let members = actual
        .into_iter()
        .flat_map(|actual| remote_members(&actual.metadata));
    members
        .filter(|(name, _)| *name == service)
        .map(|(_, cluster)| cluster.to_owned())
        .collect()
}

/// Whether any cluster is seen to have a member.
pub(super) fn has_member(world: &World, namespace: &str, service: &str) -> bool {
    local_member(world, namespace, service).is_some()
        || world.active().any(|link| {
            let part = part(world, link, namespace, service, false);
            matches!(part, Part::Member(_)) && !link.0.lacks_gateway()
        })
}

/// What is known of a target cluster's part, and whether it may have one.
fn part<'a>(
    world: &World,
    (target, entry): (&'a Target, &'a LinkEntry),
    namespace: &str,
    service: &str,
    has_local_member: bool,
) -> Part<'a> {
    let seen = seen_part(target, entry, namespace, service);
    let Some(forbidden) = world.forbids_joining(target, namespace, has_local_member) else {
        return seen;
    };
    Part::Refused(match seen {
        Part::Unseen => Report::Unknown,
        Part::None => Report::Absent,
        Part::Member(_) | Part::Drained(_) | Part::Refused(_) => {
            Report::Failed(forbidden.problem(namespace, service))
        }
    })
}

fn seen_part<'a>(
    target: &Target,
    entry: &'a LinkEntry,
    namespace: &str,
    service: &str,
) -> Part<'a> {
    let Some(remote) = &entry.remote else {
        return Part::Unseen;
    };
    match remote.service(namespace, service) {
        Some(seen) if member(target, seen) => match joinable(seen) {
            Ok(()) => Part::Member(seen),
            Err(problem) => Part::Refused(Report::Failed(problem)),
        },
        None if remote.may_leave_out(namespace, service) => Part::Unseen,
        _ => Part::None,
    }
}

/// Linkerd: a headless Service cannot be a member. The message is Linkerd's.
fn joinable(service: &Service) -> Result<(), Problem> {
    if service.is_headless() {
        let message = "Headless service cannot join federated service";
        return Err(Problem::new(Reason::InvalidService, message));
    }
    service::mirrorable(service)
}

/// The member of the local cluster. Protected namespaces have none: only it could be a member there.
fn local_member<'a>(world: &'a World, namespace: &str, service: &str) -> Option<&'a Service> {
    if world.protects(namespace) {
        return None;
    }
    let seen = world.members.as_ref()?.get(namespace, service)?;
    (selects(world.config.local_members.as_ref(), seen) && joinable(seen).is_ok())
        .then_some(seen.as_ref())
}

/// Without members the Service goes: if we wrote it, or if all whom it names are known to have left.
fn remove(
    world: &World,
    actual: Option<&Service>,
    parts: &Parts<'_>,
    tokens: &BTreeSet<String>,
    plan: &mut Plan,
) {
    let names_local = |actual: &Service| {
        let mut keys = MEMBERS.iter().map(|[_, local]| local);
        keys.any(|key| actual.metadata.annotations.contains_key(key))
    };
    let local = actual.is_some_and(names_local);
    let known = tokens
        .iter()
        .all(|cluster| parts.contains_key(cluster.as_str()))
        && (!local || world.config.local_members.is_some());
    let Some(actual) = actual else { return };
    if known || world.is_collected(&actual.metadata) {
        delete_with_slices(world, actual, &mut plan.writes);
    } else if !is_managed(&actual.metadata) {
        // Somebody has taken it over. What we wrote for it leads to clusters that are not linked any more.
        delete_what_is_behind(world, actual, &mut plan.writes);
    }
}

/// Slices first: once their owner is gone Kubernetes deletes them too, and the two would race.
fn delete_with_slices(world: &World, actual: &Service, writes: &mut Vec<Write>) {
    delete_what_is_behind(world, actual, writes);
    writes.push(Write::delete_service(actual));
}

fn delete_what_is_behind(world: &World, actual: &Service, writes: &mut Vec<Write>) {
    routes::delete(world, actual, writes);
    let slices = world.local_slices(actual.metadata.namespace(), actual.metadata.name());
    endpoints::reconcile(world, Vec::new(), slices, writes);
}

/// A cluster loses its place only after it was asked again.
fn confirm_leaving(
    namespace: &str,
    service: &str,
    parts: &Parts<'_>,
    tokens: &BTreeSet<String>,
    clusters: &BTreeSet<&str>,
    plan: &mut Plan,
) {
    if plan.writes.is_empty() {
        return;
    }
    let leaving = tokens.iter().filter(|cluster| {
        !clusters.contains(cluster.as_str())
            && matches!(parts.get(cluster.as_str()), Some(linked) if matches!(linked.part, Part::None))
    });
    plan.confirm.extend(leaving.map(|cluster| RemoteRef {
        cluster: cluster.clone(),
        namespace: namespace.to_owned(),
        service: service.to_owned(),
    }));
}

/// Says of each cluster's Service what became of it.
fn report(
    world: &World,
    (namespace, service): (&str, &str),
    parts: &Parts<'_>,
    outcome: &Result<Option<(String, Written<'_>)>, Problem>,
    plan: &mut Plan,
) {
    let mut said = Vec::new();
    for (cluster, linked) in parts {
        let target = linked.target;
        let report = match (&linked.part, outcome) {
            (Part::Drained(_), _) => Report::Failed(drained::left(target)),
            (Part::Unseen, _) => Report::Unknown,
            (Part::None, _) | (Part::Member(_), Ok(None)) => Report::Absent,
            (Part::Refused(report), _) => report.clone(),
            (Part::Member(_), Err(problem)) => Report::Failed(problem.clone()),
            (Part::Member(_), Ok(Some((_, written))))
                if written.problems.contains_key(*cluster) =>
            {
                Report::Failed(written.problems[*cluster].clone())
            }
            (Part::Member(seen), Ok(Some((local, written)))) => {
                let source = written.source;
                let differ = source
                    .as_ref()
                    .filter(|source| !service::same_ports(&source.spec.ports, &seen.spec.ports));
                let note = differ.map(|_| {
                    let message = format!("ports differ from those of {namespace}/{local}");
                    Problem::new(Reason::PortConflict, message)
                });
                let stays = world
                    .is_drained(target)
                    .then(|| drained::stays_as_the_last(target));
                let note = stays.or(note).or_else(|| written.preference.clone());
                let note = note.or_else(|| service::not_copied(seen));
                Report::Mirrored {
                    local: local.clone(),
                    note,
                }
            }
        };
        let remote = RemoteRef {
            cluster: (*cluster).to_owned(),
            namespace: namespace.to_owned(),
            service: service.to_owned(),
        };
        said.push((remote, report));
    }
    for (remote, report) in said {
        *plan = std::mem::take(plan).saying(remote, true, report);
    }
}

#[cfg(test)]
mod tests;
