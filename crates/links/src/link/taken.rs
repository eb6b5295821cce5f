//! Checks that the name of a link is free: one name never stands for two clusters. Pure.

use kube::ResourceExt as _;
use mirror_core::api::link::Link;

use crate::link_credentials::Evidence;

/// What is said if nothing that may be read tells which cluster a Link leads to.
pub const UNKNOWN: &str = "may lead to another cluster, and you may not read its credentials";

/// Why a Link with these credentials must not be changed: it leads, or may lead, to another cluster. `None` if it may.
pub fn objection(evidence: &[Evidence]) -> Option<&'static str> {
    if evidence.contains(&Evidence::Elsewhere) {
        return Some("leads to another cluster");
    }
    let is_unknown =
        evidence.contains(&Evidence::Unreadable) && !evidence.contains(&Evidence::Same);
    is_unknown.then_some(UNKNOWN)
}

/// The Links that a link of this name concerns.
#[derive(Debug, PartialEq)]
pub enum NameHolder<'l> {
    /// There is none yet.
    Nobody,
    /// The Link that will be changed. It is for the same name.
    Same(&'l Link),
    /// The Link that will be changed is for a cluster of another name.
    Renamed(&'l Link),
    /// Only Links of other names are for the cluster. A new one would be a duplicate.
    Duplicate(&'l Link),
}

/// Finds the Link that has the name of a cluster.
pub fn holder<'l>(links: &'l [Link], cluster: &str) -> NameHolder<'l> {
    let target = |link: &Link| link.spec.target_cluster_name.clone();
    if let Some(own) = links.iter().find(|link| link.name_any() == cluster) {
        // A Link that cannot be decoded may name none.
        return if [cluster, ""].contains(&target(own).as_str()) {
            NameHolder::Same(own)
        } else {
            NameHolder::Renamed(own)
        };
    }
    match links.iter().find(|link| target(link) == cluster) {
        Some(other) => NameHolder::Duplicate(other),
        None => NameHolder::Nobody,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_link_is_changed_only_if_it_is_known_to_lead_to_the_same_cluster() {
        use Evidence::{Elsewhere, Same, Unreadable};
        let another = Some("leads to another cluster");
        let unknown = Some(UNKNOWN);
        for (evidence, expected) in [
            (&[][..], None),
            (&[Same], None),
            (&[Unreadable, Same], None),
            (&[Same, Elsewhere], another),
            (&[Unreadable, Elsewhere], another),
            (&[Unreadable], unknown),
        ] {
            assert_eq!(objection(evidence), expected, "{evidence:?}");
        }
    }

    #[test]
    fn a_name_is_held_by_the_link_that_has_it_and_by_links_for_that_cluster() {
        let link = |name: &str, cluster: &str| -> Link {
            serde_json::from_value(json!({
                "apiVersion": "multicluster.linkerd.io/v1alpha3",
                "kind": "Link",
                "metadata": { "name": name },
                "spec": { "targetClusterName": cluster },
            }))
            .unwrap()
        };
        let (east, other) = (link("east", "east"), link("other", "east"));
        let (renamed, broken) = (link("east", "north"), link("east", ""));
        let links = [other.clone(), link("north", "north")];
        assert_eq!(holder(&links, "west"), NameHolder::Nobody);
        assert_eq!(holder(&links, "east"), NameHolder::Duplicate(&other));
        let links = [other.clone(), east.clone()];
        assert_eq!(holder(&links, "east"), NameHolder::Same(&east));
        let links = [renamed.clone()];
        assert_eq!(holder(&links, "east"), NameHolder::Renamed(&renamed));
        let links = [broken.clone()];
        assert_eq!(holder(&links, "east"), NameHolder::Same(&broken));
    }
}
