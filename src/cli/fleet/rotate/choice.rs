//! Which links of the file are meant. Pure.

use std::collections::BTreeSet;

use crate::{
    cli::fleet::loaded::LoadedFleet,
    fleet::{FleetCluster, LinkEnds},
    hint::fail,
    manifests::link::ClusterName,
};

/// What can be done for a link, with the clusters that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkPart {
    Whole,
    /// The source cluster takes a token that was handed over.
    Source,
    /// The target cluster makes tokens, and revokes them.
    Target,
}

impl LinkPart {
    /// The part that can be done with only these clusters, or with all if none are named. `None` if there is none.
    pub(super) fn of(ends: &LinkEnds, only: &BTreeSet<ClusterName>) -> Option<Self> {
        let is_used = |name: &ClusterName| only.is_empty() || only.contains(name);
        match (is_used(&ends.source), is_used(&ends.target)) {
            (true, true) => Some(Self::Whole),
            (true, false) => Some(Self::Source),
            (false, true) => Some(Self::Target),
            (false, false) => None,
        }
    }
}

/// The clusters with these names or contexts.
pub(super) fn named(
    loaded: &LoadedFleet,
    only: &[String],
) -> anyhow::Result<BTreeSet<ClusterName>> {
    let clusters = &loaded.fleet.clusters;
    let named = only.iter().map(|word| {
        let is_meant = |cluster: &&FleetCluster| {
            cluster.name.to_string() == *word || cluster.context.as_ref() == Some(word)
        };
        let found = clusters.iter().find(is_meant);
        found.map(|cluster| cluster.name.clone()).ok_or_else(|| {
            let known = clusters.iter().map(|cluster| cluster.name.to_string());
            fail(
                format!("the file has no cluster or context {word}"),
                format!("known clusters: {}", known.collect::<Vec<_>>().join(", ")),
            )
        })
    });
    named.collect()
}

/// The links from and to these clusters, and these links; all if none are named. Fails if one of them is not in the file,
/// or if there are none.
pub(super) fn chosen<'l>(
    loaded: &'l LoadedFleet,
    clusters: &[ClusterName],
    links: &[LinkEnds],
) -> anyhow::Result<Vec<&'l LinkEnds>> {
    for cluster in clusters {
        loaded.cluster(cluster)?;
    }
    let known = &loaded.fleet.links;
    if let Some(ends) = links.iter().find(|ends| !known.contains_key(ends)) {
        return Err(fail(
            format!("the file does not have {ends}"),
            "name a link of the file, as SOURCE/TARGET",
        ));
    }
    let is_all = clusters.is_empty() && links.is_empty();
    let is_chosen = |ends: &&LinkEnds| {
        is_all
            || links.contains(ends)
            || clusters.contains(&ends.source)
            || clusters.contains(&ends.target)
    };
    let chosen: Vec<&LinkEnds> = known.keys().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(fail(
            "the file has no such links",
            "name a cluster that has links, or leave --cluster out",
        ));
    }
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::cli::fleet::loaded::parse;

    #[test]
    fn part_of_a_link_depends_on_the_clusters_that_can_be_used() {
        let file = "name: f\nclusters: [{name: a, context: admin@a}, {name: b}, {name: c}]\nlinks: [{mesh: all}]\n";
        let loaded = parse("fleet.yaml", file, Path::new(""), "linkerd").unwrap();
        let of = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            let only = named(&loaded, &only).map_err(|error| error.to_string())?;
            let parts = loaded.fleet.links.keys().filter_map(|ends| {
                let part = LinkPart::of(ends, &only)?;
                Some(format!("{}/{} {part:?}", ends.source, ends.target))
            });
            Ok::<_, String>(parts.collect::<Vec<_>>().join(", "))
        };
        assert_eq!(
            of(&["admin@a"]).unwrap(),
            "a/b Source, a/c Source, b/a Target, c/a Target"
        );
        assert_eq!(
            of(&["a", "b"]).unwrap(),
            "a/b Whole, a/c Source, b/a Whole, b/c Source, c/a Target, c/b Target"
        );
        assert_eq!(of(&[]).unwrap().matches("Whole").count(), 6);
        assert_eq!(
            of(&["x"]).unwrap_err(),
            "the file has no cluster or context x"
        );
    }

    #[test]
    fn links_are_chosen_by_their_clusters_and_their_names() {
        let file = "name: f\nclusters: [{name: a}, {name: b}, {name: c}, {name: d}]\nlinks: [{hub: a, spokes: [b, c], mutual: true}]\n";
        let loaded = parse("fleet.yaml", file, Path::new(""), "linkerd").unwrap();
        for (clusters, links, expected) in [
            ("", "", "a/b a/c b/a c/a"),
            ("b", "", "a/b b/a"),
            ("a", "", "a/b a/c b/a c/a"),
            ("", "c/a", "c/a"),
            ("b", "c/a", "a/b b/a c/a"),
            ("x", "", "the file has no cluster x"),
            ("d", "", "the file has no such links"),
            ("", "b/c", "the file does not have the link from b to c"),
        ] {
            let words = |text: &str| {
                text.split_whitespace()
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            let clusters: Vec<_> = words(clusters).iter().map(|c| c.parse().unwrap()).collect();
            let links = words(links).into_iter().map(|link| {
                let (source, target) = link.split_once('/').unwrap();
                LinkEnds {
                    source: source.parse().unwrap(),
                    target: target.parse().unwrap(),
                }
            });
            let links: Vec<LinkEnds> = links.collect();
            let found = match chosen(&loaded, &clusters, &links) {
                Ok(found) => found
                    .iter()
                    .map(|ends| format!("{}/{}", ends.source, ends.target))
                    .collect::<Vec<_>>()
                    .join(" "),
                Err(error) => error.to_string(),
            };
            assert_eq!(found, expected);
        }
    }
}
