//! The drawing of the crates in `docs/architecture.md`: an arrow from each crate to those that it uses.

use std::collections::{BTreeMap, BTreeSet};

/// Each crate with those that its manifest names, of these manifests by the crates' names.
pub(crate) fn arrows(manifests: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let used = |manifest: &str| -> BTreeSet<&str> {
        let lines = manifest.lines();
        let lines = lines.skip_while(|line| *line != "[dependencies]").skip(1);
        let named: BTreeSet<String> = lines
            .take_while(|line| !line.starts_with('['))
            .filter_map(|line| line.split(['.', ' ']).next())
            .map(|name| name.replace('-', "_"))
            .collect();
        let known = manifests.keys().filter(|name| named.contains(*name));
        known.map(String::as_str).collect()
    };
    manifests
        .iter()
        .map(|(name, manifest)| (name.as_str(), used(manifest)))
        .collect()
}

/// Only the arrows that no longer way replaces, in Mermaid's language.
pub(crate) fn reduced(arrows: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let reaches = |from: &str, to: &str| {
        let mut seen = BTreeSet::new();
        let mut next = vec![from];
        while let Some(at) = next.pop() {
            for used in arrows.get(at).into_iter().flatten() {
                if *used == to {
                    return true;
                }
                if seen.insert(*used) {
                    next.push(used);
                }
            }
        }
        false
    };
    let direct = |used: &BTreeSet<&str>, to: &str| {
        !used.iter().any(|other| *other != to && reaches(other, to))
    };
    let drawn = arrows.iter().flat_map(|(from, used)| {
        let direct = used.iter().filter(|to| direct(used, to));
        direct.map(move |to| format!("{from} --> {to}"))
    });
    drawn.collect()
}

#[test]
fn arrows_that_a_longer_way_replaces_are_left_out() {
    let manifest = |names: &str| format!("[package]\n\n[dependencies]\n{names}\n[lints]\n");
    let manifests = BTreeMap::from([
        (
            "a".to_owned(),
            manifest("b-b.workspace = true\nc.workspace = true\nserde = \"1\"\n"),
        ),
        ("b_b".to_owned(), manifest("c = { path = \"c\" }\n")),
        ("c".to_owned(), manifest("")),
    ]);
    assert_eq!(reduced(&arrows(&manifests)), ["a --> b_b", "b_b --> c"]);
}
