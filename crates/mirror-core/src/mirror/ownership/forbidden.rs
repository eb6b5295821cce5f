//! What the import policy forbids: the local namespaces into which a target cluster may not mirror, and the federated
//! Services that it may not join.
//!
//! The policy is this cluster's own decision, so what violates it is removed without asking the target cluster.

use crate::{
    api::labels as l,
    mirror::{
        outcome::{Problem, Reason},
        state::State,
        target::{Target, policy::Federation},
    },
};

/// Why a target cluster may not mirror into a namespace, or not join a federated Service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forbidden {
    /// The namespace is protected from all target clusters.
    Protected,
    /// The Link does not allow the namespace.
    Namespace,
    /// The federated Service has no member in the local cluster.
    NoLocalMember,
    /// The Link allows its cluster no federated Services.
    Federation,
}

impl Forbidden {
    /// The problem to report for a Service.
    pub(crate) fn problem(self, namespace: &str, service: &str) -> Problem {
        let (reason, message) = match self {
            Self::Protected => (
                Reason::NamespaceNotAllowed,
                format!("namespace {namespace} is protected from all target clusters"),
            ),
            Self::Namespace => (
                Reason::NamespaceNotAllowed,
                format!(
                    "the Link does not allow namespace {namespace} (annotation {})",
                    l::ALLOWED_NAMESPACES
                ),
            ),
            Self::NoLocalMember => (
                Reason::FederationNotAllowed,
                format!(
                    "the Link allows only federated Services with a local member, and {namespace}/{service} is not one \
                     (annotation {})",
                    l::FEDERATION
                ),
            ),
            Self::Federation => (
                Reason::FederationNotAllowed,
                format!(
                    "the Link does not allow federated Services (annotation {})",
                    l::FEDERATION
                ),
            ),
        };
        Problem::new(reason, message)
    }
}

impl State {
    /// Whether a namespace is protected: nothing is mirrored or federated there. The namespace of the Links is
    /// protected too; only gateway Services are created in it.
    pub(crate) fn protects(&self, namespace: &str) -> bool {
        let config = &self.config;
        namespace == config.namespace || config.protected_namespaces.contains(namespace)
    }

    /// Why a target cluster may not mirror into a namespace; `None` if it may.
    pub(crate) fn forbids(&self, target: &Target, namespace: &str) -> Option<Forbidden> {
        if self.protects(namespace) {
            return Some(Forbidden::Protected);
        }
        let allowed = target.allowed_namespaces.as_ref()?;
        // A namespace that does not exist yet has no label except its name.
        let known = self.namespace(namespace);
        let label = |key: &str| match key {
            l::NAMESPACE_NAME => Some(namespace),
            key => known.and_then(|known| known.labels.get(key)),
        };
        (!allowed.selects(label)).then_some(Forbidden::Namespace)
    }

    /// Why a target cluster may not join a federated Service; `None` if it may. `has_local_member`: whether the local
    /// cluster has a member.
    pub(crate) fn forbids_joining(
        &self,
        target: &Target,
        namespace: &str,
        has_local_member: bool,
    ) -> Option<Forbidden> {
        self.forbids(target, namespace).or(match target.federation {
            Federation::None => Some(Forbidden::Federation),
            Federation::LocalMembers if !has_local_member => Some(Forbidden::NoLocalMember),
            Federation::LocalMembers | Federation::Any => None,
        })
    }
}

#[cfg(test)]
mod tests;
