//! Mirrors of single Services: which should exist, and the writes for them.

mod context;
mod headless;
mod plain;
mod removal;
mod unseen;

use self::{
    context::MirrorContext,
    plain::plain,
    removal::{Scope, removal},
    unseen::follow,
};
use super::service::ensure_namespace;
use crate::{
    api::k8s::Service,
    mirror::{
        desired::service,
        names::{Purpose, fits, mirror_name},
        outcome::{Confirmed, Outcome, Plan, Problem, Reason, RemoteRef},
        state::{State, links::LinkEntry, remote::RemoteState},
        target::{Target, export::MirrorMode},
    },
};

/// The plan for one Service of one target cluster.
pub(crate) fn plan(
    state: &State,
    (cluster, namespace, service): (&str, &str, &str),
    confirmed: Confirmed<'_>,
) -> Plan {
    let this = RemoteRef::new(cluster, namespace, service);
    let Some(link) = state.link(cluster) else {
        // Mirrors of a Link that cannot be read now stay. Mirrors of a deleted Link are removed, if we created them.
        let stays = state.may_keep(cluster) && !state.protects(namespace);
        return Plan {
            writes: if stays {
                Vec::new()
            } else {
                removal(state, &this, Scope::Managed)
            },
            ..Plan::default()
        };
    };
    let exported = exported(state, link, namespace, service);
    if let Some(forbidden) = state.forbids(link.0, namespace) {
        // This cluster decides this alone, so the target cluster is not asked.
        let problem = forbidden.problem(namespace, service);
        let report = exported.map_or_else(Unexported::report, |_| Outcome::Failed(problem));
        let writes = removal(state, &this, Scope::All);
        return Plan::mirror(this, writes, report);
    }
    match exported {
        Ok((_, _, MirrorMode::RemoteDiscovery)) if let Some(problem) = link.0.lacks_discovery() => {
            let writes = follow(state, (link.0, &link.1.gateway), &this);
            Plan::mirror(this, writes, Outcome::Failed(problem))
        }
        Ok((remote, seen, mode)) => match service::mirrorable(seen) {
            Ok(()) => mirrored(state, link, (remote, seen, mode), this),
            Err(problem) => {
                let writes = removal(state, &this, Scope::All);
                Plan::mirror(this, writes, Outcome::Failed(problem))
            }
        },
        Err(Unexported::Known(report)) => gone(state, link, (this, report), confirmed),
        Err(Unexported::Unclear(report)) => {
            let writes = follow(state, (link.0, &link.1.gateway), &this);
            Plan::mirror(this, writes, report)
        }
    }
}

/// The plan for a Service that is not exported, or no longer is. Its mirror is removed once the target cluster has
/// confirmed this.
fn gone(
    state: &State,
    link: (&Target, &LinkEntry),
    (this, report): (RemoteRef, Outcome),
    confirmed: Confirmed<'_>,
) -> Plan {
    let writes = removal(state, &this, Scope::All);
    if writes.is_empty() {
        return Plan::mirror(this, writes, report);
    }
    let (writes, report) = if confirmed.covers(&this.cluster) {
        (writes, report)
    } else {
        let gateway = (link.0, &link.1.gateway);
        (follow(state, gateway, &this), Outcome::Unknown)
    };
    Plan {
        confirm: vec![this.clone()],
        ..Plan::mirror(this, writes, report)
    }
}

/// The plan for a Service that should have a mirror.
fn mirrored(
    state: &State,
    (target, entry): (&Target, &LinkEntry),
    (remote, seen, mode): (&RemoteState, &Service, MirrorMode),
    this: RemoteRef,
) -> Plan {
    let mut writes = Vec::new();
    let slot = slot(state, &this);
    if slot.is_err()
        && state.is_foreign(&this.namespace, &mirror_name(&this.service, &this.cluster))
    {
        // Somebody may have taken the mirror over. Our slices would still send its traffic to our gateway.
        writes = removal(state, &this, Scope::All);
    }
    let planned = slot.and_then(|(name, local)| {
        ensure_namespace(state, &this.namespace, [&*this.cluster], &mut writes)?;
        let context = MirrorContext {
            state,
            target,
            gateway: &entry.gateway,
            remote,
            service: seen,
            namespace: &this.namespace,
            name,
            local,
        };
        let as_headless = mode == MirrorMode::Gateway && target.headless && seen.is_headless();
        if as_headless {
            headless::plan(&context, &mut writes)
        } else {
            plain(&context, mode, &mut writes)
        }
    });
    let mut report = planned.unwrap_or_else(Outcome::Failed);
    if let Outcome::Mirrored { note, .. } = &mut report
        && note.is_none()
    {
        *note = service::not_copied(seen);
    }
    Plan::mirror(this, writes, report)
}

/// Why there is no Service to mirror, as the outcome to report.
enum Unexported {
    /// It is not exported to this cluster.
    Known(Outcome),
    /// It cannot be seen now.
    Unclear(Outcome),
}

impl Unexported {
    fn report(self) -> Outcome {
        match self {
            Self::Known(report) | Self::Unclear(report) => report,
        }
    }
}

/// A Service that a target cluster exports, with its mode.
fn exported<'a>(
    state: &State,
    (target, entry): (&Target, &'a LinkEntry),
    namespace: &str,
    service: &str,
) -> Result<(&'a RemoteState, &'a Service, MirrorMode), Unexported> {
    use Unexported::{Known, Unclear};
    let remote = entry.remote.as_ref().ok_or(Unclear(Outcome::Unknown))?;
    match remote.service(namespace, service) {
        Some(seen) => match state.mode(target, seen) {
            Some(mode) => Ok((remote, seen, mode)),
            None => Err(Known(state.unexported(target, seen))),
        },
        None if remote.omits(namespace, service) => Err(Unclear(Outcome::Failed(Problem::new(
            Reason::LimitExceeded,
            "not mirrored: the cluster exports more than the limit",
        )))),
        None if remote.may_omit(namespace, service) => Err(Unclear(Outcome::Unknown)),
        None => Err(Known(Outcome::Absent)),
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
    state.grants(own, &this.namespace, &name)?;
    Ok((name, local))
}

#[cfg(test)]
mod tests;
