//! The identity of an object among all of its kind in a cluster.

use std::fmt;

use kube_core::{Resource, ResourceExt as _};

/// Namespace and name of an object. Ordered by namespace, then by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceId {
    /// Its namespace; empty for a cluster-wide object.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl ResourceId {
    /// The ID of the object with this name in this namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The ID of an object.
    pub fn of(object: &impl Resource) -> Self {
        Self::new(object.namespace().unwrap_or_default(), object.name_any())
    }
}

/// In the usual notation: `namespace/name`.
impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Service;
    use kube_core::ObjectMeta;

    use super::*;

    #[test]
    fn ids_are_ordered_by_namespace_and_shown_as_namespace_slash_name() {
        let service = |namespace: Option<&str>, name: &str| Service {
            metadata: ObjectMeta {
                namespace: namespace.map(str::to_owned),
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            },
            ..Service::default()
        };
        let mut ids = [
            (Some("b"), "a"),
            (Some("a"), "b"),
            (Some("a"), "a"),
            (None, "c"),
        ]
        .map(|(namespace, name)| ResourceId::of(&service(namespace, name)));
        ids.sort();
        assert_eq!(ids[0], ResourceId::new("", "c"));
        assert_eq!(ids.map(|id| id.to_string()), ["/c", "a/a", "a/b", "b/a"]);
    }
}
