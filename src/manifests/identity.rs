//! Objects by name only: enough for `kubectl delete -f -`.

use serde::Serialize;
use serde_json::Value;

use super::render::Manifest;

/// The kind, name and namespace of an object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    /// `group/version`, or `version` alone.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Namespace; none for an object of the cluster.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    api_version: &'a str,
    kind: &'a str,
    metadata: Metadata<'a>,
}

#[derive(Serialize)]
struct Metadata<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<&'a str>,
}

impl Identity {
    /// The identity of an object; `None` if it has no kind or name.
    pub(crate) fn of(object: &Value) -> Option<Self> {
        let text = |pointer| object.pointer(pointer)?.as_str().map(str::to_owned);
        Some(Self {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }
}

/// These objects as a manifest, in their order.
pub(crate) fn manifest(identities: impl IntoIterator<Item = Identity>) -> anyhow::Result<Manifest> {
    let objects: Result<Vec<Value>, _> = identities
        .into_iter()
        .map(|identity| {
            serde_json::to_value(Object {
                api_version: &identity.api_version,
                kind: &identity.kind,
                metadata: Metadata {
                    name: &identity.name,
                    namespace: identity.namespace.as_deref(),
                },
            })
        })
        .collect();
    Manifest::from_objects(objects?)
}
