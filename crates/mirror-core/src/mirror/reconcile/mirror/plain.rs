//! Mirrors that are one Service: for any Service except a headless one with hosts.

use super::context::MirrorContext;
use crate::mirror::{
    desired::{
        endpoints::{DesiredSlice, GatewayEndpoints, through_gateway},
        service::Desired,
    },
    metadata::is_our_slice,
    outcome::{Outcome, Problem},
    target::export::MirrorMode,
    write::Write,
};

/// The plan for a Service that is mirrored as one.
pub(crate) fn plain(
    context: &MirrorContext<'_>,
    mode: MirrorMode,
    writes: &mut Vec<Write>,
) -> Result<Outcome, Problem> {
    let desired = context.mirror(mode, false);
    if context.replace(&desired, writes) {
        return Ok(Outcome::Unknown);
    }
    context.drop_endpoint_mirrors(|_| false, writes);
    match mode {
        MirrorMode::RemoteDiscovery => {
            let former = context.mirror(MirrorMode::Gateway, false);
            context.reconcile(&desired, former_slices(context, &former), writes);
            Ok(context.mirrored(None))
        }
        MirrorMode::Gateway => behind_gateway(context, &desired, writes),
    }
}

/// The slices of a mirror in remote-discovery mode: none, or those that it had in gateway mode as `former`. Streams that
/// began in gateway mode continue to use these slices, and new streams ignore them.
fn former_slices<'a>(
    context: &MirrorContext<'a>,
    former: &'a Desired<'_>,
) -> Option<Vec<DesiredSlice<'a>>> {
    let mut actual = context.local_slices().iter();
    if !actual.any(|slice| is_our_slice(slice)) {
        return Some(Vec::new());
    }
    let through = context.through().ok()?;
    let backed = true; // its slices are not watched in this mode
    Some(through_gateway(
        former,
        &GatewayEndpoints { backed, ..through },
        "",
    ))
}

/// Plans a mirror in gateway mode.
fn behind_gateway(
    context: &MirrorContext<'_>,
    desired: &Desired<'_>,
    writes: &mut Vec<Write>,
) -> Result<Outcome, Problem> {
    // The mirror changes its mode only once endpoints are known: new streams use its slices from then on.
    let turns = context.is_discovered();
    let through = match context.through() {
        Ok(through) => through,
        Err(problem) => {
            if !turns {
                context.reconcile(desired, None, writes);
            }
            return Err(problem);
        }
    };
    if let Some(problem) = through.problem() {
        if turns {
            return Err(problem);
        }
        // Endpoints with refused addresses are not kept either.
        context.reconcile(desired, Some(Vec::new()), writes);
        return Err(problem);
    }
    let note = context.omitted_slices().filter(|_| !through.backed);
    let actual = context.local_slices();
    let slices = if through.backed {
        Some(through_gateway(desired, &through, ""))
    } else if turns && context.has_no_slices() {
        return Ok(context.mirrored(None));
    } else if note.is_some() || (context.is_unknown() && !actual.is_empty()) {
        // Unknown endpoints may be ready, so the mirror stays with endpoints or without, as it is.
        let known = actual
            .iter()
            .filter(|slice| context.state.writes_slice(slice));
        let mut known = known.peekable();
        let exist = known.peek().is_some();
        let backed = known.any(|slice| !slice.endpoints.is_empty());
        exist.then(|| through_gateway(desired, &GatewayEndpoints { backed, ..through }, ""))
    } else if actual.is_empty() && context.is_new_to_us() {
        // Kubernetes creates a slice for each Service with a selector. Until one is seen, it is not known whether the
        // Service has endpoints, and the mirror's slice would be written twice.
        None
    } else {
        Some(through_gateway(desired, &through, ""))
    };
    context.reconcile(desired, slices, writes);
    Ok(context.mirrored(note))
}
