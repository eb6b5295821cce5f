//! Which file uses which, and the circles among them.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::{algo::tarjan_scc, graphmap::DiGraphMap};

use crate::source::{Path, Source};

/// The sources of the crates by the module that each is: the crate's name, and those of the modules.
pub(crate) struct Graph {
    sources: BTreeMap<Path, Source>,
}

impl Graph {
    pub(crate) fn new(sources: BTreeMap<Path, Source>) -> Self {
        Self { sources }
    }

    /// Each module with those whose items it names, the facades that hand them on left out.
    pub(crate) fn arrows(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let arrows = self.sources.iter().map(|(module, source)| {
            let used = source.paths.iter();
            let mut used: BTreeSet<&Path> = used
                .filter_map(|path| self.defines(module, path, 0))
                .collect();
            used.remove(module);
            (module, used)
        });
        arrows.collect()
    }

    /// The modules that use each other in a loop, each such circle once.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        let named = |path: &Path| path.join("::");
        let arrows = self.arrows().into_iter();
        let arrows = arrows
            .map(|(from, to)| (named(from), to.into_iter().map(named).collect()))
            .collect();
        circles_of(&arrows)
    }

    /// The module that defines what a path names, seen from a module. `None` where it leads out of the library.
    fn defines(&self, module: &Path, path: &[String], depth: usize) -> Option<&Path> {
        /// Names are handed on a few times at most; a `use` of its own name would never end.
        const MOST: usize = 8;
        if depth > MOST {
            return None;
        }
        let first = path.first()?;
        let mut child = module.clone();
        child.push(first.clone());
        let (mut at, rest): (Path, _) = match first.as_str() {
            "crate" => (module[..1].to_vec(), &path[1..]),
            "self" | "super" => (module.clone(), path),
            _ if self.sources.contains_key(&child) => (module.clone(), path),
            // One name alone is a variable or an item that something else brought into scope.
            _ if path.len() == 1 => return None,
            _ => (vec![first.clone()], &path[1..]),
        };
        if !self.sources.contains_key(&at) {
            return None;
        }
        for name in rest {
            match name.as_str() {
                "self" => continue,
                "super" => {
                    at.pop()?;
                    continue;
                }
                _ => {}
            }
            let mut inside = at.clone();
            inside.push(name.clone());
            if self.sources.contains_key(&inside) {
                at = inside;
                continue;
            }
            let uses = &self.sources.get(&at)?.uses;
            let handed_on = uses.iter().find(|(local, _)| local == name);
            return match handed_on {
                Some((_, target)) => self.defines(&at, target, depth + 1),
                None => self.sources.get_key_value(&at).map(|(key, _)| key),
            };
        }
        self.sources.get_key_value(&at).map(|(key, _)| key)
    }
}

/// The names that lead to each other in a loop, each such circle once.
pub(crate) fn circles_of(arrows: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let edges = arrows
        .iter()
        .flat_map(|(from, to)| to.iter().map(move |to| (from.as_str(), to.as_str())));
    let found = tarjan_scc(&DiGraphMap::<&str, ()>::from_edges(edges));
    let mut circles: Vec<Vec<String>> = found
        .into_iter()
        .filter(|circle| circle.len() > 1)
        .map(|circle| {
            let mut names: Vec<String> = circle.into_iter().map(str::to_owned).collect();
            names.sort();
            names
        })
        .collect();
    circles.sort();
    circles
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::source;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let sources = files.iter().map(|(name, text)| {
            let module = name.split("::");
            (module.map(str::to_owned).collect(), source(text).unwrap())
        });
        Graph::new(sources.collect())
    }

    #[test]
    fn an_item_is_found_where_it_is_defined() {
        let graph = graph(&[
            ("x", "pub mod a; pub mod b;"),
            ("x::a", "mod c; pub use c::Item;"),
            ("x::a::c", "pub struct Item;"),
            (
                "x::b",
                "use crate::a::Item; use super::a::c; fn x() { serde::y() }",
            ),
            ("y", "use x::a::Item as Other; fn x() { self::y() }"),
        ]);
        let arrows = graph.arrows();
        let of = |name: &str| -> Vec<String> {
            let name: Path = name.split("::").map(str::to_owned).collect();
            let used = &arrows[&name];
            used.iter().map(|path| path.join("::")).collect()
        };
        assert_eq!(of("x::b"), ["x::a::c"]);
        assert_eq!(of("x::a"), ["x::a::c"]);
        assert_eq!(of("y"), ["x::a::c"]);
    }

    #[test]
    fn circles_are_found_through_what_is_handed_on() {
        let graph = graph(&[
            ("x", ""),
            ("x::a", "mod b; mod c; pub use b::B; pub use c::C;"),
            ("x::a::b", "use super::C; pub struct B;"),
            ("x::a::c", "pub struct C; fn x() { vec![super::B] }"),
            ("x::d", "use crate::a::B;"),
        ]);
        assert_eq!(graph.circles(), [["x::a::b", "x::a::c"]]);
    }
}
