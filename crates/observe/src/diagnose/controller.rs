//! Whether a controller is active for a Link.

use jiff::SignedDuration;
use mirror_core::api::labels::{CONTROLLER_NAME, LEASE_NAME};

use super::{
    causes::Cause,
    context::PathContext,
    layer::{Finding, Impact, LayerReport},
};
use crate::clusters::{leader::Leader, request_path::PodState, snapshot::Workload};

/// A leader renews its Lease every few seconds. After this time without a renewal, it counts as gone.
const SILENCE: SignedDuration = SignedDuration::from_secs(15);

/// What is wrong with the controller of the Links in a namespace; adds what was looked at. Without one, what the status of
/// a Link says is old.
pub fn judge(
    way: &PathContext<'_>,
    namespace: &str,
    impact: Impact,
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
    let deployment = deployment(way, namespace);
    match leader {
        Some(leader) if leader.active => {
            if let Some(evidence) = held_by_nobody(way, leader) {
                Some(
                    Finding::new(Cause::LeaseHeldByNobody, impact, evidence).fixed_by(
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
            let time =
                |time: jiff::Timestamp| time.strftime("at %Y-%m-%d %H:%M:%S UTC").to_string();
            let renewed = leader.renewed.map_or_else(|| "never".to_owned(), time);
            let evidence = match &leader.holder {
                Some(holder) => format!("{holder} last renewed the Lease {lease} {renewed}"),
                None => {
                    format!("the last controller stopped {renewed}, and released the Lease {lease}")
                }
            };
            Some(down(way, namespace, impact, deployment, &evidence))
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
            Some(down(way, namespace, impact, deployment, &evidence))
        }
    }
}

/// Since when nobody writes the status of the Links in a namespace, in words; what it says is old then. `None` if somebody
/// does, or that is not known.
pub fn silence(way: &PathContext<'_>, namespace: &str) -> Option<String> {
    let leader = way.facts.source.leaders.get(namespace)?.as_ref().ok()?;
    let renewed = match leader {
        Some(leader) if leader.active && held_by_nobody(way, leader).is_none() => return None,
        Some(leader) => leader.renewed,
        None => {
            deployment(way, namespace)?;
            None
        }
    };
    Some(match renewed {
        Some(time) => time
            .strftime("no controller has reported since %Y-%m-%d %H:%M:%S UTC")
            .to_string(),
        None => "no controller reports".to_owned(),
    })
}

fn deployment<'a>(way: &PathContext<'a>, namespace: &str) -> Option<&'a Workload> {
    let mut all = way.facts.source.controllers.iter().flatten();
    all.find(|workload| workload.id.namespace == namespace)
}

fn down(
    way: &PathContext<'_>,
    namespace: &str,
    impact: Impact,
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
    Finding::new(Cause::ControllerDown, impact, format!("{lease}{state}")).fixed_by(&command)
}

/// What shows that the holder of a Lease is not one of the controllers, although controllers run.
fn held_by_nobody(way: &PathContext<'_>, leader: &Leader) -> Option<String> {
    let pods = way.facts.source.controller_pods.as_ref().ok()?;
    let pods = pods.get(&leader.namespace)?;
    let is_there = |holder: &str| pods.iter().any(|pod| pod.id.name == holder);
    let holder = leader
        .holder
        .as_deref()
        .filter(|holder| !is_there(holder))?;
    let silent = way.facts.now.duration_since(leader.renewed?);
    let ready: Vec<&PodState> = pods.iter().filter(|pod| pod.ready).collect();
    (silent > SILENCE && !ready.is_empty()).then(|| {
        format!(
            "{holder} holds the Lease {}/{LEASE_NAME} and has not renewed it for {} s; it is none of the {} Pods of the controller that are ready",
            leader.namespace,
            silent.as_secs(),
            ready.len()
        )
    })
}
