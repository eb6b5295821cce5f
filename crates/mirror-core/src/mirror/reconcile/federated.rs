//! Federated Services: one Service that spans the clusters in which it has members.
//!
//! It has one of two forms. With discovery, annotations name the members, and Linkerd discovers their endpoints. As
//! soon as one member takes part through its cluster's gateway, the Service is made of `EndpointSlices`.

mod failover;
mod federated_routes;
mod members;
mod memberships;
mod slices;
mod writes;

use std::collections::BTreeSet;

use self::{
    members::{FederatedService, Members},
    writes::WrittenMembers,
};
use super::service::ensure_namespace;
use crate::{
    api::k8s::Service,
    mirror::{
        desired::service,
        names::{Purpose, fits},
        outcome::{Confirmed, Outcome, Plan, Problem, Reason, RemoteRef, ServiceOutcome},
        ownership::membership::{ClusterMembership, Form, Membership, Memberships},
        state::State,
        target::Target,
    },
};

/// The plan for one federated Service. Each cluster whose member seems to be gone leaves when it has confirmed this. A
/// cluster that does not confirm it delays no other change.
pub(crate) fn plan(
    state: &State,
    namespace: &str,
    service: &str,
    confirmed: Confirmed<'_>,
) -> Plan {
    let federated = FederatedService::of(state, namespace, service);
    // The confirmations that are requested are those that the final plan needs.
    let last = federated.plan(Confirmed::All);
    let is_confirmed = |remote: &RemoteRef| confirmed.covers(&remote.cluster);
    if last.confirm.iter().all(is_confirmed) {
        return last;
    }
    Plan {
        confirm: last.confirm,
        ..federated.plan(confirmed)
    }
}

impl FederatedService<'_> {
    /// The plan if only these clusters have confirmed that they no longer have a member.
    fn plan(&self, confirmed: Confirmed<'_>) -> Plan {
        let (form, memberships) = self.memberships(confirmed);
        let mut plan = Plan::default();
        let planned = self.write(form, &memberships, &mut plan);
        let reports = memberships.iter().map(|(cluster, linked)| ServiceOutcome {
            remote: RemoteRef::new(cluster, self.namespace, self.service),
            federated: true,
            report: self.report(linked, form, &planned),
        });
        plan.report = reports.collect();
        plan
    }

    /// Plans the writes. Returns what is known then; `None` if there are no members.
    fn write<'s>(
        &'s self,
        form: Form,
        memberships: &'s Memberships<'s>,
        plan: &mut Plan,
    ) -> Result<Option<WrittenMembers<'s>>, Problem> {
        let stays = |cluster: &str, membership: &Membership<'_>| match membership {
            Membership::Member(_) | Membership::Leaving => true,
            Membership::Unseen => self.named.contains(cluster),
            Membership::None
            | Membership::Waiting(_)
            | Membership::Refused(_)
            | Membership::Drained(_) => false,
        };
        let present = memberships.iter();
        let present = present.filter(|(cluster, linked)| stays(cluster, &linked.membership));
        let present = present.map(|(cluster, _)| *cluster);
        let kept = self.named.iter().copied();
        let kept = kept.filter(|cluster| self.may_keep(cluster, memberships));
        let mut clusters: BTreeSet<&str> = present.chain(kept).collect();
        if clusters.is_empty() && self.local.is_none() && self.is_awaited(memberships) {
            // Its last members stay until the next one joins.
            let named = self.named.iter().copied();
            clusters = named
                .filter(|cluster| !is_refused(memberships, cluster))
                .collect();
        } else if clusters.is_empty() && self.local.is_none() {
            self.remove(memberships, &mut plan.writes);
            self.confirm_leaving(memberships, plan);
            return Ok(None);
        }
        let (state, namespace) = (self.state, self.namespace);
        let granted = fits(self.name.clone())
            .and_then(|name| state.grants(Purpose::Federated(self.service), namespace, &name));
        if let Err(problem) = granted {
            self.delete_left(&mut plan.writes);
            return Err(problem);
        }
        ensure_namespace(state, namespace, clusters.iter().copied(), &mut plan.writes)?;
        let members = Members {
            of: self,
            memberships,
            clusters,
            form,
        };
        let written = members.write(&mut plan.writes);
        self.confirm_leaving(memberships, plan);
        Ok(Some(written))
    }

    /// Whether it exists, and a member will join it later.
    fn is_awaited(&self, memberships: &Memberships<'_>) -> bool {
        let waits =
            |linked: &ClusterMembership<'_>| matches!(linked.membership, Membership::Waiting(_));
        self.actual.is_some() && memberships.values().any(waits)
    }

    /// Adds the clusters that must confirm that they no longer have a member, before they are removed.
    fn confirm_leaving(&self, memberships: &Memberships<'_>, plan: &mut Plan) {
        if plan.writes.is_empty() {
            return;
        }
        let leaving = self.named.iter().filter(|cluster| {
            let linked = memberships.get(*cluster);
            linked.is_some_and(|linked| matches!(linked.membership, Membership::None))
        });
        let remote = |cluster: &&str| RemoteRef::new(cluster, self.namespace, self.service);
        plan.confirm.extend(leaving.map(remote));
    }

    /// The outcome for a cluster's Service.
    fn report(
        &self,
        linked: &ClusterMembership<'_>,
        form: Form,
        planned: &Result<Option<WrittenMembers<'_>>, Problem>,
    ) -> Outcome {
        let target = linked.target;
        match (&linked.membership, planned) {
            (Membership::Drained(_), _) => {
                Outcome::Failed(memberships::left_because_drained(target))
            }
            (Membership::Unseen | Membership::Waiting(None) | Membership::Leaving, _) => {
                Outcome::Unknown
            }
            (Membership::None, _) => {
                let remote = linked.entry.remote.as_ref();
                let seen = remote.and_then(|remote| remote.service(self.namespace, self.service));
                seen.map_or(Outcome::Absent, |seen| self.state.no_member(target, seen))
            }
            (Membership::Member(_), Ok(None)) => Outcome::Absent,
            (Membership::Refused(report), _) => report.clone(),
            (Membership::Waiting(Some(problem)), _) | (Membership::Member(_), Err(problem)) => {
                Outcome::Failed(problem.clone())
            }
            (Membership::Member(seen), Ok(Some(written))) => {
                match written.problems.get(&target.cluster) {
                    Some(problem) => Outcome::Failed(problem.clone()),
                    None => Outcome::Mirrored {
                        local: self.name.clone(),
                        note: self.note((target, seen), form, written),
                    },
                }
            }
        }
    }

    /// What is wrong with a member that takes part.
    fn note(
        &self,
        (target, seen): (&Target, &Service),
        form: Form,
        written: &WrittenMembers<'_>,
    ) -> Option<Problem> {
        if self.state.is_drained(target) {
            return Some(memberships::stays_as_the_last(target));
        }
        let undiscovered = target.lacks_discovery();
        if form == Form::Discovery && undiscovered.is_some() {
            return undiscovered;
        }
        let source = written.source;
        if source.is_some_and(|source| !service::same_ports(&source.spec.ports, &seen.spec.ports)) {
            let message = format!(
                "ports differ from those of {}/{}",
                self.namespace, self.name
            );
            return Some(Problem::new(Reason::PortConflict, message));
        }
        let preference = written.preference.clone();
        preference.or_else(|| service::not_copied(seen))
    }
}

fn is_refused(memberships: &Memberships<'_>, cluster: &str) -> bool {
    let linked = memberships.get(cluster);
    linked.is_some_and(|linked| matches!(linked.membership, Membership::Refused(_)))
}

#[cfg(test)]
mod tests;
