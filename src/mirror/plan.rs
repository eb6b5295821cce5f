//! Plans: what to do for a key, so that the local cluster comes from what is to what should be.

use super::{
    key::Key,
    outcome::Plan,
    reconcile::{federated, mirror, probe},
    state::State,
};

/// What to do for a key, given all that is known. Total: for every state and key there is a plan.
///
/// Planning again in the state that the plan brought about gives a plan without writes.
pub fn plan(state: &State, key: &Key) -> Plan {
    match key {
        Key::Mirror {
            cluster,
            namespace,
            service,
        } => mirror::plan(state, cluster, namespace, service),
        Key::Federated { namespace, service } => federated::plan(state, namespace, service),
        Key::Probe { link } => probe::plan(state, link),
    }
}
