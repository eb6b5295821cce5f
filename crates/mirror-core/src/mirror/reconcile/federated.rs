//! Federated Services: one Service that spans the clusters in which it has members.
//!
//! It has one of two forms. With discovery, annotations name the members, and Linkerd discovers their endpoints. As
//! soon as one member takes part through its cluster's gateway, the Service is made of `EndpointSlices`.

mod drained;
mod failover;
mod form;
mod leaving;
mod members;
mod parts;
mod removal;
mod routes;
mod slices;

use std::collections::BTreeSet;

use self::{
    members::{Members, Written},
    parts::{Existing, is_ours, parts, tokens},
    removal::remove,
};
use super::service::ensure_namespace;
use crate::mirror::{
    desired::service,
    name_owner::Purpose,
    names::{federated_name, fits},
    outcome::{Confirmed, Outcome, Plan, Problem, Reason, RemoteRef},
    ownership::{
        claims::name_conflict,
        membership::{Part, Parts, local_member},
    },
    state::State,
};

/// The plan for one federated Service. Each cluster whose member seems to be gone leaves when it has confirmed this. A
/// cluster that does not confirm it delays no other change.
pub(crate) fn plan(
    state: &State,
    namespace: &str,
    service: &str,
    confirmed: Confirmed<'_>,
) -> Plan {
    // What is asked for is what the plan needs that is executed in the end.
    let last = plan_with(state, namespace, service, Confirmed::All);
    let is_confirmed = |remote: &RemoteRef| confirmed.covers(&remote.cluster);
    if last.confirm.iter().all(is_confirmed) {
        return last;
    }
    Plan {
        confirm: last.confirm,
        ..plan_with(state, namespace, service, confirmed)
    }
}

/// The plan if just these clusters have confirmed that they have no member any more.
fn plan_with(state: &State, namespace: &str, service: &str, confirmed: Confirmed<'_>) -> Plan {
    let name = federated_name(service);
    let actual = state.existing(namespace, &name);
    let own = Purpose::Federated(service);
    let ours = actual.filter(|actual| is_ours(state, namespace, service, actual));
    let tokens = tokens(ours, service);
    let local = local_member(state, namespace, service);
    let existing = Existing {
        actual: ours,
        tokens: &tokens,
        confirmed,
    };
    let (form, parts) = parts(state, (namespace, service), existing, local.is_some());

    let mut plan = Plan::default();
    let outcome = (|| {
        let stays = |cluster: &str, part: &Part<'_>| match part {
            Part::Member(_) | Part::Leaving => true,
            Part::Unseen => tokens.contains(cluster),
            Part::None | Part::Refused(_) | Part::Drained(_) => false,
        };
        let mut clusters: BTreeSet<&str> = parts
            .iter()
            .filter(|(cluster, linked)| stays(cluster, &linked.part))
            .map(|(cluster, _)| *cluster)
            .collect();
        // Clusters stay if their Link cannot be read now, or if it names a new cluster that is not listed yet.
        clusters.extend(
            tokens
                .iter()
                .map(String::as_str)
                .filter(|cluster| !parts.contains_key(cluster) && state.may_keep(cluster))
                .filter(|_| !state.protects(namespace)),
        );
        if clusters.is_empty() && local.is_none() {
            remove(state, (namespace, &name), ours, &parts, &tokens, &mut plan);
            confirm_leaving(namespace, service, &parts, &tokens, &mut plan);
            return Ok(None);
        }
        let name = fits(name.clone())?;
        state
            .grants(own, namespace, &name, actual)
            .map_err(|who| name_conflict(namespace, &name, &who))?;
        ensure_namespace(state, namespace, clusters.iter().copied(), &mut plan.writes)?;
        let members = Members {
            namespace,
            service,
            name: &name,
            local,
            clusters: &clusters,
            form,
        };
        let written = members.write(state, &parts, ours, &mut plan.writes);
        confirm_leaving(namespace, service, &parts, &tokens, &mut plan);
        Ok(Some((name, written)))
    })();
    report(state, (namespace, service), &parts, &outcome, &mut plan);
    plan
}

/// Adds the clusters that must confirm that they have no member any more, before they are removed.
fn confirm_leaving(
    namespace: &str,
    service: &str,
    parts: &Parts<'_>,
    tokens: &BTreeSet<String>,
    plan: &mut Plan,
) {
    if plan.writes.is_empty() {
        return;
    }
    let leaving = tokens.iter().filter(|cluster| {
        let linked = parts.get(cluster.as_str());
        linked.is_some_and(|linked| matches!(linked.part, Part::None))
    });
    plan.confirm.extend(leaving.map(|cluster| RemoteRef {
        cluster: cluster.clone(),
        namespace: namespace.to_owned(),
        service: service.to_owned(),
    }));
}

/// Reports the outcome for each cluster's Service.
fn report(
    state: &State,
    (namespace, service): (&str, &str),
    parts: &Parts<'_>,
    outcome: &Result<Option<(String, Written<'_>)>, Problem>,
    plan: &mut Plan,
) {
    let mut said = Vec::new();
    for (cluster, linked) in parts {
        let target = linked.target;
        let report = match (&linked.part, outcome) {
            (Part::Drained(_), _) => Outcome::Failed(drained::left(target)),
            (Part::Unseen | Part::Leaving, _) => Outcome::Unknown,
            (Part::None, _) | (Part::Member(_), Ok(None)) => Outcome::Absent,
            (Part::Refused(report), _) => report.clone(),
            (Part::Member(_), Err(problem)) => Outcome::Failed(problem.clone()),
            (Part::Member(_), Ok(Some((_, written))))
                if written.problems.contains_key(*cluster) =>
            {
                Outcome::Failed(written.problems[*cluster].clone())
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
                let stays = state
                    .is_drained(target)
                    .then(|| drained::stays_as_the_last(target));
                let note = stays.or(note).or_else(|| written.preference.clone());
                let note = note.or_else(|| service::not_copied(seen));
                Outcome::Mirrored {
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
        *plan = std::mem::take(plan).with_outcome(remote, true, report);
    }
}

#[cfg(test)]
mod tests;
