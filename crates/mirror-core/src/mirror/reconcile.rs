//! Plans: what to do for a key to bring the local cluster to its desired state. There is one file for each kind of key.
//! Each compares existing objects with desired ones, and the difference is the plan.

mod federated;
mod gateway;
mod mirror;
mod service;

use super::{
    key::Key,
    outcome::{Confirmed, Plan},
    state::State,
};

/// What to do for a key, given all that is known. There is a plan for every state and key.
///
/// Once the plan has been applied, planning again returns a plan without writes. `confirmed`: the clusters that have
/// confirmed removals. What they have not confirmed stays as it is, and everything else is planned nevertheless.
pub fn plan(state: &State, key: &Key, confirmed: Confirmed<'_>) -> Plan {
    if state.local.is_none() {
        return Plan::default();
    }
    match key {
        Key::Mirror {
            cluster,
            namespace,
            service,
        } => mirror::plan(state, (cluster, namespace, service), confirmed),
        Key::Federated { namespace, service } => {
            federated::plan(state, namespace, service, confirmed)
        }
        Key::Gateway { link } => gateway::plan(state, link),
    }
}
