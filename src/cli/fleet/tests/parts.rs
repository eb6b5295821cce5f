//! What is planned if only some of the clusters are used.

use kube::ResourceExt as _;
use links::fleet::{
    facts::ClusterFacts, loaded::LoadedFleet, part::UsedClusters, plan::FleetPlan, remaining,
};
use mirror_core::api::{
    labels,
    link::{LinkSpec, ProbeSpec},
};
use serde_json::{Value, json};

use super::planned::{FILE, done, installed, lines, loaded, plan_with, token, with_link};
use crate::cli::fleet::view;

/// A plan with one cluster.
fn plan(loaded: &LoadedFleet, name: &str, facts: &ClusterFacts) -> FleetPlan {
    let used = UsedClusters::named(loaded, &[name.to_owned()], |_| true).unwrap();
    plan_with(loaded, &used, &[(name, Ok(facts))])
}

/// What is not done, and the steps that remain, as `for cluster: command`.
fn left(plan: &FleetPlan) -> (Vec<String>, Vec<String>) {
    let not_done = plan.clusters.iter().flat_map(|cluster| &cluster.not_done);
    let steps = plan.remaining.iter();
    let steps = steps.map(|step| format!("{}: {}", step.cluster, step.command));
    (not_done.cloned().collect(), steps.collect())
}

const HAND_OVER: [&str; 3] = [
    "east: linkerd-mc fleet credentials --file fleet.yaml --target east --source west --with-link --output-dir handed",
    "west: linkerd-mc link --from-file handed/west/east.yaml --source west",
    "west: linkerd-mc fleet apply --file fleet.yaml --only west",
];
const APPLY_EAST: &str = "east: linkerd-mc fleet apply --file fleet.yaml --only east";

fn hand_over_by_east() -> Vec<&'static str> {
    [&[APPLY_EAST], &HAND_OVER[..]].concat()
}

#[test]
fn target_cluster_makes_the_account_and_hands_over_its_credentials() {
    let loaded = loaded(FILE);
    let new = plan(&loaded, "east", &installed("east", "192.0.2.1"));
    assert_eq!(
        lines(&new),
        [
            "east create ClusterRole /west: the account of west",
            "east create ServiceAccount linkerd-multicluster/west: the account of west",
            "east create Secret linkerd-multicluster/west-bound: the account of west",
            "east create ClusterRoleBinding /west: the account of west",
        ]
    );
    let (not_done, steps) = left(&new);
    assert_eq!(not_done, [""; 0]);
    assert_eq!(steps, HAND_OVER);

    // Nothing is known of the source cluster, and nothing is concluded.
    let [mut east, _] = done(&loaded);
    let all = plan(&loaded, "east", &east);
    assert!(!all.is_pending() && !all.has_problems() && all.remaining.is_empty());
    assert_eq!(
        view::text(&all),
        "Nothing to do. 1 cluster was left out by --only.\n"
    );
    // A role of an older version needs no new credentials.
    east.accounts.roles[0].rules.as_mut().unwrap().pop();
    let older = plan(&loaded, "east", &east);
    assert_eq!(
        lines(&older),
        ["east patch ClusterRole /west: not as it has to be"]
    );
    assert_eq!(older.remaining, []);

    // A rotation has replaced the first token.
    let [mut east, _] = done(&loaded);
    let rotated = &mut east.accounts.tokens[0];
    rotated.metadata.name = Some("west-token-x7k2p".to_owned());
    let label = (labels::TOKEN_OF_LINK.to_owned(), "id".to_owned());
    rotated.labels_mut().extend([label]);
    let all = plan(&loaded, "east", &east);
    assert_eq!((lines(&all), all.remaining), (vec![], vec![]));

    // Without a gateway, nobody could use the credentials.
    let mut east = installed("east", "192.0.2.1");
    east.target = Some(Err("no gateway".to_owned()));
    let without = plan(&loaded, "east", &east);
    assert_eq!(lines(&without), ["east: no gateway"]);
    assert_eq!(without.remaining, []);
}

#[test]
fn source_cluster_waits_for_what_only_its_target_cluster_can_make() {
    let loaded = loaded(FILE);
    let new = plan(&loaded, "west", &installed("west", "192.0.2.2"));
    assert!(!new.is_pending() && !new.has_problems());
    let (not_done, steps) = left(&new);
    assert_eq!(
        not_done,
        [
            "no Link is created to east: it needs facts of its target cluster, which was not read",
            "no credentials are written for east: only the target cluster has the token",
        ]
    );
    assert_eq!(steps, hand_over_by_east());
    let text = view::text(&new) + &remaining::text(&new.remaining);
    let text = anstream::adapter::strip_str(&text).to_string();
    let end = "Nothing to write. 1 cluster was left out by --only.\n# What remains, for east\nlinkerd-mc fleet apply";
    assert!(
        text.starts_with("west\n  · no Link is created to east: "),
        "{text}"
    );
    assert!(text.contains(end), "{text}");
    assert_eq!(text.matches("# What remains, for west\n").count(), 1);

    let [_, west] = done(&loaded);
    let all = plan(&loaded, "west", &west);
    assert!(!all.is_pending() && !all.has_problems());
    assert_eq!(left(&all), (vec![], vec![]));

    // One of the Secrets is missing, or is not the fleet's.
    for change in [
        |west: &mut ClusterFacts| drop(west.credentials.pop()),
        |west: &mut ClusterFacts| west.credentials[0].labels_mut().clear(),
    ] {
        let [_, mut west] = done(&loaded);
        change(&mut west);
        let (not_done, steps) = left(&plan(&loaded, "west", &west));
        assert_eq!(not_done.len(), 1, "{not_done:?}");
        assert_eq!(steps, hand_over_by_east());
    }
}

/// Of a Link that cannot be decoded, little more is known than its name.
#[test]
fn link_that_cannot_be_decoded_is_not_written() {
    let loaded = loaded(FILE);
    let [east, mut west] = done(&loaded);
    west.links[0].spec = LinkSpec {
        target_cluster_name: "east".to_owned(),
        ..LinkSpec::default()
    };
    let why = "spec.selector.matchLabels: no text".to_owned();
    west.unreadable = [("east".to_owned(), why)].into();
    let expected = ["west: the Link east cannot be decoded: spec.selector.matchLabels: no text"];
    assert_eq!(lines(&plan(&loaded, "west", &west)), expected);
    let used = UsedClusters::default();
    let all = plan_with(&loaded, &used, &[("east", Ok(&east)), ("west", Ok(&west))]);
    assert_eq!(lines(&all), expected);
}

#[test]
fn settings_of_the_file_are_written_and_what_the_target_cluster_says_stays() {
    let all = loaded(FILE);
    let [_, mut west] = done(&all);
    // What the target cluster would say now is something else.
    let spec = &mut west.links[0].spec;
    spec.gateway_address = "192.0.2.77".to_owned();
    spec.gateway_identity = "other.id".to_owned();
    spec.target_cluster_domain = "other.local".to_owned();
    spec.probe_spec.path = "/other".to_owned();
    assert_eq!(lines(&plan(&all, "west", &west)), [""; 0]);

    let other = loaded(
        "name: f\nclusters: [{name: east, gatewayPort: 4243, apiServerAddress: east.example.com}, {name: west}]\n\
         links: [{target: east, source: west, settings: {federation: none, excludedLabels: [a]}}]\n",
    );
    let changed = plan(&other, "west", &west);
    assert_eq!(
        lines(&changed),
        [
            "west patch Link linkerd-multicluster/east: other settings; gatewayPort: 4143 -> 4243; excludedLabels:  -> a \
             (link, line 3); federation:  -> none (link, line 3)"
        ]
    );
    assert!(changed.is_destructive());
    assert_eq!(left(&changed), (vec![], vec![]));

    let without = loaded(&FILE.replace("name: east}", "name: east, gateway: false}"));
    let changed = lines(&plan(&without, "west", &west));
    assert_eq!(changed.len(), 1);
    assert!(
        changed[0].contains("; gatewayAddress: 192.0.2.77 -> ;"),
        "{changed:?}"
    );

    // A gateway cannot be added without its address.
    let [_, mut west] = done(&all);
    let link = &mut west.links[0];
    link.annotations_mut()
        .insert(labels::API_GATEWAY.to_owned(), "{}".to_owned());
    link.spec = LinkSpec {
        gateway_address: String::new(),
        gateway_port: String::new(),
        gateway_identity: String::new(),
        probe_spec: ProbeSpec::default(),
        selector: None,
        ..link.spec.clone()
    };
    let missing = plan(&all, "west", &west);
    assert_eq!(lines(&missing), [""; 0]);
    let (not_done, steps) = left(&missing);
    assert_eq!(
        not_done,
        [
            "the Link to east stays without a gateway: it needs facts of its target cluster, which was not read"
        ]
    );
    assert_eq!(steps, hand_over_by_east());
}

#[test]
fn link_of_somebody_else_is_not_taken_over_without_its_target_cluster() {
    let loaded = loaded(FILE);
    let east = installed("east", "192.0.2.1");
    let of = |fleet| {
        let mut west = installed("west", "192.0.2.2");
        with_link(&loaded, &mut west, &east, &token(1, None), fleet);
        plan(&loaded, "west", &west)
    };
    let foreign = of(None);
    assert!(!foreign.is_pending() && !foreign.has_problems());
    let (not_done, steps) = left(&foreign);
    assert_eq!(
        not_done[0],
        "not taken over: the Link to east, which others have made, and whose target cluster was not read"
    );
    assert_eq!(steps, hand_over_by_east());
    let other = of(Some("g"));
    assert_eq!(
        lines(&other),
        ["west: the Link east belongs to the fleet g"]
    );
    assert_eq!(left(&other), (vec![], vec![]));
}

#[test]
fn what_is_not_in_the_file_is_removed_by_the_owners_in_order() {
    let (full, empty) = (
        loaded(FILE),
        loaded(&FILE.replace("{target: east, source: west}", "")),
    );
    let [east, west] = done(&full);
    let in_west = plan(&empty, "west", &west);
    assert_eq!(
        lines(&in_west),
        [
            "west delete Link linkerd-multicluster/east: not in the file",
            "west delete Secret linkerd-multicluster/cluster-credentials-east: not in the file",
            "west delete Secret linkerd/cluster-credentials-east: not in the file",
        ]
    );
    assert_eq!(
        left(&in_west),
        (vec![], vec![format!("{APPLY_EAST} --prune")])
    );

    // The account stays as long as nobody says that it is not used.
    let in_east = plan(&empty, "east", &east);
    assert!(!in_east.is_pending() && !in_east.has_problems());
    let (not_done, steps) = left(&in_east);
    assert_eq!(
        not_done,
        ["the account of west stays: its cluster was not read, and may use it"]
    );
    assert_eq!(
        steps,
        [
            &format!("{} --prune", HAND_OVER[2]),
            "east: linkerd-mc --context east allow --delete --service-account-name west | kubectl --context east delete -f -",
        ]
    );
    // The same if the cluster itself has left the file.
    let left_file = loaded("name: f\nclusters: [{name: east, context: admin@east}]\nlinks: []\n");
    let (_, steps) = left(&plan(&left_file, "east", &east));
    assert_eq!(
        steps[1],
        "east: linkerd-mc --context admin@east allow --delete --service-account-name west | kubectl --context admin@east delete -f -"
    );
    let removed = plan(&left_file, "west", &west);
    assert_eq!(lines(&removed).len(), 3);
    assert_eq!(left(&removed).1, [format!("{APPLY_EAST} --prune")]);
}

#[test]
fn steps_of_a_mesh_are_in_an_order_in_which_they_can_be_done() {
    let mesh = loaded(
        "name: f\nclusters: [{name: east}, {name: west}, {name: north}]\nlinks: [{mesh: all}]\n",
    );
    let west = plan(&mesh, "west", &installed("west", "192.0.2.2"));
    assert_eq!(west.count("create"), 8);
    let (_, steps) = left(&west);
    let file = "--file fleet.yaml";
    let credentials = |target: &str, sources: &str| {
        format!(
            "{target}: linkerd-mc fleet credentials {file} --target {target} --source {sources} --with-link --output-dir handed"
        )
    };
    let apply =
        |cluster: &str| format!("{cluster}: linkerd-mc fleet apply {file} --only {cluster}");
    let take = |source: &str, target: &str| {
        format!(
            "{source}: linkerd-mc link --from-file handed/{source}/{target}.yaml --source {source}"
        )
    };
    assert_eq!(
        steps,
        [
            apply("east"),
            apply("north"),
            credentials("east", "west"),
            credentials("north", "west"),
            credentials("west", "east,north"),
            take("east", "west"),
            apply("east"),
            take("north", "west"),
            apply("north"),
            take("west", "east"),
            take("west", "north"),
            apply("west"),
        ]
    );
    // Of the link between the others, nothing is said.
    let value: Value = json!(west);
    assert_eq!(value["notUsed"], json!(["east", "north"]));
    assert_eq!(value["clusters"].as_array().unwrap().len(), 1);
    assert_eq!(value["remaining"][0]["cluster"], "east");
    assert_eq!(value["clusters"][0]["notDone"].as_array().unwrap().len(), 2);
}
