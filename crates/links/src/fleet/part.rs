//! Which part of a link can be done with some of the clusters. Pure.

use std::collections::BTreeSet;

use hints::hint::fail;
use manifests::link::ClusterName;

use crate::{
    fleet::loaded::LoadedFleet,
    fleet_file::{FleetCluster, LinkEnds},
};

/// The clusters that may be used: those of `--only`, or all of the file and those of `--also`.
#[derive(Clone, Debug, Default)]
pub struct UsedClusters {
    only: BTreeSet<ClusterName>,
    also: BTreeSet<ClusterName>,
}

impl UsedClusters {
    /// The clusters with these names or contexts; all if there are none. Fails if one is not in the file, and has not left
    /// it either.
    pub fn named(
        loaded: &LoadedFleet,
        only: &[String],
        has_left: impl Fn(&ClusterName) -> bool,
    ) -> anyhow::Result<Self> {
        let clusters = &loaded.fleet.clusters;
        let named = only.iter().map(|word| {
            let is_meant = |cluster: &&FleetCluster| {
                cluster.name.to_string() == *word || cluster.context.as_ref() == Some(word)
            };
            let found = clusters.iter().find(is_meant);
            let found = found.map(|cluster| cluster.name.clone());
            let left = || word.parse().ok().filter(&has_left);
            found.or_else(left).ok_or_else(|| {
                let known = clusters.iter().map(|cluster| cluster.name.to_string());
                fail(
                    format!("the file has no cluster or context {word}"),
                    format!("known clusters: {}", known.collect::<Vec<_>>().join(", ")),
                )
            })
        });
        Ok(Self {
            only: named.collect::<Result<_, _>>()?,
            also: BTreeSet::new(),
        })
    }

    /// The same, and these clusters, which have left the file.
    pub fn also(self, also: impl IntoIterator<Item = ClusterName>) -> Self {
        let also = also.into_iter().collect();
        Self { also, ..self }
    }

    /// Whether all clusters may be used.
    pub fn is_all(&self) -> bool {
        self.only.is_empty()
    }

    pub fn contains(&self, name: &ClusterName) -> bool {
        self.is_all() || self.only.contains(name)
    }

    /// The clusters of `--only` and of `--also`.
    pub fn names(&self) -> impl Iterator<Item = &ClusterName> {
        self.only.union(&self.also)
    }
}

/// What can be done for a link, with the clusters that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkPart {
    Whole,
    /// The source cluster takes credentials that were handed over.
    Source,
    /// The target cluster makes accounts and tokens, and revokes them.
    Target,
}

impl LinkPart {
    /// The part that can be done with these clusters. `None` if there is none.
    pub fn of(ends: &LinkEnds, used: &UsedClusters) -> Option<Self> {
        match (used.contains(&ends.source), used.contains(&ends.target)) {
            (true, true) => Some(Self::Whole),
            (true, false) => Some(Self::Source),
            (false, true) => Some(Self::Target),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fleet::loaded::parse;

    #[test]
    fn part_of_a_link_depends_on_the_clusters_that_can_be_used() {
        let file = "name: f\nclusters: [{name: a, context: admin@a}, {name: b}, {name: c}]\nlinks: [{mesh: all}]\n";
        let loaded = parse("fleet.yaml", file, Path::new(""), "linkerd").unwrap();
        let of = |only: &[&str]| {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            let has_left = |name: &ClusterName| name.to_string() == "gone";
            let only = UsedClusters::named(&loaded, &only, has_left);
            let only = only.map_err(|error| error.to_string())?;
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
        assert_eq!(of(&["gone"]).unwrap(), "");
        assert_eq!(
            of(&["x"]).unwrap_err(),
            "the file has no cluster or context x"
        );
    }
}
