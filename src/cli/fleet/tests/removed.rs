//! What goes when it leaves the file, and what stays although it has left it.

use kube::ResourceExt as _;
use serde_json::json;

use super::planned::{FILE, done, lines, loaded, name, plan_with};
use crate::{
    api::{labels, link::LinkSpec},
    cli::fleet::{
        facts::ClusterFacts, loaded::LoadedFleet, part::UsedClusters, plan::FleetPlan,
        remove::unused_accounts,
    },
};

/// The file without its link.
fn without_link() -> String {
    FILE.replace("{target: east, source: west}", "")
}

/// The plan if both clusters were read.
fn both(loaded: &LoadedFleet, east: &ClusterFacts, west: &ClusterFacts) -> FleetPlan {
    let known = [("east", Ok(east)), ("west", Ok(west))];
    plan_with(loaded, &UsedClusters::default(), &known)
}

#[test]
fn account_of_a_link_that_left_the_fleet_stays() {
    let [east, mut west] = done(&loaded(FILE));
    // Somebody has taken the Link out of the fleet, and its Secrets still have the label.
    west.links[0].labels_mut().clear();
    let plan = both(&loaded(&without_link()), &east, &west);
    assert_eq!(
        lines(&plan),
        [
            "east: the ServiceAccount west stays: the Secret cluster-credentials-east in west, which a Link needs, uses it"
        ]
    );
}

#[test]
fn tokens_of_an_account_stay_with_its_link_whatever_their_names() {
    let west = "w".repeat(60);
    let file = format!("name: f\nclusters: [{{name: east}}, {{name: {west}}}]\nlinks: []\n");
    let mut east = ClusterFacts::default();
    // Kubernetes cuts the name of the second, which a rotation has made.
    for secret in [format!("{west}-token"), format!("{}x7k2p", &west[..58])] {
        let metadata = json!({
            "name": secret,
            "labels": { labels::FLEET: "f" },
            "annotations": { labels::SERVICE_ACCOUNT_NAME: west },
        });
        let secret = serde_json::from_value(json!({ "metadata": metadata }));
        east.accounts.tokens.push(secret.unwrap());
    }
    let empty = ClusterFacts::default();
    let plan = plan_with(
        &loaded(&file),
        &UsedClusters::default(),
        &[("east", Ok(&east)), (&west, Ok(&empty))],
    );
    let deleted = |kept: &[&str]| {
        let kept = kept.iter().map(|source| (name(source), "east".to_owned()));
        unused_accounts(&east.accounts, &plan.clusters[0], &kept.collect()).len()
    };
    assert_eq!(deleted(&[]), 2);
    assert_eq!(deleted(&["west"]), 2);
    assert_eq!(deleted(&[&west]), 0);
}

#[test]
fn commands_that_delete_accounts_name_the_namespace_of_the_fleet() {
    let own = |file: &str| format!("{file}namespace: mc\n");
    let full = loaded(&own(FILE));
    let [east, west] = done(&full);
    let revoke = "revoke --service-account-name west --namespace mc`";
    // A cluster is in the file no more, and no context has its name: the source, and then the target.
    for (name, facts, program) in [
        ("east", &east, "`linkerd-mc --context east"),
        ("west", &west, "`linkerd-mc"),
    ] {
        let command = format!("{program} {revoke}");
        let plan = plan_with(
            &loaded(&own(&without_link())),
            &UsedClusters::default(),
            &[(name, Ok(facts))],
        );
        let said = lines(&plan);
        assert!(said.iter().any(|line| line.contains(&command)), "{said:?}");
    }
}

/// Of a Link that cannot be decoded, not even the cluster may be known that it leads to.
#[test]
fn link_that_cannot_be_decoded_stays_with_its_secrets_and_account() {
    let [east, mut west] = done(&loaded(FILE));
    west.links[0].spec = LinkSpec::default();
    let why = "spec: invalid type".to_owned();
    west.unreadable = [("east".to_owned(), why)].into();
    let plan = both(&loaded(&without_link()), &east, &west);
    assert_eq!(
        lines(&plan),
        [
            "east: the ServiceAccount west stays: the Secret cluster-credentials-east in west, which a Link needs, uses it",
            "west: the Link east is not in the file, and stays because it cannot be decoded: spec: invalid type",
        ]
    );
    assert!(!plan.is_pending());
}

#[test]
fn fleet_does_not_move_to_another_namespace_while_links_use_its_accounts() {
    let [mut east, mut west] = done(&loaded(FILE));
    // Only Links and accounts of the new namespace are read; bindings are in none.
    west.links.clear();
    west.credentials.clear();
    east.accounts.accounts.clear();
    east.accounts.tokens.clear();
    let moved = loaded(&format!("{FILE}namespace: mc2\n"));
    let plan = both(&moved, &east, &west);
    assert_eq!(
        lines(&plan),
        [
            "east: the ClusterRoleBinding west is for the account in the namespace \
             linkerd-multicluster, which Links use; to move the fleet, apply its file with `links: []` there first"
        ]
    );
}
