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
    /// The value is none of these words.
    #[error("invalid value {0:?} (use {1})")]
    Value(String, String),
}

/// Gives the values of an enum their words in a Link's annotation.
macro_rules! words {
    ($name:ident: $($value:ident = $word:literal),+) => {
        impl $name {
            /// All of them.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$value),+];

            /// As in a Link's annotation.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $word,)+
                }
            }

            /// Reads a Link's annotation.
            pub(crate) fn parse(text: &str) -> Result<Self, PolicyError> {
                match text.trim() {
                    $($word => Ok(Self::$value),)+
                    _ => Err(unknown(text, &[$($word),+])),
                }
            }
        }
    };
}

words!(Federation: Any = "any", LocalMembers = "local-members", None = "none");
words!(FederatedThrough: Discovery = "discovery", Gateway = "gateway");
words!(Copied: All = "all", Listed = "listed");

fn unknown(text: &str, words: &[&str]) -> PolicyError {
    let (last, first) = words.split_last().unwrap_or((&"", &[]));
    PolicyError::Value(short(text), format!("{} or {last}", first.join(", ")))
}

impl FederatedThrough {
    /// Reads the annotation of a Link.
    pub fn of(link: &ObjectMeta) -> Result<Self, PolicyError> {
        let annotations = link.annotations.as_ref();
        let text = annotations.and_then(|annotations| annotations.get(l::FEDERATED_THROUGH));
        text.map_or_else(|| Ok(Self::default()), |text| Self::parse(text))
    }
}

/// Reads a label selector of namespaces, as people type it.
pub fn allowed_namespaces(text: &str) -> Result<Selector, PolicyError> {
    selector_text::parse(text)?.ok_or(PolicyError::Empty)
}
