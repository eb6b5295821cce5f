//! Labels and annotations: which ones we add, and to whom an object belongs by them.

pub(crate) mod desired;

use std::{fmt, hash::Hasher as _};

use siphasher::sip::SipHasher13;

use super::metadata::desired::DesiredEntries;
use crate::api::{
    k8s::{EndpointSlice, Service},
    labels as l,
    members::{self, MEMBERS},
    metadata::Metadata,
    preference,
    route::Route,
};

/// Labels and annotations that an object should have.
#[derive(Clone, Debug, Default)]
pub(crate) struct DesiredMetadata<'a> {
    pub(crate) labels: DesiredEntries<'a>,
    pub(crate) annotations: DesiredEntries<'a>,
}

impl<'a> DesiredMetadata<'a> {
    /// The labels and annotations that an object has.
    pub(crate) fn of(metadata: &'a Metadata) -> Self {
        Self {
            labels: DesiredEntries::copy(&metadata.labels, |_| false),
            annotations: DesiredEntries::copy(&metadata.annotations, |_| false),
        }
    }

    /// Removes our signature again, for an object that is not ours yet.
    pub(crate) fn unsign(&mut self) {
        for key in l::SIGNATURE {
            self.annotations.remove(key);
        }
    }

    /// Metadata of an object with these labels and annotations.
    pub(crate) fn object_metadata(&self, namespace: &str, name: &str) -> Metadata {
        Metadata {
            name: Some(name.into()),
            namespace: Some(namespace.into()),
            labels: self.labels.to_map(),
            annotations: self.annotations.to_map(),
            ..Metadata::default()
        }
    }
}

/// What a local Service is, by its labels and annotations, never by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The mirror of a Service of this cluster.
    Mirror(&'a str),
    /// An endpoint mirror of this cluster, of this headless mirror.
    EndpointMirror(&'a str, &'a str),
    /// A federated Service.
    Federated,
    /// A Service that leads to the gateway of this cluster itself.
    Gateway(&'a str),
    /// Not created by a service mirror.
    Foreign,
}

/// Which installation of a service mirror an object belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Installation<'a> {
    /// To this one, which has written it and may delete it.
    Ours,
    /// To none that it names, such as an object of Linkerd's service mirror; or to the one
    /// that this installation takes over. The installation whose Links name its cluster adopts it.
    Unclaimed,
    /// To another one, whose Links are in this namespace.
    Theirs(&'a str),
}

/// The installation that an object names: the namespace of its Links.
pub(crate) fn installation(metadata: &Metadata) -> Option<&str> {
    metadata.annotations.get(l::INSTALLATION)
}

/// What a local object is, from its metadata.
pub fn owner(metadata: &Metadata) -> Owner<'_> {
    let label = |key: &str| metadata.labels.get(key);
    let cluster = label(l::CLUSTER_NAME).filter(|cluster| !cluster.is_empty());
    if label(l::MIRRORED_GATEWAY) == Some("true") {
        return cluster.map_or(Owner::Foreign, Owner::Gateway);
    }
    if label(l::MIRRORED_SERVICE) != Some("true") {
        return Owner::Foreign;
    }
    match (cluster, label(l::HEADLESS_MIRROR)) {
        (Some(cluster), Some(headless)) => Owner::EndpointMirror(cluster, headless),
        (Some(cluster), None) => Owner::Mirror(cluster),
        (None, _) if is_federated(metadata) => Owner::Federated,
        (None, _) => Owner::Foreign,
    }
}

/// Whether a Service is federated. Linkerd: a Service with either annotation is, whatever its value. The same holds for
/// our annotations.
pub(crate) fn is_federated(metadata: &Metadata) -> bool {
    let mut keys = MEMBERS.iter().flatten();
    keys.any(|key| metadata.annotations.contains_key(key))
}

/// The remote members that a federated Service names in its annotations: Services and clusters.
pub(crate) fn remote_members(metadata: &Metadata) -> impl Iterator<Item = (&str, &str)> {
    members::remote_members(|key| metadata.annotations.get(key))
}

/// The clusters of these members; a cluster may be returned twice.
pub(crate) fn member_clusters(metadata: &Metadata) -> impl Iterator<Item = &str> {
    remote_members(metadata).map(|(_, cluster)| cluster)
}

/// The linked clusters that a federated Service prefers.
pub(crate) fn preferred_clusters(metadata: &Metadata) -> impl Iterator<Item = &str> {
    let text = metadata.annotations.get(l::PREFER).unwrap_or_default();
    preference::linked_clusters(text)
}

/// Whether this controller has written the object before.
pub fn is_managed(metadata: &Metadata) -> bool {
    metadata.annotations.get(l::MANAGED_BY) == Some(l::MANAGER)
}

/// Whether a slice is ours to write, by its label, or by its annotation if somebody removed the label.
pub(crate) fn is_our_slice(slice: &EndpointSlice) -> bool {
    slice.metadata.labels.get(l::SLICE_MANAGED_BY) == Some(l::MANAGER)
        || slice.metadata.annotations.get(l::MANAGED_BY) == Some(l::MANAGER)
}

/// Whether a route is ours to write, by its annotation, or by its label if somebody removed the annotation.
pub fn is_our_route(route: &Route) -> bool {
    let metadata = &route.metadata;
    let is_marked =
        is_managed(metadata) || metadata.labels.get(l::MIRRORED_SERVICE) == Some("true");
    route.kind.is_written() && is_marked
}

/// Whether a Service was itself created by a service mirror. Such a Service is never exported again: otherwise two
/// clusters that are linked both ways would mirror each other's mirrors forever.
pub(crate) fn is_mirror(service: &Service) -> bool {
    service.metadata.labels.contains_key(l::MIRRORED_SERVICE) || is_managed(&service.metadata)
}

/// `<service>.<namespace>.svc.<domain>`.
pub(crate) fn fq_name(service: &str, namespace: &str, domain: &str) -> String {
    format!("{service}.{namespace}.svc.{domain}")
}

/// Marks desired metadata as ours: who manages it, for which installation, and the hash of the desired state.
///
/// `rest` feeds the desired content besides labels and annotations into the hash. The remote resource version is not
/// part of the hash: a new version alone is no reason to write.
pub(crate) fn sign<'a>(
    metadata: &mut DesiredMetadata<'a>,
    installation: &'a str,
    rest: impl FnOnce(&mut dyn FnMut(&[u8])),
) {
    let DesiredMetadata {
        labels,
        annotations,
    } = metadata;
    annotations.insert(l::MANAGED_BY, l::MANAGER.into());
    annotations.insert(l::INSTALLATION, installation.into());
    let mut content = ContentHash::default();
    for (key, value) in labels.iter().chain(annotations.iter()) {
        content.feed(key.as_bytes());
        content.feed(value.as_bytes());
    }
    rest(&mut |bytes| content.feed(bytes));
    annotations.insert(l::DESIRED_STATE, content.to_string().into());
}

/// A hash of several texts, which is the same in every process. Displayed as 16 hexadecimal digits.
pub(crate) struct ContentHash(Vec<u8>);

impl Default for ContentHash {
    fn default() -> Self {
        // The content is hashed at once: most texts are shorter than a block of the hash.
        Self(Vec::with_capacity(1024))
    }
}

impl ContentHash {
    /// The hash of one text.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    /// Adds a text.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        self.0.push(0xff); // a separator: no UTF-8 text has this byte
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut hasher = SipHasher13::new();
        hasher.write(&self.0);
        write!(f, "{:016x}", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::{map::Map, route::RouteKind},
        mirror::fixtures::slice,
    };

    fn map(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().copied().collect()
    }

    #[test]
    fn labels_and_annotations_decide_what_a_service_is() {
        let metadata = |labels: &[(&str, &str)], annotations: &[(&str, &str)]| Metadata {
            labels: map(labels),
            annotations: map(annotations),
            ..Default::default()
        };
        let mirrored = (l::MIRRORED_SERVICE, "true");
        let cases = [
            (
                metadata(&[mirrored, (l::CLUSTER_NAME, "c")], &[]),
                Owner::Mirror("c"),
            ),
            (
                metadata(
                    &[
                        mirrored,
                        (l::CLUSTER_NAME, "c"),
                        (l::HEADLESS_MIRROR, "db-c"),
                    ],
                    &[],
                ),
                Owner::EndpointMirror("c", "db-c"),
            ),
            (
                metadata(&[mirrored], &[(l::REMOTE_DISCOVERY, "")]),
                Owner::Federated,
            ),
            (
                metadata(&[mirrored], &[(l::LOCAL_DISCOVERY, "a")]),
                Owner::Federated,
            ),
            (metadata(&[mirrored], &[]), Owner::Foreign),
            (metadata(&[(l::CLUSTER_NAME, "c")], &[]), Owner::Foreign),
            (
                metadata(&[], &[(l::REMOTE_DISCOVERY, "a@b")]),
                Owner::Foreign,
            ),
            (
                metadata(
                    &[(l::MIRRORED_GATEWAY, "true"), (l::CLUSTER_NAME, "c")],
                    &[],
                ),
                Owner::Gateway("c"),
            ),
        ];
        for (metadata, expected) in cases {
            assert_eq!(owner(&metadata), expected, "{metadata:?}");
        }
    }

    #[test]
    fn the_hash_depends_on_where_each_text_ends() {
        let sign = |labels: &[(&str, &str)], rest: &[&str]| {
            let labels = map(labels);
            let mut metadata = DesiredMetadata {
                labels: DesiredEntries::copy(&labels, |_| false),
                ..DesiredMetadata::default()
            };
            super::sign(&mut metadata, "mc", |feed| {
                for text in rest {
                    feed(text.as_bytes());
                }
            });
            metadata.annotations[l::DESIRED_STATE].to_string()
        };
        assert_eq!(sign(&[("a", "b")], &["x"]), sign(&[("a", "b")], &["x"]));
        assert_ne!(sign(&[("a", "b")], &[]), sign(&[("ab", "")], &[]));
        assert_ne!(sign(&[], &["ab", "c"]), sign(&[], &["a", "bc"]));
    }

    #[test]
    fn a_slice_is_ours_by_its_label_or_by_its_annotation() {
        for (label, annotation, expected) in [
            (Some(l::MANAGER), Some(l::MANAGER), true),
            (Some(l::MANAGER), None, true),
            (None, Some(l::MANAGER), true),
            (Some("somebody-else"), None, false),
            (None, Some("somebody-else"), false),
            (None, None, false),
        ] {
            let mut made = slice("web-east", "x");
            if let Some(label) = label {
                made.metadata.labels.insert(l::SLICE_MANAGED_BY, label);
            }
            if let Some(annotation) = annotation {
                made.metadata.annotations.insert(l::MANAGED_BY, annotation);
            }
            assert_eq!(is_our_slice(&made), expected, "{label:?}, {annotation:?}");
        }
    }

    #[test]
    fn different_texts_have_different_hashes() {
        let hash = |text: &str| ContentHash::of(text.as_bytes()).to_string();
        assert_eq!(hash("web-x2x4z"), hash("web-x2x4z"));
        assert_ne!(hash("web-x2x4z"), hash("web-k8s7p"));
    }

    #[test]
    fn a_route_is_ours_by_its_annotation_or_by_its_label_if_we_write_its_kind() {
        let (label, annotation) = ((l::MIRRORED_SERVICE, "true"), (l::MANAGED_BY, l::MANAGER));
        for (what, labels, annotations, is_marked) in [
            ("both", &[label][..], &[annotation][..], true),
            ("no annotation", &[label], &[], true),
            ("no label", &[], &[annotation], true),
            ("neither", &[], &[], false),
            (
                "of others",
                &[(l::MIRRORED_SERVICE, "no")],
                &[(l::MANAGED_BY, "somebody-else")],
                false,
            ),
        ] {
            for (kind, is_written) in [
                (RouteKind::Http, true),
                (RouteKind::Tcp, true),
                (RouteKind::Grpc, false),
                (RouteKind::Policy, false),
                (RouteKind::Tls, false),
                (RouteKind::Profile, false),
            ] {
                let metadata = Metadata {
                    labels: map(labels),
                    annotations: map(annotations),
                    ..Metadata::default()
                };
                let route = Route {
                    metadata,
                    kind,
                    ..Route::default()
                };
                let expected = is_marked && is_written;
                assert_eq!(is_our_route(&route), expected, "{what}, {kind:?}");
            }
        }
    }
}
