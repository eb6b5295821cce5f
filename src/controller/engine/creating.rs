//! Namespaces that are being created: they count before the API server has answered, so that no more are created than
//! the limit allows.

use std::collections::BTreeSet;

use super::Engine;
use crate::{api::labels as l, mirror::Plan};

/// A namespace that a plan creates, and the target cluster that it is counted for.
pub(super) struct Creating {
    namespace: String,
    cluster: String,
}

impl Creating {
    /// What a plan creates.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let (namespace, labels) = plan.creates_namespace()?;
        Some(Self {
            namespace: namespace.to_owned(),
            cluster: labels.get(l::CLUSTER_NAME)?.to_owned(),
        })
    }
}

impl Engine {
    /// Whether a namespace may be created beside those that are under way.
    pub(super) fn may_create(&self, wanted: &Creating) -> bool {
        let known = self.world.namespaces.as_ref();
        let is_known = |name: &str| known.is_some_and(|known| known.get(name).is_some());
        let others = self.creating.values().filter(|other| {
            other.cluster == wanted.cluster
                && other.namespace != wanted.namespace
                && !is_known(&other.namespace)
        });
        let others: BTreeSet<&str> = others.map(|other| other.namespace.as_str()).collect();
        self.world
            .may_create_namespace(&wanted.cluster, others.len())
    }
}
