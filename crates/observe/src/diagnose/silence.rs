//! Whether somebody still writes the status of Links.

use jiff::SignedDuration;
use mirror_core::api::{duration::utc, labels::LEASE_NAME};

use crate::clusters::{
    leader::Leader,
    request_path::{PodState, RequestPath},
    snapshot::Workload,
};

/// A leader renews its Lease every few seconds. After this time without a renewal, it counts as gone.
const SILENCE: SignedDuration = SignedDuration::from_secs(15);

/// Since when nobody writes the status of the Links in a namespace, in words; what it says is old then. `None` if somebody
/// does, or that is not known.
pub fn silence(facts: &RequestPath, namespace: &str) -> Option<String> {
    let leader = facts.source.leaders.get(namespace)?.as_ref().ok()?;
    let renewed = match leader {
        Some(leader) if leader.active && held_by_nobody(facts, leader).is_none() => return None,
        Some(leader) => leader.renewed,
        None => {
            deployment(facts, namespace)?;
            None
        }
    };
    Some(match renewed {
        Some(time) => format!("no controller has reported since {}", utc(time)),
        None => "no controller reports".to_owned(),
    })
}

/// The Deployment of the controller in a namespace.
pub fn deployment<'a>(facts: &'a RequestPath, namespace: &str) -> Option<&'a Workload> {
    let mut all = facts.source.controllers.iter().flatten();
    all.find(|workload| workload.id.namespace == namespace)
}

/// What shows that the holder of a Lease is not one of the controllers, although controllers run.
pub fn held_by_nobody(facts: &RequestPath, leader: &Leader) -> Option<String> {
    let pods = facts.source.controller_pods.as_ref().ok()?;
    let pods = pods.get(&leader.namespace)?;
    let is_there = |holder: &str| pods.iter().any(|pod| pod.id.name == holder);
    let holder = leader
        .holder
        .as_deref()
        .filter(|holder| !is_there(holder))?;
    let silent = facts.now.duration_since(leader.renewed?);
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
