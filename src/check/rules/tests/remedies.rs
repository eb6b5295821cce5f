//! Tests of the commands that `check` tells people to run.

use super::*;

/// The remedies of all checks, each with the description of its check.
fn remedies(snapshot: &FullSnapshot) -> Vec<(String, String)> {
    let all = evaluate(snapshot).into_iter();
    let all = all.flat_map(|result| {
        let fixes = result.fixes.into_iter();
        fixes.map(move |fix| (result.description.clone(), fix.command))
    });
    all.collect()
}

#[test]
fn no_remedy_resets_the_values_of_an_installation() {
    let installs = |change: &Change| {
        let mut snapshot = well();
        change(&mut snapshot);
        let all = remedies(&snapshot).into_iter();
        let installs = all.filter(|(_, command)| command.starts_with("linkerd-mc install"));
        installs.map(|(check, _)| check).collect::<Vec<_>>()
    };
    let found: BTreeSet<String> = CASES
        .iter()
        .flat_map(|(_, change, ..)| installs(change))
        .collect();
    // Only where nothing is installed.
    let expected = ["Link CRD exists", "multicluster extension Namespace exists"];
    assert_eq!(found, expected.map(str::to_owned).into());
}
