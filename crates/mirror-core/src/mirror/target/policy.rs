//! Import policy, as the annotations of a Link state it: into which local namespaces a target cluster may mirror, which
//! federated Services it may join, and how, and which labels and annotations are copied.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use thiserror::Error;

use crate::api::{
    labels as l,
    selector::{Selector, SelectorError},
    selector_text,
    text::short,
};

/// Which federated Services a target cluster may join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Federation {
    /// All, as in Linkerd.
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
    /// Linkerd discovers its endpoints, as with Linkerd's own service mirror. This requires a flat network.
    #[default]
    Discovery,
    /// Through its gateway. A federated Service that has such a member is made of `EndpointSlices`.
    Gateway,
}

/// How the controller reaches the API server of a target cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApiServerThrough {
    /// At the address in the credentials.
    #[default]
    Direct,
    /// Through the gateway of the Link, as Linkerd's proxies reach Services. The API server has to be reachable only in
    /// the target cluster.
    Gateway,
}

/// Which labels and annotations of a target cluster are copied to mirrors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Copied {
    /// All that are not excluded, except those by which other tools are controlled.
    #[default]
    All,
    /// Only those that the Link lists, and what Linkerd needs for the ports.
    Listed,
}

/// What is wrong with an annotation that restricts a target cluster.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The text is not a valid selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// The selector has no requirement. It is ambiguous whether this means all namespaces or none.
    #[error("it is empty (leave it out to allow all namespaces that are not protected)")]
    Empty,
    /// The value is unknown.
    #[error("invalid value {0:?} (use any, local-members or none)")]
    Federation(String),
    /// The value is unknown.
    #[error("invalid value {0:?} (use discovery or gateway)")]
    FederatedThrough(String),
    /// The value is unknown.
    #[error("invalid value {0:?} (use direct or gateway)")]
    ApiServerThrough(String),
    /// The value is unknown.
    #[error("invalid value {0:?} (use all or listed)")]
    Copy(String),
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

    /// Reads the annotation of a Link.
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

impl ApiServerThrough {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Direct, Self::Gateway];

    /// As in a Link's annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Gateway => "gateway",
        }
    }

    /// Reads a Link's annotation.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.as_str() == text.trim())
            .ok_or_else(|| PolicyError::ApiServerThrough(short(text)))
    }
}

impl Copied {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::All, Self::Listed];

    /// As in a Link's annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Listed => "listed",
        }
    }

    /// Reads a Link's annotation.
    pub(crate) fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.as_str() == text.trim())
            .ok_or_else(|| PolicyError::Copy(short(text)))
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
    pub(crate) fn parse(text: &str) -> Result<Self, PolicyError> {
        let mut all = Self::ALL.into_iter();
        all.find(|one| one.as_str() == text.trim())
            .ok_or_else(|| PolicyError::Federation(short(text)))
    }
}

/// Reads a label selector of namespaces, as people type it.
pub fn allowed_namespaces(text: &str) -> Result<Selector, PolicyError> {
    selector_text::parse(text)?.ok_or(PolicyError::Empty)
}
