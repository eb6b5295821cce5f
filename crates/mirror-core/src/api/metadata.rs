//! Metadata of objects in stores: only the fields that are read or written. And the identity of an object among all of its
//! kind in a cluster.

use std::fmt;

use kube_core::{Resource, ResourceExt as _};
use serde::{Deserialize, Deserializer, Serialize};

use super::{
    interned_str::InternedStr, labels as l, map::Map, names::MAX_SUBDOMAIN, null_is_default,
};

/// The UID of the cluster that a Link, its credentials or an account are for, if it was recorded ([`l::CLUSTER_UID`]).
pub fn cluster_uid(of: &impl Resource) -> Option<&str> {
    let annotations = of.meta().annotations.as_ref()?;
    annotations.get(l::CLUSTER_UID).map(String::as_str)
}

/// Metadata of an object in a store. `ObjectMeta` of `k8s_openapi` takes 400 bytes when empty, and has a copy of the
/// whole object in `managedFields`.
///
/// All fields are optional, as in Kubernetes: an object that is not created yet has no UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Box<str>>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Box<str>>,
    /// UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<Box<str>>,
    /// The `resourceVersion` of this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<Box<str>>,
    /// Labels.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "Map::is_empty"
    )]
    pub labels: Map,
    /// Annotations, without [`NEVER_KEPT`].
    #[serde(
        default,
        deserialize_with = "worth_keeping",
        skip_serializing_if = "Map::is_empty"
    )]
    pub annotations: Map,
    /// Whether some annotations are not known, because they are too large ([`Self::truncate`]).
    #[serde(skip)]
    pub is_truncated: bool,
    /// Owners of this object.
    #[serde(
        default,
        deserialize_with = "null_is_default",
        skip_serializing_if = "<[_]>::is_empty"
    )]
    pub owner_references: Box<[OwnerReference]>,
}

/// An object that another one belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    /// API group and version.
    #[serde(default)]
    pub api_version: InternedStr,
    /// Kind.
    #[serde(default)]
    pub kind: InternedStr,
    /// Name.
    #[serde(default)]
    pub name: Box<str>,
    /// UID.
    #[serde(default)]
    pub uid: Box<str>,
    /// Whether it is the controller of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether its deletion waits until this object is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// A reference to a Service. Its UID is empty if the Service does not exist yet.
    pub fn to_service(name: &str, uid: &str) -> Self {
        Self {
            api_version: "v1".into(),
            kind: "Service".into(),
            name: name.into(),
            uid: uid.into(),
            ..Self::default()
        }
    }

    fn weight(&self) -> usize {
        let words = self.api_version.weight() + self.kind.weight();
        size_of::<Self>() + words + self.name.len() + self.uid.len()
    }
}

/// Annotations that are dropped: no code reads them, and one is as large as the whole object.
pub const NEVER_KEPT: [&str; 2] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    "endpoints.kubernetes.io/last-change-trigger-time",
];

fn worth_keeping<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map, D::Error> {
    let mut annotations: Map = null_is_default(deserializer)?;
    for key in NEVER_KEPT {
        if annotations.contains_key(key) {
            annotations.remove(key);
        }
    }
    Ok(annotations)
}

/// Maximum length of a UID. Those of Kubernetes have 36 bytes.
const MAX_UID: usize = 128;

/// Maximum size of the labels and annotations of an object in the local cluster. Those of a federated Service with
/// members in a thousand clusters have half of it.
const LARGEST: usize = 64 << 10;

/// Bytes of optional texts.
pub(super) fn text_weight<const N: usize>(texts: [&Option<Box<str>>; N]) -> usize {
    texts.into_iter().flatten().map(|text| text.len()).sum()
}

impl Metadata {
    /// Drops the annotations that nobody reads, if all annotations together have more than `max` bytes. What nobody wrote
    /// for this controller is dropped too: labels and annotations that are still larger than those of any object of ours.
    /// Returns whether something was dropped.
    pub fn truncate(&mut self, max: usize) -> bool {
        self.is_truncated = self.annotations.size() > max;
        if self.is_truncated {
            let read = self.annotations.iter();
            let read = read.filter(|(key, _)| l::READ.contains(key)).collect();
            self.annotations = read;
        }
        if self.labels.size() + self.annotations.size() > LARGEST {
            self.is_truncated = true;
            (self.labels, self.annotations) = (Map::default(), Map::default());
        }
        self.is_truncated
    }

    /// Whether name, namespace and UID are no longer than those of objects in Kubernetes. A hostile API server may send
    /// longer ones.
    pub fn has_possible_ids(&self) -> bool {
        let uid = self.uid.as_deref().unwrap_or_default();
        let names = [self.name(), self.namespace()];
        names.iter().all(|name| name.len() <= MAX_SUBDOMAIN) && uid.len() <= MAX_UID
    }

    /// Heap memory in bytes.
    pub fn weight(&self) -> usize {
        let texts = text_weight([
            &self.name,
            &self.namespace,
            &self.uid,
            &self.resource_version,
        ]);
        let owners = self.owner_references.iter().map(OwnerReference::weight);
        texts + owners.sum::<usize>() + self.labels.weight() + self.annotations.weight()
    }

    /// The name; empty if there is none.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }

    /// The namespace; empty if there is none.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }

    /// Namespace and name.
    pub fn resource_id(&self) -> ResourceId {
        ResourceId::new(self.namespace(), self.name())
    }

    /// [`Self::resource_id`] as a pair, for the core.
    pub fn id(&self) -> (String, String) {
        (self.namespace().to_owned(), self.name().to_owned())
    }

    /// A label; empty if there is none.
    pub fn label(&self, key: &str) -> &str {
        self.labels.get(key).unwrap_or_default()
    }

    /// An annotation; empty if there is none.
    pub fn annotation(&self, key: &str) -> &str {
        self.annotations.get(key).unwrap_or_default()
    }

    /// The resource version as a number; 0 if there is none.
    ///
    /// Kubernetes: resource versions of one object can be compared as numbers (KEP-5504).
    pub fn version(&self) -> u64 {
        let version = self.resource_version.as_deref();
        version.and_then(|v| v.parse().ok()).unwrap_or(0)
    }
}

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
    use serde_json::json;

    use super::*;

    #[test]
    fn only_metadata_that_is_read_or_written_is_kept() {
        let kept = json!({
            "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7",
            "labels": { "a": "1" }, "annotations": { "other": "x" },
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "Service", "name": "b", "uid": "v",
                "controller": true, "blockOwnerDeletion": false,
            }],
        });
        let mut sent = kept.clone();
        sent["managedFields"] = json!([{ "manager": "kubectl", "operation": "Update" }]);
        sent["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
        for key in NEVER_KEPT {
            sent["annotations"][key] = json!("{}");
        }
        let metadata: Metadata = serde_json::from_value(sent).unwrap();
        assert_eq!(json!(metadata), kept);
        assert_eq!(metadata.version(), 7);
    }

    #[test]
    fn annotations_that_nobody_reads_are_dropped_if_they_are_too_large() {
        let made = |text: &str| Metadata {
            annotations: Map::from([("theirs", text), (l::MANAGED_BY, l::MANAGER)]),
            ..Metadata::default()
        };
        let max = made("1234").annotations.size();
        let (mut fits, mut heavy) = (made("1234"), made("12345"));
        assert!(!fits.truncate(max) && fits == made("1234"));
        assert!(heavy.truncate(max) && heavy.is_truncated);
        assert_eq!(heavy.annotations, Map::from([(l::MANAGED_BY, l::MANAGER)]));
        // The mark is removed once the annotations have become small enough.
        assert!(!fits.is_truncated);
        for (key, of_labels) in [(l::PREFER, false), ("a", true)] {
            let mut huge = made("1");
            let map = if of_labels {
                &mut huge.labels
            } else {
                &mut huge.annotations
            };
            map.insert(key, "x".repeat(LARGEST));
            assert!(huge.truncate(usize::MAX), "{key}");
            assert_eq!((huge.labels.size(), huge.annotations.size()), (0, 0));
        }
    }

    #[test]
    fn ids_that_are_longer_than_those_of_kubernetes_are_impossible() {
        let is_possible = |namespace: usize, name: usize, uid: usize| {
            let text = |length: usize| Some("x".repeat(length).into());
            let metadata = Metadata {
                namespace: text(namespace),
                name: text(name),
                uid: text(uid),
                ..Metadata::default()
            };
            metadata.has_possible_ids()
        };
        assert!(is_possible(253, 253, 128) && Metadata::default().has_possible_ids());
        let longer = [(254, 1, 1), (1, 254, 1), (1, 1, 129)];
        for (namespace, name, uid) in longer {
            assert!(!is_possible(namespace, name, uid));
        }
    }

    #[test]
    fn null_and_absent_mean_the_same() {
        let null = json!({
            "name": null, "labels": null, "annotations": null, "ownerReferences": null,
        });
        for sent in [null, json!({}), json!({ "labels": {}, "annotations": {} })] {
            let metadata: Metadata = serde_json::from_value(sent).unwrap();
            assert_eq!(metadata, Metadata::default());
            assert_eq!(json!(metadata), json!({}));
            assert_eq!((metadata.name(), metadata.version()), ("", 0));
        }
    }

    #[test]
    fn ids_are_ordered_by_namespace_and_shown_as_namespace_slash_name() {
        use k8s_openapi::api::core::v1::Service;
        use kube_core::ObjectMeta;

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
