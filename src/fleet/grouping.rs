//! From directed links to entries of the file: defaults, meshes, hubs, and single links. Together they name each link once,
//! so the order of the entries decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::types::{ComposedSettings, LinkEnds};
use crate::manifests::link::ClusterName;

/// An entry of `links`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LinkGroup<'g> {
    pub(super) kind: GroupKind<'g>,
    pub(super) settings: ComposedSettings,
}

/// Which links an entry names.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GroupKind<'g> {
    Mesh(Vec<&'g ClusterName>),
    Hub {
        hub: &'g ClusterName,
        spokes: Vec<&'g ClusterName>,
        mutual: bool,
    },
    Link(&'g LinkEnds),
}

/// Settings that all links have, and the entries for the rest.
pub(super) fn group(
    links: &BTreeMap<LinkEnds, ComposedSettings>,
) -> (ComposedSettings, Vec<LinkGroup<'_>>) {
    let defaults = common(links);
    let mut alike: BTreeMap<String, (ComposedSettings, BTreeSet<&LinkEnds>)> = BTreeMap::new();
    for (ends, settings) in links {
        let mut own = settings.clone();
        own.retain(|key, _| !defaults.contains_key(key));
        let key = serde_json::json!(own).to_string();
        alike
            .entry(key)
            .or_insert_with(|| (own, BTreeSet::new()))
            .1
            .insert(ends);
    }
    // What most links have in common comes first.
    let mut alike: Vec<_> = alike.into_values().collect();
    alike.sort_by_key(|(_, ends)| std::cmp::Reverse(ends.len()));
    let groups = alike.into_iter().flat_map(|(settings, ends)| {
        let kinds = Remaining::new(ends).into_kinds();
        kinds.into_iter().map(move |kind| LinkGroup {
            kind,
            settings: settings.clone(),
        })
    });
    (defaults, groups.collect())
}

/// The settings that all links have; none if there is only one link.
fn common(links: &BTreeMap<LinkEnds, ComposedSettings>) -> ComposedSettings {
    let mut all = links.values();
    let mut common = all.next().cloned().unwrap_or_default();
    if links.len() < 2 {
        common.clear();
    }
    for settings in all {
        common.retain(|key, value| settings.get(key) == Some(value));
    }
    common
}

/// Links that no entry names yet, as a matrix: the row is the source, the column the target.
struct Remaining<'g> {
    names: Vec<&'g ClusterName>,
    ends: BTreeMap<(usize, usize), &'g LinkEnds>,
    is_linked: Vec<Vec<bool>>,
}

impl<'g> Remaining<'g> {
    fn new(links: BTreeSet<&'g LinkEnds>) -> Self {
        let names = links.iter().flat_map(|ends| [&ends.source, &ends.target]);
        let names: BTreeSet<&ClusterName> = names.collect();
        let names: Vec<&ClusterName> = names.into_iter().collect();
        let at = |name: &ClusterName| names.binary_search(&name).unwrap_or_default();
        let ends: BTreeMap<_, _> = links
            .into_iter()
            .map(|ends| ((at(&ends.source), at(&ends.target)), ends))
            .collect();
        let mut is_linked = vec![vec![false; names.len()]; names.len()];
        for (source, target) in ends.keys() {
            is_linked[*source][*target] = true;
        }
        Self {
            names,
            ends,
            is_linked,
        }
    }

    fn into_kinds(mut self) -> Vec<GroupKind<'g>> {
        let mut kinds = Vec::new();
        // A hub with spokes both ways consists of pairs, so those come after it.
        while let Some(mesh) = self.take_mesh(3) {
            kinds.push(mesh);
        }
        while let Some(hub) = self.take_hub() {
            kinds.push(hub);
        }
        while let Some(pair) = self.take_mesh(2) {
            kinds.push(pair);
        }
        let left = self.ends.iter();
        let left = left.filter(|((source, target), _)| self.is_linked[*source][*target]);
        kinds.extend(left.map(|(_, ends)| GroupKind::Link(ends)));
        kinds
    }

    fn is_mutual(&self, one: usize, other: usize) -> bool {
        self.is_linked[one][other] && self.is_linked[other][one]
    }

    fn remove_both(&mut self, one: usize, other: usize) {
        self.is_linked[one][other] = false;
        self.is_linked[other][one] = false;
    }

    /// A mesh of at least `min` clusters, as large as a greedy search finds.
    fn take_mesh(&mut self, min: usize) -> Option<GroupKind<'g>> {
        let all = 0..self.names.len();
        let degree = |of: usize| {
            all.clone()
                .filter(|other| self.is_mutual(of, *other))
                .count()
        };
        let mut order: Vec<usize> = all.clone().collect();
        order.sort_by_key(|of| (std::cmp::Reverse(degree(*of)), *of));
        let mut best: Vec<usize> = Vec::new();
        for first in &order {
            let mut mesh = vec![*first];
            for next in &order {
                if mesh.iter().all(|member| self.is_mutual(*member, *next)) {
                    mesh.push(*next);
                }
            }
            if mesh.len() > best.len() {
                best = mesh;
            }
        }
        if best.len() < min {
            return None;
        }
        best.sort_unstable();
        for (at, one) in best.iter().enumerate() {
            for other in &best[at + 1..] {
                self.remove_both(*one, *other);
            }
        }
        Some(GroupKind::Mesh(self.named(&best)))
    }

    /// The cluster that most others link to, if at least two do.
    fn take_hub(&mut self) -> Option<GroupKind<'g>> {
        let all = 0..self.names.len();
        let spokes = |hub: usize| -> Vec<usize> {
            let all = all.clone();
            all.filter(|spoke| self.is_linked[*spoke][hub]).collect()
        };
        let hub = all
            .clone()
            .max_by_key(|hub| (spokes(*hub).len(), std::cmp::Reverse(*hub)))?;
        let spokes = spokes(hub);
        if spokes.len() < 2 {
            return None;
        }
        let mutual = spokes.iter().all(|spoke| self.is_linked[hub][*spoke]);
        for spoke in &spokes {
            self.is_linked[*spoke][hub] = false;
            if mutual {
                self.is_linked[hub][*spoke] = false;
            }
        }
        Some(GroupKind::Hub {
            hub: self.names[hub],
            spokes: self.named(&spokes),
            mutual,
        })
    }

    fn named(&self, all: &[usize]) -> Vec<&'g ClusterName> {
        all.iter().map(|at| self.names[*at]).collect()
    }
}
