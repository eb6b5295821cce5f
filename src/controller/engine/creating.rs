//! Namespaces that are being created. They count towards the limit before the API server has responded, so that the
//! limit is not exceeded.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    api::labels as l,
    mirror::{Key, Plan, State},
};

/// Namespaces that are being created, by the key whose plan creates one.
#[derive(Default)]
pub(super) struct Creating(BTreeMap<Key, Creation>);

/// A namespace that a plan creates, and the target cluster whose limit it counts towards.
struct Creation {
    namespace: String,
    cluster: String,
}

impl Creating {
    /// Records that a plan is about to be executed, unless it creates a namespace that is not allowed in addition to
    /// those in progress. Returns whether the plan may be executed.
    pub(super) fn begin(&mut self, key: &Key, plan: &Plan, state: &State) -> bool {
        let Some(creation) = Creation::of(plan) else {
            return true;
        };
        let is_allowed = creation.is_allowed(state, self.0.values());
        if is_allowed {
            self.0.insert(key.clone(), creation);
        }
        is_allowed
    }

    /// Records that the plan of a key has been executed.
    pub(super) fn end(&mut self, key: &Key) {
        self.0.remove(key);
    }
}

impl Creation {
    /// The namespace that a plan creates, if it creates one.
    fn of(plan: &Plan) -> Option<Self> {
        let (namespace, labels) = plan.creates_namespace()?;
        Some(Self {
            namespace: namespace.to_owned(),
            cluster: labels.get(l::CLUSTER_NAME)?.to_owned(),
        })
    }

    /// Whether it may be created in addition to those in progress.
    fn is_allowed<'a>(&'a self, state: &State, under_way: impl Iterator<Item = &'a Self>) -> bool {
        let is_known = |name: &str| state.namespace(name).is_some();
        let others = under_way.filter(|other| {
            other.cluster == self.cluster
                && other.namespace != self.namespace
                && !is_known(&other.namespace)
        });
        let others: BTreeSet<&str> = others.map(|other| other.namespace.as_str()).collect();
        state.may_create_namespace(&self.cluster, others.len())
    }
}
