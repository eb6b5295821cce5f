//! Mirrors that are one Service: for any Service except a headless one with hosts.

use super::{super::service::reconcile_service, context::Context};
use crate::mirror::{
    desired::{
        endpoints::{self, Through},
        service::Desired,
    },
    metadata::is_our_slice,
    outcome::{Outcome, Problem},
    target::export::Mode,
    write::Write,
};

/// The plan for a Service that is mirrored as one.
pub(crate) fn plain(
    context: &Context<'_>,
    mode: Mode,
    writes: &mut Vec<Write>,
) -> Result<Outcome, Problem> {
    let Context {
        state,
        target,
        namespace,
        name,
        ..
    } = context;
    let mut desired = context.mirror(mode, false);
    if context.replace(&desired, writes) {
        return Ok(Outcome::Unknown);
    }
    context.drop_endpoint_mirrors(|_| false, writes);
    desired.uid = context
        .local
        .and_then(|local| local.metadata.uid.as_deref());
    let actual = state.local_slices(namespace, name);
    let mirrored = |note| Outcome::Mirrored {
        local: name.clone(),
        note,
    };
    let by_gateway;
    let mut note = None;
    let (slices, problem) = match mode {
        Mode::RemoteDiscovery if actual.iter().any(|slice| is_our_slice(slice)) => {
            // Streams that began in gateway mode continue to use the slices, and new streams ignore them.
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
            // Endpoints with refused addresses are not kept either.
            Ok(through) if through.addresses.is_empty() => (Some(Vec::new()), through.problem()),
            // The mirror changes its mode only once endpoints are known: new streams use its slices from then on.
            Ok(through) if !through.backed && context.turns_to_gateway() => {
                return Ok(mirrored(None));
            }
            // Unknown endpoints may be ready, so the mirror stays with endpoints or without, as it is.
            Ok(through) if !through.backed && context.cut().is_some() => {
                note = context.cut();
                let known = actual.iter().filter(|slice| state.writes_slice(slice));
                let mut known = known.peekable();
                let exist = known.peek().is_some();
                let backed = known.any(|slice| !slice.endpoints.is_empty());
                let through = Through { backed, ..through };
                let slices = exist.then(|| endpoints::through_gateway(&desired, &through, ""));
                (slices, None)
            }
            Ok(through) if !through.backed && actual.is_empty() && context.is_new_to_us() => {
                // Kubernetes creates a slice for each Service with a selector. Until one is seen, it is not known
                // whether the Service has endpoints, and the mirror's slice would be written twice.
                (None, None)
            }
            Ok(through) => (
                Some(endpoints::through_gateway(&desired, &through, "")),
                None,
            ),
        },
    };
    reconcile_service(
        state,
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
