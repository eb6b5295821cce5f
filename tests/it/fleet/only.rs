//! `fleet apply --only`: clusters are linked, changed and unlinked, and nobody has access to both clusters of a link.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use control_plane::ControlPlane;
use serde_json::Value;

use super::{Fleet, linked_to, made};
use crate::support::{
    controller::Controller,
    links::{is_well, links},
    program::{Outcome, run},
};

/// Runs a command of `fleet` with access to one cluster.
fn own(plane: &ControlPlane, command: &str, file: &Path, flags: &[&str]) -> Outcome {
    let file = file.to_str().unwrap();
    let all = ["fleet", command, "--file", file, "--only", plane.name()];
    run(plane.kubeconfig(), &[&all[..], flags].concat())
}

fn succeeded(outcome: &Outcome) -> &str {
    assert_eq!(outcome.code, 0, "{}{}", outcome.stdout, outcome.stderr);
    &outcome.stdout
}

/// The steps that `apply` leaves to people, according to a plan: cluster and command of each.
fn remaining(plan: &Outcome) -> Vec<(String, String)> {
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let steps = plan["remaining"].as_array().unwrap().iter();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let steps = steps.map(|step| (text(&step["cluster"]), text(&step["command"])));
    steps.collect()
}

/// Runs a printed command with access to one cluster. The path `handed` in the command becomes a folder in `folder`.
/// This folder stands for the way in which people hand over credentials.
async fn pasted(plane: &ControlPlane, command: &str, folder: &Path) {
    let handed = folder.join("handed").display().to_string();
    let command = command.replace("handed", &handed);
    let (command, input) = match command.split_once(" | ") {
        Some((first, second)) => {
            let file = folder.join("piped.yaml");
            let words: Vec<&str> = first.split(' ').skip(1).collect();
            fs::write(&file, succeeded(&run(plane.kubeconfig(), &words))).unwrap();
            (second.to_owned(), Some(file))
        }
        None => (command, None),
    };
    let file = input.as_deref().map(|path| path.to_str().unwrap());
    let words: Vec<&str> = command.split(' ').collect();
    let arguments = words[1..].iter().map(|word| match (*word, file) {
        ("-", Some(file)) => file,
        (word, _) => word,
    });
    let arguments: Vec<&str> = arguments.collect();
    match words[0] {
        "kubectl" => {
            plane.kubectl(&arguments).await.unwrap();
        }
        program => {
            assert_eq!(program, "linkerd-mc");
            // People are asked.
            let yes: &[&str] = if arguments[0] == "link" {
                &["--yes"]
            } else {
                &[]
            };
            succeeded(&run(plane.kubeconfig(), &[&arguments, yes].concat()));
        }
    }
}

/// `status` and `check` know the links of the file: one exists, and the one in the other direction is missing.
fn other_commands_take_the_file(fleet: &Fleet, one: &str) {
    let file = file_with(fleet, &format!("{one}  mutual: true\n"));
    let run = |command: &str, flags: &[&str]| {
        let args = [command, "--file", file.to_str().unwrap()];
        run(&fleet.kubeconfig, &[&args[..], flags].concat())
    };
    let graph = run("status", &["-o=tree"]);
    let expected = "only-east\n└─▶ only-west  missing\nonly-west\n└─▶ only-east  connected";
    let graph = succeeded(&graph);
    assert!(graph.starts_with(expected), "{graph}");
    // No Pods run here, so `check` finds errors in both clusters.
    let check = run("check", &["--wait=0s", "-o=json"]);
    assert_eq!(check.code, 1, "{}{}", check.stdout, check.stderr);
    let report: Value = serde_json::from_str(&check.stdout).unwrap();
    let categories = report["categories"].as_array().unwrap().iter();
    let names = categories.map(|category| category["categoryName"].as_str().unwrap());
    assert_eq!(
        names.collect::<Vec<_>>(),
        [
            "linkerd-multicluster: only-east",
            "linkerd-multicluster: only-west",
            "linkerd-multicluster: between clusters"
        ]
    );
}

/// Writes a fleet file with two clusters and these links.
fn file_with(fleet: &Fleet, links: &str) -> PathBuf {
    fleet.file(&["only-east", "only-west"], links)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn links_need_no_rights_in_both_of_their_clusters() {
    let mut fleet = Fleet::start("only").await;
    let planes = fleet.planes.clone();
    let [east, _, west] = &planes;
    let _controller = Controller::start(west, &[]);
    let one = "links:\n- target: only-east\n  source: only-west\n";
    let file = file_with(&fleet, one);
    let folder = fleet.folder.path().to_owned();
    fleet.writes();

    // West can do nothing yet, and prints what each owner has to do.
    let planned = own(west, "plan", &file, &["-o=json"]);
    assert_eq!(planned.code, 2, "{}{}", planned.stdout, planned.stderr);
    let steps = remaining(&planned);
    let owners: Vec<&str> = steps.iter().map(|(owner, _)| owner.as_str()).collect();
    assert_eq!(owners, ["only-east", "only-east", "only-west", "only-west"]);
    let applied = own(west, "apply", &file, &[]);
    let printed = steps.iter().map(|(_, command)| format!("{command}\n"));
    for command in printed {
        assert!(applied.stdout.contains(&command), "{}", applied.stdout);
    }
    succeeded(&applied);
    assert_eq!(fleet.writes(), [""; 0]);

    // Each owner does the steps for one cluster, with access only to this cluster.
    for (owner, command) in &steps {
        let plane = if owner == east.name() { east } else { west };
        pasted(plane, command, &folder).await;
    }
    let account = linked_to(&["only-west"]);
    let account = account.into_iter().filter(|name| {
        !name.starts_with("Link/") && !name.starts_with("Secret/cluster-credentials-")
    });
    assert_eq!(made(east).await, account.collect::<BTreeSet<_>>());
    is_well(west, "only-east").await;
    for plane in [east, west] {
        let done = own(plane, "plan", &file, &[]);
        assert_eq!(
            succeeded(&done),
            "Nothing to do. 1 cluster was left out by --only.\n"
        );
    }
    let whole = fleet.run("plan", &file, &[]);
    assert_eq!(succeeded(&whole), "Nothing to do.\n", "{}", whole.stderr);

    other_commands_take_the_file(&fleet, one);

    // West changes a setting. It cannot read the gateway of east, so it keeps the address that somebody has changed.
    let moved = serde_json::json!({ "spec": { "gatewayAddress": "192.0.2.99" } });
    west.kubectl(&[
        "-n",
        "linkerd-multicluster",
        "patch",
        "links.multicluster.linkerd.io",
        "only-east",
        "--type=merge",
        "-p",
        &moved.to_string(),
    ])
    .await
    .unwrap();
    let file = file_with(&fleet, &format!("{one}  settings: {{federation: none}}\n"));
    fleet.writes();
    let refused = own(west, "apply", &file, &[]);
    assert!(refused.stderr.contains("pass --yes"), "{}", refused.stderr);
    succeeded(&own(west, "apply", &file, &["--yes", "--wait=0s"]));
    assert_eq!(
        fleet.writes(),
        ["only-west patch links/only-east".to_owned()]
    );
    let link = links(west).get("only-east").await.unwrap();
    assert_eq!(link.spec.gateway_address, "192.0.2.99");
    let whole = fleet.run("plan", &file, &[]);
    assert!(
        whole
            .stdout
            .contains("gatewayAddress: 192.0.2.99 → 192.0.2.10")
            && !whole.stdout.contains("federation"),
        "{}",
        whole.stdout
    );

    // The link leaves the file. East does not delete the account before west says that nobody uses it.
    let none = file_with(&fleet, "links: []\n");
    let early = own(east, "plan", &none, &["--prune", "-o=json"]);
    assert_eq!(early.code, 2, "{}{}", early.stdout, early.stderr);
    let steps = remaining(&early);
    assert_eq!(steps.len(), 2);
    succeeded(&own(east, "apply", &none, &["--yes", "--prune"]));
    assert_eq!(made(east).await.len(), 4);
    let removed = own(west, "apply", &none, &["--yes", "--prune"]);
    assert!(
        succeeded(&removed).ends_with("--only only-east --prune\n"),
        "{}",
        removed.stdout
    );
    assert_eq!(made(west).await, BTreeSet::new());
    pasted(west, &steps[0].1, &folder).await;
    pasted(east, &steps[1].1, &folder).await;
    assert_eq!(made(east).await, BTreeSet::new());
    succeeded(&own(east, "plan", &none, &[]));
}
