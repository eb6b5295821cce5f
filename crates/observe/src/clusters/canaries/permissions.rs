//! What `verify` needs to be permitted, and whether the user is.

use std::collections::BTreeMap;

use client::{Cluster, ReadError};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::authorization::v1::ResourceAttributes;

use crate::clusters::{access::may, snapshot::Known};

/// Access reviews that run concurrently.
const REVIEWS_AT_ONCE: usize = 8;

/// Which cluster of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifySide {
    /// The one that has the mirrors, and the client.
    Source,
    /// The one that has the Services, and the server.
    Target,
}

/// Verbs for a resource of an API group.
type NeededVerbs = (&'static str, &'static str, &'static [&'static str]);

/// With a namespace that the run makes.
const OWN_NAMESPACE: [NeededVerbs; 1] = [(
    "",
    "namespaces",
    &["get", "create", "delete", "list", "watch"],
)];
/// With a namespace that outlives the run.
const KEPT_NAMESPACE: [NeededVerbs; 2] = [("", "namespaces", &["get"]), ("", "pods", &["delete"])];
const BOTH: [NeededVerbs; 2] = [
    ("", "pods", &["get", "create", "list", "watch"]),
    ("", "services", &["list", "create", "delete"]),
];
const SOURCE: [NeededVerbs; 3] = [
    ("", "pods/proxy", &["get"]),
    ("", "services", &["watch"]),
    ("discovery.k8s.io", "endpointslices", &["list", "watch"]),
];

impl VerifySide {
    fn needs(self, is_kept: bool) -> impl Iterator<Item = NeededVerbs> {
        let namespace: &[NeededVerbs] = if is_kept {
            &KEPT_NAMESPACE
        } else {
            &OWN_NAMESPACE
        };
        let own: &[NeededVerbs] = match self {
            Self::Source => &SOURCE,
            Self::Target => &[],
        };
        namespace.iter().chain(&BOTH).chain(own).copied()
    }
}

/// What the user may not do in the namespace of canaries, such as `pods (get, create)`. `is_kept` says whether the
/// namespace outlives the run.
pub async fn denied(
    cluster: &Cluster,
    namespace: &str,
    side: VerifySide,
    is_kept: bool,
) -> Known<Vec<String>> {
    let needs = side.needs(is_kept).flat_map(|(group, resource, verbs)| {
        verbs.iter().map(move |verb| (group, resource, *verb))
    });
    let denied: Vec<Option<(&str, &str)>> = stream::iter(needs)
        .map(async |(group, resource, verb)| {
            let what = attributes(namespace, group, resource, verb);
            let is_permitted = may(&cluster.client, what).await?;
            Ok::<_, ReadError>((!is_permitted).then_some((resource, verb)))
        })
        .buffered(REVIEWS_AT_ONCE)
        .try_collect()
        .await?;
    let mut by_resource: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (resource, verb) in denied.into_iter().flatten() {
        by_resource.entry(resource).or_default().push(verb);
    }
    let lines = by_resource.into_iter();
    Ok(lines
        .map(|(resource, verbs)| format!("{resource} ({})", verbs.join(", ")))
        .collect())
}

fn attributes(namespace: &str, group: &str, resource: &str, verb: &str) -> ResourceAttributes {
    let (resource, subresource) = match resource.split_once('/') {
        Some((resource, subresource)) => (resource, Some(subresource)),
        None => (resource, None),
    };
    // A namespace is in no other one. Only its own name is needed, which `create` does not have.
    let is_namespace = resource == "namespaces";
    let own_name = is_namespace && !["create", "list", "watch"].contains(&verb);
    ResourceAttributes {
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: subresource.map(str::to_owned),
        verb: Some(verb.to_owned()),
        namespace: (!is_namespace).then(|| namespace.to_owned()),
        name: own_name.then(|| namespace.to_owned()),
        ..ResourceAttributes::default()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    /// The role of this kind in docs/ci.md: API groups, resources and verbs.
    fn granted(kind: &str) -> BTreeSet<[String; 3]> {
        let guide = include_str!("../../../../../docs/ci.md");
        let (_, section) = guide.split_once("\n### Permissions of verify\n").unwrap();
        let (_, block) = section.split_once("\n```yaml\n").unwrap();
        let (block, _) = block.split_once("\n```").unwrap();
        let objects = block.split("\n---\n");
        let mut objects = objects.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
        let role = objects.find(|object| object["kind"] == kind).unwrap();
        let mut granted = BTreeSet::new();
        for rule in role["rules"].as_array().unwrap() {
            let list = |field: &str| -> Vec<String> {
                serde_json::from_value(rule[field].clone()).unwrap()
            };
            for group in list("apiGroups") {
                for resource in list("resources") {
                    let verbs = list("verbs").into_iter();
                    granted.extend(verbs.map(|verb| [group.clone(), resource.clone(), verb]));
                }
            }
        }
        granted
    }

    #[test]
    fn role_of_the_guide_permits_what_verify_needs_in_its_namespace_and_only_reads_elsewhere() {
        let needs = [VerifySide::Source, VerifySide::Target].map(|side| side.needs(true));
        let needed = needs.into_iter().flatten();
        let needed = needed.flat_map(|(group, resource, verbs)| {
            let verbs = verbs.iter();
            verbs.map(move |verb| [group, resource, verb].map(str::to_owned))
        });
        let is_everywhere = |[_, resource, _]: &[String; 3]| resource == "namespaces";
        let (everywhere, own): (BTreeSet<_>, BTreeSet<_>) = needed.partition(is_everywhere);
        assert_eq!(granted("Role"), own);
        let rest = granted("ClusterRole");
        assert!(rest.is_superset(&everywhere), "{rest:?}");
        let reads = ["get", "list"];
        let mut verbs = rest.iter().map(|[_, _, verb]| verb.as_str());
        assert!(verbs.all(|verb| reads.contains(&verb)), "{rest:?}");
    }

    #[test]
    fn a_review_asks_for_the_namespace_of_canaries_only() {
        let asked = |resource: &str, verb: &str| {
            let attributes = attributes("verify", "", resource, verb);
            let text = |value: Option<String>| value.unwrap_or_default();
            [
                text(attributes.resource),
                text(attributes.subresource),
                text(attributes.namespace),
                text(attributes.name),
            ]
            .join(" ")
        };
        assert_eq!(asked("namespaces", "create"), "namespaces   ");
        assert_eq!(asked("namespaces", "delete"), "namespaces   verify");
        assert_eq!(asked("pods/proxy", "get"), "pods proxy verify ");
    }
}
