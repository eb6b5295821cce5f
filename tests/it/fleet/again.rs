//! `link` for a link of a fleet, and a fleet whose file or settings change.

use std::fs;

use serde_json::{Value, json};

use super::{
    keep::{MESH, linked},
    linked_to, made, run_fleet,
};
use crate::support::{
    audit::{mark, requests},
    links::links,
    objects::{export, gone, join, namespace, service, services, web},
    program::run,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn nothing_is_lost_when_a_link_of_a_fleet_is_linked_again() {
    let names = ["name-east", "name-north", "name-west"];
    let (mut fleet, _, _controllers) = linked("name", &names).await;
    let [east, north, west] = fleet.planes.clone();
    namespace("named", &[&east, &north, &west]).await;
    export(&east, "named", &web("web", "true")).await;
    join(&east, "named", "all", "member", "no").await;
    let stands = service(&west, "named", "web-name-east", |_| true).await;
    service(&west, "named", "all-federated", |_| true).await;
    fleet.writes();

    // Two names of one cluster are refused.
    let moved = fleet.folder.path().join("moved");
    let text = fs::read_to_string(&fleet.kubeconfig).unwrap();
    let mut twice: Value = json!(kube::config::Kubeconfig::from_yaml(&text).unwrap());
    let mut again = twice["contexts"][0].clone();
    again["name"] = json!("again");
    twice["contexts"].as_array_mut().unwrap().push(again);
    fs::write(&moved, twice.to_string()).unwrap();
    let file = fleet.file(
        &[names[0], names[1], names[2], "again"],
        "links:\n- mesh: all\n",
    );
    let refused = run_fleet(&moved, "plan", &file, &[]).failure();
    assert!(refused.contains("are the same cluster"), "{refused}");

    // `link` restores credentials, and leaves the Link and its Secrets in the fleet.
    let target = format!("--target={}", names[0]);
    let source = format!("--source={}", names[2]);
    let account = format!("--service-account-name={}", names[2]);
    let link = |more: &[&str]| {
        let args = ["link", &target, &source, &account, "--yes"];
        run(&fleet.kubeconfig, &[&args[..], more].concat())
    };
    let again = link(&[]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(made(&west).await, linked_to(&names[..2]));
    let changed = link(&["--excluded-labels=secret"]);
    assert_eq!(changed.code, 0, "{}", changed.stderr);
    let said =
        "the Link name-east belongs to the fleet f.t; `fleet apply` sets it to what the file says";
    assert!(changed.stderr.contains(said), "{}", changed.stderr);
    assert_eq!(made(&west).await, linked_to(&names[..2]));
    let mesh = fleet.file(&names, MESH);
    let plan = fleet.run("plan", &mesh, &[]);
    assert!(
        plan.stdout.contains("excludedLabels: secret → (none)"),
        "{}",
        plan.stdout
    );

    // Other selectors replace the old ones, and the plan says what goes.
    let settings = "links:\n- mesh: all\n  settings: {selector: team=shop}\n";
    let selected = fleet.file(&names, settings);
    let plan = fleet.run("plan", &selected, &[]);
    let said = "deletes 1 mirror, with its ClusterIP";
    assert!(plan.stdout.contains(said), "{}", plan.stdout);
    let plan = fleet.run("plan", &selected, &["-o=json"]);
    let document: Value = serde_json::from_str(&plan.stdout).unwrap();
    let changes = document["clusters"][2]["changes"].as_array().unwrap();
    let east_link = changes.iter().find(|change| change["name"] == names[0]);
    assert_eq!(east_link.unwrap()["removes"]["mirrors"], 1, "{document:#}");
    let applied = fleet.run("apply", &selected, &["--yes"]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    let spec = json!(links(&west).get(names[0]).await.unwrap().spec);
    assert_eq!(
        spec["selector"],
        json!({ "matchLabels": { "team": "shop" } })
    );
    gone(&west, "named", "web-name-east").await;
    let again = fleet.run("apply", &selected, &[]);
    assert_eq!(again.stdout, "Nothing to do.\n", "{}", again.stderr);
    let mesh = fleet.file(&names, MESH);
    let back = fleet.run("apply", &mesh, &["--yes"]);
    assert_eq!(back.code, 0, "{}{}", back.stdout, back.stderr);
    let new = service(&west, "named", "web-name-east", |_| true).await;
    assert_ne!(new.metadata.uid, stands.metadata.uid);

    // A cluster that leaves the file: the plan says how many mirrors go with its Link, and `link` has not kept it. Without
    // the user's word, nothing is asked of it, whatever the others have of it.
    let rest = fleet.file(&names[1..], MESH);
    let asks = |since| {
        let asked = requests(&east, since).into_iter();
        let own = asked.filter(|event| {
            event.user == "kubernetes-admin" && event.user_agent.starts_with("linkerd-mc/")
        });
        own.count()
    };
    let since = mark(&east);
    let plan = fleet.run("plan", &rest, &[]);
    let pruned = fleet.run("plan", &rest, &["--prune"]);
    let stays = format!("pass --also {}", names[0]);
    assert!(pruned.stdout.contains(&stays), "{}", pruned.stdout);
    assert_eq!(asks(since), 0);
    let said =
        "deletes 1 mirror and 1 federated Service without another member, with their ClusterIPs";
    assert!(plan.stdout.contains(said), "{}", plan.stdout);
    let applied = fleet.run("apply", &rest, &["--yes", "--prune", "--also", names[0]]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    assert!(asks(since) > 0);
    assert_eq!(made(&west).await, linked_to(&names[1..2]));
    gone(&west, "named", "web-name-east").await;
    assert!(
        services(&west, "named")
            .get_opt("all-federated")
            .await
            .unwrap()
            .is_none()
    );
}
