//! Federated Services: one Service that spans the clusters in which it has members.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{
    claims::{Claim, Holder},
    exclusions::Exclusions,
    export::{member, selects},
    links::LinkEntry,
    metadata::{Dress, is_federated, remote_members},
    mirrors::{enter, name_conflict},
    names::{federated_name, fits},
    plan::{
        Kind, Object, Plan, Problem, Reason, RemoteRef, Report, Write, forced_metadata, guarded,
    },
    service,
    target::Target,
    wanted::Wanted,
    world::World,
};
use crate::api::{k8s::Service, labels as l};

/// What is known of one target cluster's part in a federated Service.
enum Part<'a> {
    /// It cannot be seen: it keeps the place it has.
    Unseen,
    /// It has a member.
    Member(&'a Service),
    /// It may have none, whatever it has. What is to be said of its Service.
    Refused(Report),
    /// It has none.
    None,
}

/// The plan for one federated Service.
pub(super) fn plan(world: &World, namespace: &str, service: &str) -> Plan {
    let name = federated_name(service);
    let actual = world.standing(namespace, &name);
    let own = Claim::Federated(service);
    let ours = actual.filter(|actual| match world.holder(actual) {
        Holder::Claim(claim) => claim == own,
        Holder::Stray => {
            is_federated(&actual.metadata) || world.first_claim(namespace, &name) == Some(own)
        }
        Holder::Theirs(_) | Holder::Unnamed | Holder::Foreign => false,
    });
    let tokens = tokens(ours, service);
    let local = local_member(world, namespace, service);
    let parts: BTreeMap<&str, (&Target, Part<'_>)> = world
        .active()
        .map(|(target, entry)| {
            let part = part(world, (target, entry), namespace, service, local.is_some());
            (target.cluster.as_str(), (target, part))
        })
        .collect();

    let mut plan = Plan::default();
    let outcome = (|| {
        // Those that may not be members leave at once; who has to be asked whether it has left does so after them.
        let refused = |cluster: &String| {
            let part = parts.get(cluster.as_str());
            matches!(part, Some((_, Part::Refused(_))))
        };
        let others_first = tokens.iter().any(refused);
        let stays = |cluster: &str, part: &Part<'_>| match part {
            Part::Member(_) => true,
            Part::Unseen => tokens.contains(cluster),
            Part::None => others_first && tokens.contains(cluster),
            Part::Refused(_) => false,
        };
        let mut clusters: BTreeSet<&str> = parts
            .iter()
            .filter(|(cluster, (_, part))| stays(cluster, part))
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
        };
        let ports = members.write(world, &parts, ours, &mut plan.writes);
        confirm_leaving(namespace, service, &parts, &tokens, &clusters, &mut plan);
        Ok(Some((name, ports)))
    })();
    report(namespace, service, &parts, &outcome, &mut plan);
    plan
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
            matches!(part, Part::Member(_))
        })
}

/// What is known of a target cluster's part, and whether it may have one.
fn part<'a>(
    world: &World,
    (target, entry): (&Target, &'a LinkEntry),
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
        Part::Member(_) | Part::Refused(_) => Report::Failed(forbidden.problem(namespace, service)),
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
    parts: &BTreeMap<&str, (&Target, Part<'_>)>,
    tokens: &BTreeSet<String>,
    plan: &mut Plan,
) {
    let local = actual.is_some_and(|a| a.metadata.annotations.contains_key(l::LOCAL_DISCOVERY));
    let known = tokens
        .iter()
        .all(|cluster| parts.contains_key(cluster.as_str()))
        && (!local || world.config.local_members.is_some());
    if let Some(actual) = actual.filter(|actual| known || world.is_collected(&actual.metadata)) {
        plan.writes.push(Write::delete_service(actual));
    }
}

/// A cluster loses its place only after it was asked again.
fn confirm_leaving(
    namespace: &str,
    service: &str,
    parts: &BTreeMap<&str, (&Target, Part<'_>)>,
    tokens: &BTreeSet<String>,
    clusters: &BTreeSet<&str>,
    plan: &mut Plan,
) {
    if plan.writes.is_empty() {
        return;
    }
    let leaving = tokens.iter().filter(|cluster| {
        !clusters.contains(cluster.as_str())
            && matches!(parts.get(cluster.as_str()), Some((_, Part::None)))
    });
    plan.confirm.extend(leaving.map(|cluster| RemoteRef {
        cluster: cluster.clone(),
        namespace: namespace.to_owned(),
        service: service.to_owned(),
    }));
}

/// The members that a federated Service should have.
struct Members<'a, 's> {
    namespace: &'a str,
    service: &'a str,
    name: &'a str,
    local: Option<&'s Service>,
    clusters: &'a BTreeSet<&'a str>,
}

impl<'s> Members<'_, 's> {
    /// Plans the write, if one is needed. Returns the Service whose ports are the federated Service's, if it
    /// can be seen.
    fn write(
        &self,
        world: &'s World,
        parts: &BTreeMap<&str, (&'s Target, Part<'s>)>,
        actual: Option<&Service>,
        writes: &mut Vec<Write>,
    ) -> Option<&'s Service> {
        let Some((service, exclusions)) = self.source(world, parts) else {
            // The oldest member cannot be seen: what came from it stays until it can.
            if let Some(actual) = actual {
                self.rename_members(world, actual, writes);
            }
            return None;
        };
        let mut labels = exclusions.labels_of(service);
        labels.insert(l::MIRRORED_SERVICE, "true".into());
        let mut annotations = exclusions.annotations(&service.metadata.annotations);
        annotations.extend(self.annotations());
        let dress = Dress {
            labels,
            annotations,
        };
        let ports = &service.spec.ports;
        let installation = &world.config.namespace;
        let desired = service::build(installation, self.namespace, self.name, dress, ports, false);
        match actual {
            None => writes.push(Write::Create(Object::Service(Box::new(desired.service())))),
            Some(actual) if service::must_be_replaced(&desired, actual) => {
                // Its list of members is all that is known of those that cannot be seen.
                if self.all_seen(parts) {
                    writes.push(Write::delete_service(actual));
                } else {
                    self.rename_members(world, actual, writes);
                }
            }
            Some(actual) => writes.extend(service::patch(&desired, actual)),
        }
        Some(service)
    }

    /// Where labels, annotations and ports come from: the local member, else that of the oldest Link. `None`
    /// if that one cannot be seen.
    fn source(
        &self,
        world: &'s World,
        parts: &BTreeMap<&str, (&'s Target, Part<'s>)>,
    ) -> Option<(&'s Service, &'s Exclusions)> {
        if let Some(local) = self.local {
            return Some((local, &world.config.local_exclusions));
        }
        let members = self
            .clusters
            .iter()
            .filter_map(|cluster| parts.get(cluster));
        match members.min_by_key(|(target, _)| target.age())? {
            (target, Part::Member(seen)) => Some((seen, &target.exclusions)),
            _ => None,
        }
    }

    fn all_seen(&self, parts: &BTreeMap<&str, (&Target, Part<'_>)>) -> bool {
        self.clusters
            .iter()
            .all(|cluster| matches!(parts.get(cluster), Some((_, Part::Member(_)))))
    }

    /// Remote members sorted by cluster, so that any order of arrival gives the same text.
    fn annotations(&self) -> Wanted<'_> {
        let remote: Vec<String> = self
            .clusters
            .iter()
            .map(|cluster| format!("{}@{cluster}", self.service))
            .collect();
        let mut annotations = Wanted::default();
        if !remote.is_empty() {
            annotations.insert(l::REMOTE_DISCOVERY, remote.join(",").into());
        }
        if self.local.is_some() {
            annotations.insert(l::LOCAL_DISCOVERY, self.service.into());
        }
        annotations
    }

    /// Changes the list of members, and nothing else but a label that somebody has taken away.
    fn rename_members(&self, world: &World, actual: &Service, writes: &mut Vec<Write>) {
        let wanted = self.annotations();
        let differs = [l::REMOTE_DISCOVERY, l::LOCAL_DISCOVERY]
            .into_iter()
            .any(|key| actual.metadata.annotations.get(key) != wanted.get(key));
        if !differs {
            return;
        }
        let mut dress = Dress::of(&actual.metadata);
        // By it the Service is found, and the admission policy knows it for ours.
        dress.labels.insert(l::MIRRORED_SERVICE, "true".into());
        let annotations = &mut dress.annotations;
        annotations.remove(l::REMOTE_DISCOVERY);
        annotations.remove(l::LOCAL_DISCOVERY);
        annotations.extend(wanted);
        annotations.insert(l::MANAGED_BY, l::MANAGER.into());
        annotations.insert(l::INSTALLATION, world.config.namespace.as_str().into());
        // Not the hash of what a fresh look would want: once the oldest member is seen, all is compared.
        annotations.remove(l::DESIRED_STATE);
        let patch = forced_metadata(&dress, &actual.metadata);
        writes.push(guarded(Kind::Service, &actual.metadata, patch, json!({})));
    }
}

/// Says of each cluster's Service what became of it.
fn report(
    namespace: &str,
    service: &str,
    parts: &BTreeMap<&str, (&Target, Part<'_>)>,
    outcome: &Result<Option<(String, Option<&Service>)>, Problem>,
    plan: &mut Plan,
) {
    let mut said = Vec::new();
    for (cluster, (_, part)) in parts {
        let report = match (part, outcome) {
            (Part::Unseen, _) => Report::Unknown,
            (Part::None, _) | (Part::Member(_), Ok(None)) => Report::Absent,
            (Part::Refused(report), _) => report.clone(),
            (Part::Member(_), Err(problem)) => Report::Failed(problem.clone()),
            (Part::Member(seen), Ok(Some((local, source)))) => {
                let differ = source
                    .as_ref()
                    .filter(|source| !service::same_ports(&source.spec.ports, &seen.spec.ports));
                let note = differ.map(|_| {
                    let message = format!("ports differ from those of {namespace}/{local}");
                    Problem::new(Reason::PortConflict, message)
                });
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
