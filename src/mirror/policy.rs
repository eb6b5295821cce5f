//! Import policy: into which local namespaces a target cluster may mirror, and which federated Services it may join.
//!
//! It is this cluster's own decision, so what stands against it is removed without asking the target cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use thiserror::Error;

use super::{
    outcome::{Problem, Reason},
    selector::{Selector, SelectorError, short},
    target::Target,
    world::World,
};
use crate::api::{
    labels as l,
    selector::{SelectorError as TextError, parse_selector},
};

/// Which federated Services a target cluster may join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Federation {
    /// All of its members' names, as in Linkerd.
    #[default]
    Any,
    /// Those that have a member in the local cluster.
    LocalMembers,
    /// None.
    None,
}

/// How a target cluster takes part in federated Services.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FederatedThrough {
    /// Linkerd discovers its endpoints, as Linkerd's own service mirror has it. It takes a flat network.
    #[default]
    Discovery,
    /// By its gateway. A federated Service that has such a member is made of `EndpointSlices`.
    Gateway,
}

/// What is wrong with an annotation that restricts a target cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The text is no selector.
    #[error(transparent)]
    Text(#[from] TextError),
    /// The selector is none that Kubernetes takes.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The selector has no requirement, which may be meant as all namespaces or as none.
    #[error("it is empty; without it all namespaces are allowed that are not protected")]
    Empty,
    /// The word is none of those that there are.
    #[error("{0:?} is none of any, local-members, none")]
    Federation(String),
    /// The word is none of those that there are.
    #[error("{0:?} is none of discovery, gateway")]
    FederatedThrough(String),
}

impl FederatedThrough {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Discovery, Self::Gateway];

    /// As in a Link's annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Discovery => "discovery",
            Self::Gateway => "gateway",
        }
    }

    /// Of a Link, by its annotation.
    pub fn of(link: &ObjectMeta) -> Result<Self, PolicyError> {
        let annotations = link.annotations.as_ref();
        let text = annotations.and_then(|annotations| annotations.get(l::FEDERATED_THROUGH));
        let Some(text) = text else {
            return Ok(Self::default());
        };
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.as_str() == text.trim())
            .ok_or_else(|| PolicyError::FederatedThrough(short(text)))
    }
}

impl Federation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Any, Self::LocalMembers, Self::None];

    /// As in a Link's annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::LocalMembers => "local-members",
            Self::None => "none",
        }
    }

    /// Reads a Link's annotation.
    pub(super) fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.as_str() == text.trim())
            .ok_or_else(|| PolicyError::Federation(short(text)))
    }
}

/// Reads a label selector of namespaces, as people type it.
pub fn allowed_namespaces(text: &str) -> Result<Selector, PolicyError> {
    let selector = Selector::parse(Some(&parse_selector(text)?))?;
    selector.ok_or(PolicyError::Empty)
}

/// Why nothing of a target cluster may stand somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forbidden {
    /// The namespace is protected from all target clusters.
    Protected,
    /// The Link does not allow the namespace.
    Namespace,
    /// The federated Service has no member in the local cluster.
    NoLocalMember,
    /// The Link lets its cluster join none.
    Federation,
}

impl Forbidden {
    /// What is said of a Service.
    pub(super) fn problem(self, namespace: &str, service: &str) -> Problem {
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
                    "the Link lets its cluster join only members of this cluster, and {namespace}/{service} is none \
                     (annotation {})",
                    l::FEDERATION
                ),
            ),
            Self::Federation => (
                Reason::FederationNotAllowed,
                format!(
                    "the Link lets its cluster join no federated Service (annotation {})",
                    l::FEDERATION
                ),
            ),
        };
        Problem::new(reason, message)
    }
}

impl World {
    /// Whether a namespace is protected: nothing stands there but probe Services, in that of the Links.
    pub(super) fn protects(&self, namespace: &str) -> bool {
        let config = &self.config;
        namespace == config.namespace || config.protected_namespaces.contains(namespace)
    }

    /// Why a target cluster may not mirror into a namespace; `None` if it may.
    pub(super) fn forbids(&self, target: &Target, namespace: &str) -> Option<Forbidden> {
        if self.protects(namespace) {
            return Some(Forbidden::Protected);
        }
        let allowed = target.allowed_namespaces.as_ref()?;
        // One that does not exist yet has no label but its name.
        let known = self.namespace(namespace);
        let label = |key: &str| match key {
            l::NAMESPACE_NAME => Some(namespace),
            key => known.and_then(|known| known.labels.get(key)),
        };
        (!allowed.selects(label)).then_some(Forbidden::Namespace)
    }

    /// Why a target cluster may not join a federated Service, which has a member in the local cluster or not; `None` if
    /// it may.
    pub(super) fn forbids_joining(
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
