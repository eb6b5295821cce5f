//! Labels and annotations: what is copied from a remote Service, what we add, and whose an object is.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;

use super::wanted::Wanted;
use crate::api::{k8s::Service, labels as l, map::Map, metadata::Metadata};

/// Labels and annotations that an object should have.
#[derive(Clone, Debug, Default)]
pub(super) struct Dress<'a> {
    pub(super) labels: Wanted<'a>,
    pub(super) annotations: Wanted<'a>,
}

impl<'a> Dress<'a> {
    /// What an object has.
    pub(super) fn of(metadata: &'a Metadata) -> Self {
        Self {
            labels: Wanted::copy(&metadata.labels, |_| false),
            annotations: Wanted::copy(&metadata.annotations, |_| false),
        }
    }

    /// Takes the mark off again: of an object that is not ours yet.
    pub(super) fn unsign(&mut self) {
        for key in [l::MANAGED_BY, l::INSTALLATION, l::DESIRED_STATE] {
            self.annotations.remove(key);
        }
    }

    /// Metadata of an object that wears this.
    pub(super) fn metadata(&self, namespace: &str, name: &str) -> Metadata {
        Metadata {
            name: Some(name.into()),
            namespace: Some(namespace.into()),
            labels: self.labels.to_map(),
            annotations: self.annotations.to_map(),
            ..Metadata::default()
        }
    }
}

/// Labels and annotations of remote Services that are not copied to their mirrors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exclusions {
    labels: Vec<Rule>,
    annotations: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Key(String),
    /// Ends in `/`, so that `foo.io/*` does not exclude `foo.iox/bar`.
    Prefix(String),
}

impl Rule {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        match text.strip_suffix('*') {
            Some(prefix) if prefix.ends_with('/') => Some(Self::Prefix(prefix.to_owned())),
            _ => (!text.is_empty()).then(|| Self::Key(text.to_owned())),
        }
    }

    fn matches(&self, key: &str) -> bool {
        match self {
            Self::Key(own) => own == key,
            Self::Prefix(prefix) => key.starts_with(prefix.as_str()),
        }
    }
}

impl Exclusions {
    /// Parses rules: a key, or a prefix that ends in `/*`. Blank ones are dropped.
    pub fn new<S: AsRef<str>>(labels: &[S], annotations: &[S]) -> Self {
        let parse = |rules: &[S]| {
            rules
                .iter()
                .filter_map(|rule| Rule::parse(rule.as_ref()))
                .collect()
        };
        Self {
            labels: parse(labels),
            annotations: parse(annotations),
        }
    }

    /// The labels that a mirror gets from its remote Service.
    pub(super) fn labels<'a>(&self, remote: &'a Map) -> Wanted<'a> {
        let ours = |key: &str| {
            [
                l::MIRROR_PREFIX,
                l::MULTICLUSTER_PREFIX,
                "argocd.argoproj.io/",
            ]
            .iter()
            .any(|prefix| key.starts_with(prefix))
        };
        Wanted::copy(remote, |key| {
            ours(key) || self.labels.iter().any(|rule| rule.matches(key))
        })
    }

    /// The annotations that a mirror gets from its remote Service.
    pub(super) fn annotations<'a>(&self, remote: &'a Map) -> Wanted<'a> {
        Wanted::copy(remote, |key| {
            l::NEVER_COPIED_ANNOTATIONS.contains(&key)
                || l::NEVER_COPIED_ANNOTATION_PREFIXES
                    .iter()
                    .any(|p| key.starts_with(p))
                || (key != l::OPAQUE_PORTS && self.annotations.iter().any(|rule| rule.matches(key)))
        })
    }
}

/// Whose a local Service is. Decided by labels and annotations, never by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner<'a> {
    /// The mirror of a Service of this cluster.
    Mirror(&'a str),
    /// An endpoint mirror of this cluster, of this headless mirror.
    EndpointMirror(&'a str, &'a str),
    /// A federated Service.
    Federated,
    /// The probe Service for this cluster.
    Probe(&'a str),
    /// Somebody else's.
    Foreign,
}

/// Which installation of a service mirror an object belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belonging<'a> {
    /// To this one, which has written it and may collect it.
    Ours,
    /// It does not say, as of those that Linkerd's service mirror or an earlier version has made; or to the one that
    /// this one takes over. The one whose Links name its cluster adopts it.
    Unclaimed,
    /// To the one whose Links are in this namespace.
    Theirs(&'a str),
}

/// The installation that an object names: the namespace of its Links.
pub(super) fn installation(metadata: &Metadata) -> Option<&str> {
    metadata.annotations.get(l::INSTALLATION)
}

/// Says whose a local object is, from its metadata.
pub fn owner(metadata: &Metadata) -> Owner<'_> {
    let label = |key: &str| metadata.labels.get(key);
    let cluster = label(l::CLUSTER_NAME).filter(|cluster| !cluster.is_empty());
    if label(l::MIRRORED_GATEWAY) == Some("true") {
        return cluster.map_or(Owner::Foreign, Owner::Probe);
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

/// Linkerd: a Service with either annotation is federated, whatever its value.
pub(super) fn is_federated(metadata: &Metadata) -> bool {
    [l::REMOTE_DISCOVERY, l::LOCAL_DISCOVERY]
        .iter()
        .any(|key| metadata.annotations.contains_key(key))
}

/// The remote members that a federated Service names in its annotation [`l::REMOTE_DISCOVERY`]: Services and clusters.
pub(super) fn remote_members(metadata: &Metadata) -> impl Iterator<Item = (&str, &str)> {
    let list = metadata.annotations.get(l::REMOTE_DISCOVERY);
    list.into_iter()
        .flat_map(|list| list.split(','))
        .filter_map(|token| token.trim().split_once('@'))
        .filter(|(_, cluster)| !cluster.is_empty())
}

/// The clusters of these members; one may come twice.
pub(super) fn member_clusters(metadata: &Metadata) -> impl Iterator<Item = &str> {
    remote_members(metadata).map(|(_, cluster)| cluster)
}

/// Whether this controller has written the object before.
pub(super) fn is_managed(metadata: &Metadata) -> bool {
    metadata.annotations.get(l::MANAGED_BY) == Some(l::MANAGER)
}

/// Whether a Service was itself made by a service mirror. Such a Service is never exported again:
/// two clusters linked both ways would mirror each other's mirrors for ever.
pub(super) fn is_mirror(service: &Service) -> bool {
    service.metadata.labels.contains_key(l::MIRRORED_SERVICE) || is_managed(&service.metadata)
}

/// `<service>.<namespace>.svc.<domain>`.
pub(super) fn fq_name(service: &str, namespace: &str, domain: &str) -> String {
    format!("{service}.{namespace}.svc.{domain}")
}

/// Marks desired metadata as ours: who manages it, for which installation, and the hash of all that is desired.
///
/// `rest` feeds the desired content besides labels and annotations into the hash. The remote resource
/// version is not part of it: that it moved is no reason to write.
pub(super) fn sign<'a>(
    dress: &mut Dress<'a>,
    installation: &'a str,
    rest: impl FnOnce(&mut dyn FnMut(&[u8])),
) {
    let Dress {
        labels,
        annotations,
    } = dress;
    annotations.insert(l::MANAGED_BY, l::MANAGER.into());
    annotations.insert(l::INSTALLATION, installation.into());
    // Hashed in one go: most texts are shorter than what the hash takes at once.
    let mut content = Vec::with_capacity(1024);
    let mut feed = |bytes: &[u8]| {
        content.extend_from_slice(bytes);
        content.push(0xff); // no UTF-8 text holds this byte, so no two texts run together
    };
    for (key, value) in labels.iter().chain(annotations.iter()) {
        feed(key.as_bytes());
        feed(value.as_bytes());
    }
    rest(&mut feed);
    let mut hasher = SipHasher13::new();
    hasher.write(&content);
    annotations.insert(l::DESIRED_STATE, format!("{:016x}", hasher.finish()).into());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> Map {
        pairs.iter().copied().collect()
    }

    #[test]
    fn exclusions_drop_exactly_what_they_name() {
        let cases: [(&[&str], &str, bool); 8] = [
            (&["foo.io/*"], "foo.io/a", true),
            (&["foo.io/*"], "foo.iox/a", false),
            (&["foo.io/*"], "foo.io", false),
            (&["foo.io/a"], "foo.io/a", true),
            (&["foo.io/a"], "foo.io/ab", false),
            (&[" foo.io/a "], "foo.io/a", true),
            (&["", "*"], "a", false),
            (&[], "a", false),
        ];
        for (rules, key, dropped) in cases {
            let exclusions = Exclusions::new(rules, rules);
            let from = map(&[(key, "v")]);
            assert_eq!(
                exclusions.labels(&from).to_map().is_empty(),
                dropped,
                "label {key}: {rules:?}"
            );
            assert_eq!(
                exclusions.annotations(&from).to_map().is_empty(),
                dropped,
                "{key}: {rules:?}"
            );
        }
    }

    #[test]
    fn what_belongs_to_other_tools_is_never_copied() {
        let none = Exclusions::default();
        let annotations = map(&[
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            ("argocd.argoproj.io/tracking-id", "x"),
            ("multicluster.linkerd.io/remote-discovery", "a@b"),
            ("mirror.linkerd.io/remote-gateway-identity", "x"),
            ("service.kubernetes.io/topology-mode", "auto"),
            ("config.linkerd.io/opaque-ports", "1"),
            ("mine", "1"),
        ]);
        let kept = none.annotations(&annotations);
        assert_eq!(
            kept.to_map(),
            map(&[("config.linkerd.io/opaque-ports", "1"), ("mine", "1")])
        );
        let labels = map(&[
            ("mirror.linkerd.io/exported", "true"),
            ("multicluster.linkerd.io/remote-discovery", "b"),
            ("mirror.linkerd.iox/mine", "1"),
        ]);
        assert_eq!(
            none.labels(&labels).to_map(),
            map(&[("mirror.linkerd.iox/mine", "1")])
        );
    }

    #[test]
    fn opaque_ports_survive_an_exclusion() {
        let exclusions = Exclusions::new(&[], &["config.linkerd.io/*"]);
        let from = map(&[(l::OPAQUE_PORTS, "1"), ("config.linkerd.io/other", "1")]);
        assert_eq!(
            exclusions.annotations(&from).to_map(),
            map(&[(l::OPAQUE_PORTS, "1")])
        );
    }

    #[test]
    fn labels_say_whose_a_service_is() {
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
                Owner::Probe("c"),
            ),
        ];
        for (metadata, expected) in cases {
            assert_eq!(owner(&metadata), expected, "{metadata:?}");
        }
    }

    #[test]
    fn the_hash_tells_content_apart_and_not_its_bounds() {
        let sign = |labels: &[(&str, &str)], rest: &[&str]| {
            let labels = map(labels);
            let mut dress = Dress {
                labels: Wanted::copy(&labels, |_| false),
                ..Dress::default()
            };
            super::sign(&mut dress, "mc", |feed| {
                for text in rest {
                    feed(text.as_bytes());
                }
            });
            dress.annotations[l::DESIRED_STATE].to_string()
        };
        assert_eq!(sign(&[("a", "b")], &["x"]), sign(&[("a", "b")], &["x"]));
        assert_ne!(sign(&[("a", "b")], &[]), sign(&[("ab", "")], &[]));
        assert_ne!(sign(&[], &["ab", "c"]), sign(&[], &["a", "bc"]));
    }
}
