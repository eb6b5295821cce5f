//! Mirrors of single Services: which should exist, and the writes for them.

mod context;
mod headless;
mod plain;
mod removal;
mod unseen;

use self::{
    context::Context,
    plain::plain,
    removal::{Scope, removal},
    unseen::Behind,
};
use super::service::ensure_namespace;
use crate::{
    api::k8s::Service,
    mirror::{
        desired::service,
        name_owner::Purpose,
        names::{fits, mirror_name},
        outcome::{Confirmed, Outcome, Plan, Problem, Reason, RemoteRef},
        ownership::claims::name_conflict,
        state::{State, links::LinkEntry, remote::RemoteState},
        target::{Target, export::Mode},
        write::Write,
    },
};

/// The plan for one Service of one target cluster.
pub(crate) fn plan(
    state: &State,
    (cluster, namespace, service): (&str, &str, &str),
    confirmed: Confirmed<'_>,
) -> Plan {
    let this = RemoteRef {
        cluster: cluster.to_owned(),
        namespace: namespace.to_owned(),
        service: service.to_owned(),
    };
    let Some((target, entry)) = state.link(cluster) else {
        // Mirrors of a Link that cannot be read now stay. Mirrors of a deleted Link are removed, if we created them.
        return if state.may_keep(cluster) && !state.protects(namespace) {
            Plan::default()
        } else {
            Plan {
                writes: removal(state, &this, Scope::Managed),
                ..Plan::default()
            }
        };
    };
    let exported = exported(state, (target, entry), namespace, service);
    if let Some(forbidden) = state.forbids(target, namespace) {
        // This cluster decides this alone, so the target cluster is not asked.
        let problem = forbidden.problem(namespace, service);
        let report = exported.map_or_else(|report| report, |_| Outcome::Failed(problem));
        return Plan {
            writes: removal(state, &this, Scope::All),
            ..Plan::default()
        }
        .with_outcome(this, false, report);
    }
    let (remote, seen, mode) = match exported {
        Ok(exported) => exported,
        Err(Outcome::Absent) => {
            let writes = removal(state, &this, Scope::All);
            if writes.is_empty() {
                return Plan::only(this, false, Outcome::Absent);
            }
            let (writes, report) = if confirmed.covers(cluster) {
                (writes, Outcome::Absent)
            } else {
                (follow(state, (target, entry), &this), Outcome::Unknown)
            };
            return Plan {
                writes,
                confirm: vec![this.clone()],
                ..Plan::default()
            }
            .with_outcome(this, false, report);
        }
        Err(report) => {
            let plan = Plan {
                writes: follow(state, (target, entry), &this),
                ..Plan::default()
            };
            return plan.with_outcome(this, false, report);
        }
    };
    if let Err(problem) = service::mirrorable(seen) {
        let writes = removal(state, &this, Scope::All);
        return Plan {
            writes,
            ..Plan::default()
        }
        .with_outcome(this, false, Outcome::Failed(problem));
    }
    let mut writes = Vec::new();
    let planned = slot(state, &this)
        .and_then(|found| {
            ensure_namespace(state, namespace, [cluster], &mut writes).map(|()| found)
        })
        .and_then(|(name, local)| {
            let gateway = &entry.gateway;
            let context = Context {
                state,
                target,
                gateway,
                remote,
                service: seen,
                namespace,
                name,
                local,
            };
            let as_headless = mode == Mode::Gateway && target.headless && seen.is_headless();
            if as_headless {
                headless::plan(&context, &mut writes)
            } else {
                plain(&context, mode, &mut writes)
            }
        });
    let mut report = planned.unwrap_or_else(Outcome::Failed);
    if let Outcome::Mirrored {
        note: none @ None, ..
    } = &mut report
    {
        *none = service::not_copied(seen);
    }
    Plan {
        writes,
        ..Plan::default()
    }
    .with_outcome(this, false, report)
}

/// The writes with which the existing mirror of a Service follows the gateway, whatever the Service is now.
fn follow(state: &State, (target, entry): (&Target, &LinkEntry), this: &RemoteRef) -> Vec<Write> {
    let mut writes = Vec::new();
    let gateway = &entry.gateway;
    let behind = Behind {
        state,
        target,
        gateway,
    };
    behind.follow(this, &mut writes);
    writes
}

/// A Service that a target cluster exports, with its mode; or the outcome to report.
fn exported<'a>(
    state: &State,
    (target, entry): (&Target, &'a LinkEntry),
    namespace: &str,
    service: &str,
) -> Result<(&'a RemoteState, &'a Service, Mode), Outcome> {
    let remote = entry.remote.as_ref().ok_or(Outcome::Unknown)?;
    match remote.service(namespace, service) {
        Some(seen) => {
            let mode = state.mode(target, seen).ok_or(Outcome::Absent)?;
            Ok((remote, seen, mode))
        }
        None if remote.leaves_out(namespace, service) => Err(Outcome::Failed(Problem::new(
            Reason::LimitExceeded,
            "left out: the cluster exports more than the limit",
        ))),
        None if remote.may_leave_out(namespace, service) => Err(Outcome::Unknown),
        None => Err(Outcome::Absent),
    }
}

/// The mirror's name, and the existing mirror if there is one; or the problem if the name belongs to another object.
fn slot<'a>(state: &'a State, this: &RemoteRef) -> Result<(String, Option<&'a Service>), Problem> {
    let name = fits(mirror_name(&this.service, &this.cluster))?;
    let local = state.existing(&this.namespace, &name);
    let own = Purpose::Mirror {
        cluster: &this.cluster,
        service: &this.service,
    };
    match state.grants(own, &this.namespace, &name, local) {
        Ok(()) => Ok((name, local)),
        Err(who) => Err(name_conflict(&this.namespace, &name, &who)),
    }
}

#[cfg(test)]
mod tests;
