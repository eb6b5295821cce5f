//! Mirrors of single Services: which should stand, and the way from what does.

mod context;
mod removal;

use std::sync::Arc;

pub(super) use self::context::Context;
use self::removal::{Scope, removal};
use super::{
    claims::Claim,
    endpoints::{self, DesiredSlice, Through},
    export::Mode,
    headless,
    links::LinkEntry,
    metadata::is_managed,
    names::{fits, mirror_name},
    namespaces::NamespacePhase,
    outcome::{Plan, Problem, Reason, RemoteRef, Report},
    service::{self, Desired},
    target::Target,
    world::{Remote, World},
    write::{Object, Write},
};
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
};

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

/// Makes sure that the namespace takes objects. One that is created is counted for the first of these clusters for which
/// another one may be.
pub(super) fn enter<'a>(
    world: &World,
    namespace: &str,
    clusters: impl IntoIterator<Item = &'a str>,
    writes: &mut Vec<Write>,
) -> Result<(), Problem> {
    let most = world.config.max_namespaces;
    match world.namespace(namespace).map(|known| known.phase) {
        Some(NamespacePhase::Active) => Ok(()),
        None if most > 0 => {
            let mut clusters = clusters.into_iter();
            let cluster = clusters.find(|cluster| world.may_create_namespace(cluster, 0));
            let cluster = cluster.ok_or_else(|| {
                let message = format!(
                    "namespace {namespace} does not exist, and {most} were created for the Link, its limit"
                );
                Problem::new(Reason::LimitExceeded, message)
            })?;
            let labels = [(l::MIRRORED_SERVICE, "true"), (l::CLUSTER_NAME, cluster)];
            writes.push(Write::Create(Object::Namespace {
                name: namespace.to_owned(),
                labels: labels.into(),
            }));
            Ok(())
        }
        None | Some(NamespacePhase::Terminating) => Err(Problem::new(
            Reason::MissingNamespace,
            "Namespace does not exist",
        )),
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

/// The name belongs to somebody else.
pub(super) fn name_conflict(namespace: &str, name: &str, who: &str) -> Problem {
    Problem::new(
        Reason::NameConflict,
        format!("{namespace}/{name} belongs to {who}"),
    )
}

pub(super) fn plain(
    context: &Context<'_>,
    mode: Mode,
    writes: &mut Vec<Write>,
) -> Result<Report, Problem> {
    let Context {
        world,
        target,
        namespace,
        name,
        ..
    } = context;
    let mut desired = context.mirror(mode, false);
    if context.replace(&desired, writes) {
        return Ok(Report::Unknown);
    }
    context.drop_endpoint_mirrors(|_| false, writes);
    desired.uid = context
        .local
        .and_then(|local| local.metadata.uid.as_deref());
    let actual = world.local_slices(namespace, name);
    let mirrored = |note| Report::Mirrored {
        local: name.clone(),
        note,
    };
    let by_gateway;
    let mut note = None;
    let (slices, problem) = match mode {
        Mode::RemoteDiscovery if actual.iter().any(|slice| endpoints::is_ours(slice)) => {
            // Streams that began in gateway mode go on with them, and new ones do not look at them.
            by_gateway = Desired {
                uid: desired.uid,
                ..context.mirror(Mode::Gateway, false)
            };
            let slices = context.through(actual).ok().map(|through| {
                let backed = true; // its slices are not watched in this mode
                endpoints::through_gateway(&by_gateway, &Through { backed, ..through }, "")
            });
            (slices, None)
        }
        Mode::RemoteDiscovery => (Some(Vec::new()), None),
        Mode::Gateway => match context.through(actual) {
            Err(problem) => (None, Some(problem)),
            // What is refused is not kept either.
            Ok(through) if through.addresses.is_empty() => (Some(Vec::new()), through.problem()),
            // New streams look at its endpoints as soon as it says that it is in this mode.
            Ok(through) if !through.backed && context.turns_to_gateway() => {
                return Ok(mirrored(None));
            }
            // Those that are not known may be ready: its endpoints stay as they are.
            Ok(through) if !through.backed && context.lacks_slices() => {
                note = context.cut();
                (None, None)
            }
            Ok(through) if !through.backed && actual.is_empty() && context.is_new_to_us() => {
                // Kubernetes makes a slice for each Service with a selector. Until one is seen it is not
                // known whether the Service has endpoints: the slice would be written twice.
                (None, None)
            }
            Ok(through) => (
                Some(endpoints::through_gateway(&desired, &through, "")),
                None,
            ),
        },
    };
    stand(
        world,
        &desired,
        slices,
        context.local,
        actual,
        &target.cluster,
        writes,
    );
    match problem {
        None => Ok(mirrored(note)),
        Some(problem) => Err(problem),
    }
}

/// The writes that make a Service and its slices stand. `None` for the slices: leave them as they are.
///
/// What Linkerd's own service mirror made is adopted: its Endpoints go once our slices stand, and only
/// then is the Service marked as ours, so that an adoption that is cut short is taken up again. Without
/// slices to take their place the Endpoints stay.
pub(super) fn stand(
    world: &World,
    desired: &Desired<'_>,
    slices: Option<Vec<DesiredSlice<'_>>>,
    actual: Option<&Service>,
    actual_slices: &[Arc<EndpointSlice>],
    cluster: &str,
    writes: &mut Vec<Write>,
) {
    let adopts = slices.is_some();
    let reconcile = |writes: &mut Vec<Write>| {
        if let Some(slices) = slices {
            endpoints::reconcile(world, slices, actual_slices, writes);
        }
    };
    match actual {
        None => {
            let created = Box::new(desired.service());
            writes.push(Write::Create(Object::Service(created)));
            reconcile(writes);
        }
        Some(actual) if is_managed(&actual.metadata) => {
            // Whoever reads of another mode finds the endpoints that it needs.
            reconcile(writes);
            writes.extend(service::patch(desired, actual));
        }
        Some(actual) if adopts => {
            reconcile(writes);
            writes.push(retire(actual, cluster));
            writes.extend(service::patch(desired, actual));
        }
        Some(actual) => {
            let mut desired = desired.clone();
            desired.dress.unsign();
            writes.extend(service::patch(&desired, actual));
        }
    }
}

fn retire(service: &Service, cluster: &str) -> Write {
    Write::RetireEndpoints {
        namespace: service.metadata.namespace().to_owned(),
        name: service.metadata.name().to_owned(),
        cluster: cluster.to_owned(),
    }
}

#[cfg(test)]
mod tests;
