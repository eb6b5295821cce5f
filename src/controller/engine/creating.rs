//! Namespaces that are being created. They count towards the limit before the API server has responded, so that the
//! limit is not exceeded.

use std::collections::BTreeSet;

use crate::{
    api::labels as l,
    mirror::{Plan, State},
};

/// A namespace that a plan creates, and the target cluster whose limit it counts towards.
pub(super) struct Creating {
    namespace: String,
    cluster: String,
}

impl Creating {
    /// The namespace that a plan creates, if it creates one.
    pub(super) fn of(plan: &Plan) -> Option<Self> {
        let (namespace, labels) = plan.creates_namespace()?;
        Some(Self {
            namespace: namespace.to_owned(),
            cluster: labels.get(l::CLUSTER_NAME)?.to_owned(),
        })
    }
    /// Whether it may be created in addition to those in progress.
    pub(super) fn is_allowed<'a>(
        &'a self,
        state: &State,
        under_way: impl Iterator<Item = &'a Self>,
    ) -> bool {
        let known = state.namespaces.as_ref();
        let is_known = |name: &str| known.is_some_and(|known| known.get(name).is_some());
        let others = under_way.filter(|other| {
            other.cluster == self.cluster
                && other.namespace != self.namespace
                && !is_known(&other.namespace)
        });
        let others: BTreeSet<&str> = others.map(|other| other.namespace.as_str()).collect();
        state.may_create_namespace(&self.cluster, others.len())
    }
}
