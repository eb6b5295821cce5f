//! What goes when it leaves the file, and what stays although it has left it.

use kube::ResourceExt as _;
use links::{
    fleet::{
        facts::ClusterFacts, link_plan::LinkCase, loaded::LoadedFleet, part::UsedClusters,
        plan::FleetPlan,
    },
    inventory::ListedObject,
    steps::Action,
};
use mirror_core::api::{labels, link::LinkSpec};
use serde_json::json;

use super::planned::{FILE, done, lines, loaded, name, plan_with, token};
use crate::cli::fleet::{remove::unused_accounts, view};

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
        unused_accounts(&plan.clusters[0], &kept.collect()).len()
    };
    assert_eq!(deleted(&[]), 2);
    assert_eq!(deleted(&["west"]), 2);
    assert_eq!(deleted(&[&west]), 0);
}

#[test]
fn names_from_a_hostile_api_server_do_not_control_the_terminal() {
    let hostile = "x\u{1b}[2K\u{1b}[1A\u{202e}\ny";
    let mut east = ClusterFacts::default();
    let metadata = json!({
        "name": hostile,
        "labels": { labels::FLEET: "f" },
        "annotations": { labels::SERVICE_ACCOUNT_NAME: "west" },
    });
    let secret = serde_json::from_value(json!({ "metadata": metadata }));
    east.accounts.tokens.push(secret.unwrap());
    let plan = both(&loaded(&without_link()), &east, &ClusterFacts::default());
    let text = anstream::adapter::strip_str(&view::text(&plan)).to_string();
    let shown = view::text(&plan).replace('\n', "");
    assert!(text.contains("Secret x [2K [1A y"), "{text}");
    assert!(
        !shown.contains("\u{1b}[2K") && !shown.contains('\u{202e}'),
        "{text}"
    );
}

#[test]
fn commands_that_delete_accounts_name_the_namespace_of_the_fleet() {
    let own = |file: &str| format!("{file}namespace: mc\n");
    let full = loaded(&own(FILE));
    let [east, west] = done(&full);
    let revoke = "allow --delete --service-account-name west --namespace mc`";
    // A cluster is in the file no more, and was not read: the source, and then the target.
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

/// Between the plan and its execution, a rotation may have written a Secret, and somebody may have made a Link anew.
#[test]
fn what_is_deleted_or_replaced_is_what_was_read() {
    let own = loaded(FILE);
    let [mut east, mut west] = done(&own);
    west.links[0].metadata.uid = Some("uid-of-link".to_owned());
    west.links[0].metadata.resource_version = Some("5".to_owned());
    for secret in &mut west.credentials {
        secret.metadata.uid = Some("uid-of-secret".to_owned());
        secret.metadata.resource_version = Some("7".to_owned());
    }
    let plan = both(&loaded(&without_link()), &east, &west);
    let deletions = plan.clusters[1].steps.iter();
    let deletions = deletions.filter_map(|step| step.deleted());
    let deletions: Vec<_> = deletions.map(ListedObject::preconditions).collect();
    let of = |uid: &str, version: Option<&str>| (Some(uid.to_owned()), version.map(str::to_owned));
    let secret = of("uid-of-secret", Some("7"));
    // Its status has other versions all the time.
    assert_eq!(deletions, [of("uid-of-link", None), secret.clone(), secret]);

    // Another token: the Secrets are replaced only if they are as they were.
    east.accounts.tokens[0].data.get_or_insert_default().insert(
        "token".to_owned(),
        k8s_openapi::ByteString(token(9, None).into_bytes()),
    );
    let case = LinkCase {
        loaded: &own,
        link: &own.links[0],
        source: &west,
        target: &east,
        now: jiff::Timestamp::UNIX_EPOCH,
    };
    let planned = case.plan(&east.accounts).unwrap();
    let versions = planned.source.iter().map(|step| match &step.action {
        Action::Renew(object) => object["metadata"]["resourceVersion"].clone(),
        _ => panic!("no Secret"),
    });
    assert_eq!(versions.collect::<Vec<_>>(), [json!("7"), json!("7")]);
}

/// A file that was cut off, or is another one of the same name, deletes nothing by itself.
#[test]
fn nothing_is_deleted_without_the_consent_of_the_user() {
    let [east, west] = done(&loaded(FILE));
    let mut without = loaded(&without_link());
    without.consent.prunes = None;
    let plan = both(&without, &east, &west);
    assert_eq!(lines(&plan), Vec::<String>::new());
    assert!(!plan.is_pending() && !plan.is_destructive());
    assert_eq!((plan.stays(), plan.unlinks()), (7, 0));
    let text = anstream::adapter::strip_str(&view::text(&plan)).to_string();
    assert!(
        text.contains(
            "west\n  · Link east: not in the file\n  · 2 Secrets cluster-credentials-east: not in the file\n"
        ),
        "{text}"
    );
    assert!(
        text.ends_with("Nothing to write. 7 objects stay without --prune.\n"),
        "{text}"
    );
    without.consent.prunes = Some(0);
    assert_eq!(both(&without, &east, &west).unlinks(), 1);
}

#[test]
fn link_of_others_is_changed_only_with_the_consent_of_the_user() {
    let mut own = loaded(FILE);
    own.consent.takes_over = false;
    let [east, mut west] = done(&own);
    // As the file says: it only gets the label.
    west.links[0].labels_mut().clear();
    let plan = both(&own, &east, &west);
    assert_eq!(
        lines(&plan),
        ["west patch Link linkerd-multicluster/east: taken over as it is"]
    );
    west.links[0].spec.excluded_labels = vec!["secret".to_owned()];
    let plan = both(&own, &east, &west);
    assert_eq!(
        lines(&plan),
        [
            "west: others have made the Link east, and it is not as the file says (excludedLabels); pass --take-over to \
             change it"
        ]
    );
}
