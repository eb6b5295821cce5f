//! Namespaces that are being created: they count before the API server has answered, so that no more are created than
//! the limit allows.

use std::collections::BTreeSet;

use crate::{
    api::labels as l,
    mirror::{Plan, State},
};

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

    /// Whether it may be created beside those that are under way.
    pub(super) fn is_allowed<'a>(
        &'a self,
        state: &State,
        under_way: impl Iterator<Item = &'a Self>,
    ) -> bool {
        let is_known = |name: &str| state.namespaces.get(name).is_some();
        let others = under_way.filter(|other| {
            other.cluster == self.cluster
                && other.namespace != self.namespace
                && !is_known(&other.namespace)
        });
        let others: BTreeSet<&str> = others.map(|other| other.namespace.as_str()).collect();
        state.may_create_namespace(&self.cluster, others.len())
    }
}
