//! Federated Services: one Service that spans the clusters in which it has members.
//!
//! It has one of two forms. With discovery, annotations name the members, and Linkerd discovers their endpoints. As
//! soon as one member takes part through its cluster's gateway, the Service is made of `EndpointSlices`.

mod drained;
mod failover;
mod members;
mod parts;
mod removal;
mod routes;
mod slices;
mod writes;

use std::collections::BTreeSet;

use self::{
    members::{FederatedService, Members},
    writes::Written,
};
use super::service::ensure_namespace;
use crate::{
    api::k8s::Service,
    mirror::{
        desired::service,
        name_owner::Purpose,
        names::fits,
        outcome::{Confirmed, Outcome, Plan, Problem, Reason, RemoteRef, ServiceOutcome},
        ownership::membership::{Form, Linked, Part, Parts},
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
    // What is asked for is what the plan needs that is executed in the end.
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
    /// The plan if just these clusters have confirmed that they have no member any more.
    fn plan(&self, confirmed: Confirmed<'_>) -> Plan {
        let (form, parts) = self.parts(confirmed);
        let mut plan = Plan::default();
        let planned = self.write(form, &parts, &mut plan);
        let reports = parts.iter().map(|(cluster, linked)| ServiceOutcome {
            remote: RemoteRef::new(cluster, self.namespace, self.service),
            federated: true,
            report: self.report(linked, &planned),
        });
        plan.report = reports.collect();
        plan
    }

    /// Plans the writes. Returns what is known then; `None` if there are no members.
    fn write<'s>(
        &'s self,
        form: Form,
        parts: &'s Parts<'s>,
        plan: &mut Plan,
    ) -> Result<Option<Written<'s>>, Problem> {
        let stays = |cluster: &str, part: &Part<'_>| match part {
            Part::Member(_) | Part::Leaving => true,
            Part::Unseen => self.named.contains(cluster),
            Part::None | Part::Refused(_) | Part::Drained(_) => false,
        };
        let present = parts.iter();
        let present = present.filter(|(cluster, linked)| stays(cluster, &linked.part));
        let present = present.map(|(cluster, _)| *cluster);
        let kept = self.named.iter().copied();
        let kept = kept.filter(|cluster| self.may_keep(cluster, parts));
        let clusters: BTreeSet<&str> = present.chain(kept).collect();
        if clusters.is_empty() && self.local.is_none() {
            self.remove(parts, &mut plan.writes);
            self.confirm_leaving(parts, plan);
            return Ok(None);
        }
        let (state, namespace) = (self.state, self.namespace);
        let name = fits(self.name.clone())?;
        state.grants(Purpose::Federated(self.service), namespace, &name)?;
        ensure_namespace(state, namespace, clusters.iter().copied(), &mut plan.writes)?;
        let members = Members {
            of: self,
            parts,
            clusters,
            form,
        };
        let written = members.write(&mut plan.writes);
        self.confirm_leaving(parts, plan);
        Ok(Some(written))
    }

    /// Adds the clusters that must confirm that they have no member any more, before they are removed.
    fn confirm_leaving(&self, parts: &Parts<'_>, plan: &mut Plan) {
        if plan.writes.is_empty() {
            return;
        }
        let leaving = self.named.iter().filter(|cluster| {
            let linked = parts.get(*cluster);
            linked.is_some_and(|linked| matches!(linked.part, Part::None))
        });
        let remote = |cluster: &&str| RemoteRef::new(cluster, self.namespace, self.service);
        plan.confirm.extend(leaving.map(remote));
    }

    /// The outcome for a cluster's Service.
    fn report(
        &self,
        linked: &Linked<'_>,
        planned: &Result<Option<Written<'_>>, Problem>,
    ) -> Outcome {
        let target = linked.target;
        match (&linked.part, planned) {
            (Part::Drained(_), _) => Outcome::Failed(drained::left(target)),
            (Part::Unseen | Part::Leaving, _) => Outcome::Unknown,
            (Part::None, _) | (Part::Member(_), Ok(None)) => Outcome::Absent,
            (Part::Refused(report), _) => report.clone(),
            (Part::Member(_), Err(problem)) => Outcome::Failed(problem.clone()),
            (Part::Member(seen), Ok(Some(written))) => {
                match written.problems.get(&target.cluster) {
                    Some(problem) => Outcome::Failed(problem.clone()),
                    None => Outcome::Mirrored {
                        local: self.name.clone(),
                        note: self.note(target, seen, written),
                    },
                }
            }
        }
    }

    /// What is wrong with a member that takes part.
    fn note(&self, target: &Target, seen: &Service, written: &Written<'_>) -> Option<Problem> {
        if self.state.is_drained(target) {
            return Some(drained::stays_as_the_last(target));
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

#[cfg(test)]
mod tests;
