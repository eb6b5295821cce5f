//! Two files of the same name, as of two teams with a common hub.

use std::{collections::BTreeSet, fs};

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, ResourceExt, api::ListParams};
use linkerd_mc::api::labels::FLEET;

use super::Fleet;
use crate::support::links::links;

/// The Links in a cluster that have this label.
async fn links_of(plane: &ControlPlane, fleet: &str) -> BTreeSet<String> {
    let own = ListParams::default().labels(&format!("{FLEET}={fleet}"));
    let found = links(plane).list(&own).await.unwrap().items;
    found.iter().map(ResourceExt::name_any).collect()
}

/// The accounts in a cluster that have this label, and their tokens.
async fn accounts_of(plane: &ControlPlane, fleet: &str) -> Vec<String> {
    let own = ListParams::default().labels(&format!("{FLEET}={fleet}"));
    let accounts = Api::<ServiceAccount>::all(plane.client());
    let accounts = accounts.list(&own).await.unwrap().items.into_iter();
    let tokens = Api::<Secret>::all(plane.client());
    let tokens = tokens.list(&own).await.unwrap().items.into_iter();
    let accounts = accounts.map(|of| format!("ServiceAccount {}", of.name_any()));
    let tokens = tokens.map(|of| format!("Secret {}", of.name_any()));
    accounts.chain(tokens).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_another_file_of_the_same_name_are_never_deleted() {
    let mut fleet = Fleet::start("team").await;
    let file = |fleet: &Fleet, id: &str, cluster: &str| {
        let file = fleet.folder.path().join(format!("{cluster}.yaml"));
        let text = format!(
            "name: fleet\n{id}clusters:\n- name: team-west\n- name: {cluster}\n\
             links:\n- target: {cluster}\n  source: team-west\n"
        );
        fs::write(&file, text).unwrap();
        file
    };
    // What was made before a file had an ID gets the label with it.
    for id in ["", "id: a\n"] {
        let of_a = file(&fleet, id, "team-east");
        let applied = fleet.run("apply", &of_a, &["--yes", "--wait=0s"]);
        assert_eq!(applied.code, 0, "{}", applied.stderr);
    }
    let mut of_a = accounts_of(&fleet.planes[0], "fleet.a").await;
    of_a.sort();
    assert_eq!(of_a, ["Secret team-west-bound", "ServiceAccount team-west"]);
    assert_eq!(accounts_of(&fleet.planes[0], "fleet").await, [""; 0]);
    fleet.writes();

    // Without an ID, what is not in the file may be that of the other one.
    let of_b = file(&fleet, "", "team-north");
    let refused = fleet.run("apply", &of_b, &["--yes", "--prune"]).failure();
    let why = "--prune could delete links of another file with the name fleet";
    assert!(refused.contains(why), "{refused}");
    assert!(refused.contains("hint: add the line `id: "), "{refused}");
    assert_eq!(fleet.writes(), [""; 0]);

    let of_b = file(&fleet, "id: b\n", "team-north");
    let applied = fleet.run("apply", &of_b, &["--yes", "--prune", "--wait=0s"]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    let stays =
        "the Link team-east stays: it belongs to the fleet fleet.a, another file with this name";
    assert!(applied.stdout.contains(stays), "{}", applied.stdout);
    let deleted = fleet.writes();
    let deleted: Vec<&String> = deleted
        .iter()
        .filter(|said| said.contains("delete"))
        .collect();
    assert_eq!(deleted, [""; 0]);
    let west = &fleet.planes[2];
    let of_a = BTreeSet::from(["team-east".to_owned()]);
    assert_eq!(links_of(west, "fleet.a").await, of_a);
    assert_eq!(
        links_of(west, "fleet.b").await,
        ["team-north".to_owned()].into()
    );

    // Its own links go.
    let text = fs::read_to_string(&of_b).unwrap();
    let (left, _) = text.split_once("links:").unwrap();
    fs::write(&of_b, format!("{left}links: []\n")).unwrap();
    let pruned = fleet.run("apply", &of_b, &["--yes", "--prune"]);
    assert_eq!(pruned.code, 0, "{}{}", pruned.stdout, pruned.stderr);
    assert_eq!(links_of(west, "fleet.b").await, BTreeSet::new());
    assert_eq!(links_of(west, "fleet.a").await, of_a);
}
