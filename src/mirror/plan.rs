//! Plans: what to do for a key, so that the local cluster comes from what is to what should be.

use super::{federated, gateway, key::Key, mirrors, outcome::Plan, world::World};

/// What to do for a key, given all that is known. Total: for every world and key there is a plan.
///
/// Planning again in the world that the plan brought about gives a plan without writes.
pub fn plan(world: &World, key: &Key) -> Plan {
    if !world.is_complete() {
        return Plan::default();
    }
    match key {
        Key::Mirror {
            cluster,
            namespace,
            service,
        } => mirrors::plan(world, cluster, namespace, service),
        Key::Federated { namespace, service } => federated::plan(world, namespace, service),
        Key::Probe { link } => gateway::plan(world, link),
    }
}
