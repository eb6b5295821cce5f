//! Mirrors of single Services: which should stand, and the way from what does.

mod context;
mod headless;
mod plain;
mod removal;

use self::{
    context::Context,
    plain::plain,
    removal::{Scope, removal},
};
use super::{
    claims::name_conflict,
    export::Mode,
    holder::Claim,
    links::LinkEntry,
    names::{fits, mirror_name},
    outcome::{Plan, Problem, Reason, RemoteRef, Report},
    remote::Remote,
    service,
    stand::enter,
    target::Target,
    world::World,
};
use crate::api::k8s::Service;

/// The plan for one Service of one target cluster.
pub(super) fn plan(world: &World, cluster: &str, namespace: &str, service: &str) -> Plan {
    let this = RemoteRef {
        cluster: cluster.to_owned(),
        namespace: namespace.to_owned(),
        service: service.to_owned(),
    };
    let Some((target, entry)) = world.link(cluster) else {
        // What a Link made that cannot be read now stays; what a Link made that is gone goes, if we made it.
        return if world.may_keep(cluster) && !world.protects(namespace) {
            Plan::default()
        } else {
            Plan {
                writes: removal(world, &this, Scope::Managed),
                ..Plan::default()
            }
        };
    };
    let exported = exported(world, (target, entry), namespace, service);
    if let Some(forbidden) = world.forbids(target, namespace) {
        // It is for this cluster to decide, so the target cluster is not asked.
        let problem = forbidden.problem(namespace, service);
        let report = exported.map_or_else(|report| report, |_| Report::Failed(problem));
        return Plan {
            writes: removal(world, &this, Scope::All),
            ..Plan::default()
        }
        .saying(this, false, report);
    }
    let (remote, seen, mode) = match exported {
        Ok(exported) => exported,
        Err(Report::Absent) => {
            let writes = removal(world, &this, Scope::All);
            let confirm = if writes.is_empty() {
                Vec::new()
            } else {
                vec![this.clone()]
            };
            return Plan {
                writes,
                confirm,
                ..Plan::default()
            }
            .saying(this, false, Report::Absent);
        }
        Err(report) => return Plan::only(this, false, report),
    };
    if let Err(problem) = service::mirrorable(seen) {
        let writes = removal(world, &this, Scope::All);
        return Plan {
            writes,
            ..Plan::default()
        }
        .saying(this, false, Report::Failed(problem));
    }
    let mut writes = Vec::new();
    let planned = slot(world, &this)
        .and_then(|found| enter(world, namespace, [cluster], &mut writes).map(|()| found))
        .and_then(|(name, local)| {
            let gateway = &entry.gateway;
            let context = Context {
                world,
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
    let mut report = planned.unwrap_or_else(Report::Failed);
    if let Report::Mirrored {
        note: none @ None, ..
    } = &mut report
    {
        *none = service::not_copied(seen);
    }
    Plan {
        writes,
        ..Plan::default()
    }
    .saying(this, false, report)
}

/// A Service that a target cluster exports, and how; or what is to be said of it.
fn exported<'a>(
    world: &World,
    (target, entry): (&Target, &'a LinkEntry),
    namespace: &str,
    service: &str,
) -> Result<(&'a Remote, &'a Service, Mode), Report> {
    let remote = entry.remote.as_ref().ok_or(Report::Unknown)?;
    match remote.service(namespace, service) {
        Some(seen) => {
            let mode = world.mode(target, seen).ok_or(Report::Absent)?;
            Ok((remote, seen, mode))
        }
        None if remote.leaves_out(namespace, service) => Err(Report::Failed(Problem::new(
            Reason::LimitExceeded,
            "left out: the cluster exports more than is taken in of it",
        ))),
        None if remote.may_leave_out(namespace, service) => Err(Report::Unknown),
        None => Err(Report::Absent),
    }
}

/// The mirror's name and what stands under it, if that is ours or nothing.
fn slot<'a>(world: &'a World, this: &RemoteRef) -> Result<(String, Option<&'a Service>), Problem> {
    let name = fits(mirror_name(&this.service, &this.cluster))?;
    let local = world.standing(&this.namespace, &name);
    let own = Claim::Mirror {
        cluster: &this.cluster,
        service: &this.service,
    };
    match world.grants(own, &this.namespace, &name, local) {
        Ok(()) => Ok((name, local)),
        Err(who) => Err(name_conflict(&this.namespace, &name, &who)),
    }
}

#[cfg(test)]
mod tests;
