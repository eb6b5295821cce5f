//! Whether a controller is active for a Link.

use mirror_core::api::{
    duration::utc,
    labels::{CONTROLLER_NAME, LEASE_NAME},
};

use super::{
    context::PathContext,
    layer::LayerReport,
    silence::{deployment, held_by_nobody},
};
use crate::{
    clusters::snapshot::Workload,
    finding::{Finding, Level, causes::Cause},
};

/// What is wrong with the controller of the Links in a namespace; adds what was looked at. Without one, what the status of
/// a Link says is old.
pub fn judge(
    way: &PathContext<'_>,
    namespace: &str,
    level: Level,
    report: &mut LayerReport,
) -> Option<Finding> {
    let lease = format!("{namespace}/{LEASE_NAME}");
    let leader = match way.facts.source.leaders.get(namespace) {
        None => return None,
        Some(Err(why)) => {
            report.cannot_see(format!("the Lease {lease}"), why);
            return None;
        }
        Some(Ok(leader)) => leader.as_ref(),
    };
    let deployment = deployment(way.facts, namespace);
    match leader {
        Some(leader) if leader.active => {
            if let Some(evidence) = held_by_nobody(way.facts, leader) {
                Some(
                    Finding::new(Cause::LeaseHeldByNobody, level, evidence)
                        .since(leader.renewed)
                        .fixed_by(
                            &way.commands
                                .source
                                .kubectl("-n {} delete lease {}", &[namespace, LEASE_NAME]),
                        ),
                )
            } else {
                let holder = leader.holder.as_deref().unwrap_or_default();
                report.see(format!("controller {holder} is active"));
                None
            }
        }
        Some(leader) => {
            let time = |time| format!("at {}", utc(time));
            let renewed = leader.renewed.map_or_else(|| "never".to_owned(), time);
            let evidence = match &leader.holder {
                Some(holder) => format!("{holder} last renewed the Lease {lease} {renewed}"),
                None => {
                    format!("the last controller stopped {renewed}, and released the Lease {lease}")
                }
            };
            let found = down(way, namespace, level, deployment, &evidence);
            Some(found.since(leader.renewed))
        }
        // Linkerd's own service mirror may be in charge.
        None if deployment.is_none() => {
            report.cannot_see(
                "the controller",
                format!("there is no Lease {lease}, and no Deployment {CONTROLLER_NAME}"),
            );
            None
        }
        None => {
            let evidence = format!("the Lease {lease} does not exist");
            Some(down(way, namespace, level, deployment, &evidence))
        }
    }
}

fn down(
    way: &PathContext<'_>,
    namespace: &str,
    level: Level,
    deployment: Option<&Workload>,
    lease: &str,
) -> Finding {
    let source = &way.commands.source;
    let target = [namespace, CONTROLLER_NAME];
    let (state, command) = match deployment {
        Some(Workload { desired: 0, .. }) => (
            format!("; Deployment {namespace}/{CONTROLLER_NAME} is scaled to 0"),
            source.kubectl("-n {} scale deployment/{} --replicas=1", &target),
        ),
        Some(found) => (
            format!(
                "; of Deployment {}, {}/{} replicas are available",
                found.id, found.available, found.desired
            ),
            source.kubectl("-n {} rollout restart deployment/{}", &target),
        ),
        None => (
            String::new(),
            source.kubectl("-n {} get pods -l component=controller", &[namespace]),
        ),
    };
    Finding::new(Cause::ControllerDown, level, format!("{lease}{state}")).fixed_by(&command)
}
