//! Clusters that got another name, were built again, or are not those that their contexts promise.

use std::{collections::BTreeMap, time::Duration};

use kube::ResourceExt as _;
use links::{
    fleet::{
        apply::FleetOutcome,
        facts::ClusterFacts,
        gather::{ReadCluster, ReadClusters, known},
        identity::tell_apart,
        loaded::LoadedFleet,
        part::UsedClusters,
    },
    test_server::TestServer,
};
use mirror_core::api::labels;
use serde_json::{Value, json};

use super::planned::{FILE, done, installed, lines, loaded, name, plan, plan_with, short};
use crate::cli::fleet::remove::remove_all;

fn read<const N: usize>(clusters: [(&str, ClusterFacts); N]) -> ReadClusters {
    let read = clusters.map(|(of, facts)| {
        let cluster = TestServer::new(Vec::new()).cluster();
        (name(of), Ok(ReadCluster { cluster, facts }))
    });
    BTreeMap::from(read)
}

/// What is planned of what was read, and why a cluster is not used.
fn planned<const N: usize>(
    loaded: &LoadedFleet,
    clusters: [(&str, ClusterFacts); N],
) -> Vec<String> {
    let mut read = read(clusters);
    tell_apart(loaded, &mut read).unwrap();
    let of = read.keys().map(ToString::to_string);
    let of: Vec<String> = of.collect();
    let facts: Vec<_> = of
        .iter()
        .map(String::as_str)
        .zip(known(&read).into_values())
        .collect();
    let plan = plan_with(loaded, &UsedClusters::default(), &facts);
    let unused = plan.clusters.iter();
    let unused = unused.filter_map(|plan| Some(format!("{}: {}", plan.name, plan.error.as_ref()?)));
    lines(&plan).into_iter().chain(unused).collect()
}

fn other(mut facts: ClusterFacts) -> ClusterFacts {
    facts.uid = Some("uid-of-another".to_owned());
    if let Some(Ok(side)) = &mut facts.target {
        side.facts.uid.clone_from(&facts.uid);
    }
    facts
}

#[tokio::test]
async fn target_that_got_another_name_is_linked_under_it_before_the_old_link_goes() {
    let [east, west] = done(&loaded(FILE));
    let renamed = loaded(&FILE.replace("east", "orient"));
    assert_eq!(
        planned(&renamed, [("orient", east), ("west", west)]),
        [
            "west create Secret linkerd-multicluster/cluster-credentials-orient: link, line 3",
            "west create Secret linkerd/cluster-credentials-orient: link, line 3",
            "west create Link linkerd-multicluster/orient: link, line 3",
            "west delete Link linkerd-multicluster/east: its cluster is called orient in the file",
            "west delete Secret linkerd-multicluster/cluster-credentials-east: not in the file",
            "west delete Secret linkerd/cluster-credentials-east: not in the file",
        ]
    );
    // Also if a context of the old name leads to it.
    let [east, west] = done(&loaded(FILE));
    let [again, _] = done(&loaded(FILE));
    let twice = planned(
        &renamed,
        [("east", again), ("orient", east), ("west", west)],
    );
    assert_eq!(twice.len(), 6, "{twice:?}");
}

#[tokio::test]
async fn source_that_got_another_name_keeps_its_account() {
    let [east, west] = done(&loaded(FILE));
    let renamed = loaded(&FILE.replace("west", "occident"));
    let planned = planned(&renamed, [("east", east), ("occident", west)]);
    assert_eq!(planned, Vec::<String>::new());
}

#[tokio::test]
async fn cluster_that_was_built_again_is_linked_only_if_the_user_says_so() {
    let own = loaded(FILE);
    let [_, west] = done(&own);
    let rebuilt = || other(installed("east", "192.0.2.1"));
    let said = "east: its context leads to another cluster than the one that this fleet has linked as east; if east was \
                built again, pass --replace east";
    assert_eq!(planned(&own, [("east", rebuilt()), ("west", west)]), [said]);

    let [_, west] = done(&own);
    let mut own = own;
    own.consent.replaced.insert(name("east"));
    assert_eq!(
        planned(&own, [("east", rebuilt()), ("west", west)]),
        [
            "east create ClusterRole /west: the account of west",
            "east create ServiceAccount linkerd-multicluster/west: the account of west",
            "east create Secret linkerd-multicluster/west-bound: the account of west",
            "east create ClusterRoleBinding /west: the account of west",
            "west patch Secret linkerd-multicluster/cluster-credentials-east: new credentials",
            "west patch Secret linkerd/cluster-credentials-east: new credentials",
            "west patch Link linkerd-multicluster/east: its cluster was built again; clusterUid: uid-of-cluster-east -> \
             uid-of-another",
        ]
    );
}

/// A context with a name that the user gave it leads to a cluster of another environment.
#[tokio::test]
async fn account_is_not_handed_to_another_cluster_of_the_same_name() {
    let own = loaded(FILE);
    let [east, _] = done(&own);
    let stranger = other(installed("west", "192.0.2.2"));
    assert_eq!(
        planned(&own, [("east", east), ("west", stranger)]),
        [
            "west: its context leads to another cluster than the one that this fleet has linked as west; if west was built \
             again, pass --replace west"
        ]
    );
}

#[tokio::test]
async fn account_stays_with_a_link_that_cannot_be_deleted_whatever_the_names_of_its_clusters() {
    for (old, new) in [("west", "west"), ("west", "occident"), ("east", "orient")] {
        let [east, mut west] = done(&loaded(FILE));
        west.links[0].metadata.uid = Some("read".to_owned());
        let mut live = json!(west.links[0]);
        live["metadata"]["uid"] = json!("of a Link that was made since");
        let file = FILE.replace("{target: east, source: west}", "");
        let file = loaded(&file.replace(old, new));
        let of = |facts, objects: Vec<Value>| {
            let cluster = TestServer::new(objects).cluster();
            Ok(ReadCluster { cluster, facts })
        };
        let renamed = |before: &str| name(&before.replace(old, new));
        let read = ReadClusters::from([
            (renamed("east"), of(east, Vec::new())),
            (renamed("west"), of(west, vec![live])),
        ]);
        let facts = known(&read);
        let facts: Vec<_> = facts
            .iter()
            .map(|(of, facts)| (of.to_string(), *facts))
            .collect();
        let facts: Vec<_> = facts
            .iter()
            .map(|(of, facts)| (of.as_str(), *facts))
            .collect();
        let plan = plan_with(&file, &UsedClusters::default(), &facts);
        assert_eq!(lines(&plan).len(), 7, "{:?}", lines(&plan));
        let (mut outcome, unready) = (FleetOutcome::default(), BTreeMap::new());
        let removing = remove_all(&file, &read, &plan, Duration::ZERO, &unready, &mut outcome);
        Box::pin(removing).await;
        assert_eq!(
            (outcome.written, outcome.failed.len()),
            (0, 1),
            "{new}: {:?}",
            outcome.failed
        );
    }
}

/// A link that was made under another address stays, also if its account was deleted: the cluster is the same.
#[tokio::test]
async fn link_whose_account_is_gone_gets_another_one() {
    let own = loaded(FILE);
    let moved = loaded(&FILE.replace(
        "{name: east}",
        "{name: east, apiServerAddress: https://east.internal}",
    ));
    let [mut east, mut west] = done(&own);
    let [_, reached] = done(&moved);
    west.credentials = reached.credentials;
    east.accounts = links::fleet::facts::AccountFacts::default();
    let planned = planned(&moved, [("east", east), ("west", west)]);
    assert_eq!(planned.len(), 6, "{planned:?}");
    assert!(planned[4].ends_with("new credentials"), "{planned:?}");
}

#[tokio::test]
async fn context_of_a_cluster_that_left_the_file_is_not_trusted_by_its_name() {
    let without = loaded(
        &FILE
            .replace("{target: east, source: west}", "")
            .replace(", {name: west}", ""),
    );
    // It is another one, and uses no account: nothing is concluded.
    let [east, _] = done(&loaded(FILE));
    let stranger = other(installed("west", "192.0.2.2"));
    assert_eq!(
        planned(&without, [("east", east), ("west", stranger)]),
        [
            "east: the ServiceAccount west stays: west was not read, and may use it",
            "west: it is not in the file, and the context with its name does not lead to the cluster that this fleet has \
             linked as west",
        ]
    );
    // It is the right one.
    let [east, west] = done(&loaded(FILE));
    let planned = planned(&without, [("east", east), ("west", west)]);
    assert_eq!(planned.len(), 7, "{planned:?}");
}

#[tokio::test]
async fn two_names_of_one_cluster_are_refused() {
    let east = || installed("east", "192.0.2.1");
    let mut twice = read([("east", east()), ("west", east())]);
    let error = tell_apart(&loaded(FILE), &mut twice).unwrap_err();
    assert_eq!(error.to_string(), "east and west are the same cluster");
}

#[test]
fn file_that_got_an_id_takes_its_links_over() {
    let [mut east, mut west] = done(&loaded(FILE));
    let accounts = &mut east.accounts;
    let mut rotated = accounts.tokens[0].clone();
    rotated.metadata.name = Some("west-new".to_owned());
    accounts.tokens.push(rotated);
    let file = FILE.replace("name: f", "name: f\nid: t");
    let with_id = loaded(&file);
    assert_eq!(with_id.fleet.name, "f.t");
    let said = short(&with_id, [&east, &west]);
    let notes = said.iter().filter(|line| line.contains("patch"));
    assert_eq!((notes.count(), said.len()), (8, 8), "{said:?}");
    // Those of another file stay as they are.
    let labels = west.links[0].labels_mut();
    labels.insert(labels::FLEET.to_owned(), "f.u".to_owned());
    assert_eq!(
        short(&with_id, [&east, &west]),
        ["west: the Link east belongs to the fleet f.u"]
    );
    let none = loaded(&file.replace("{target: east, source: west}", ""));
    let none = plan(&none, &[("east", Ok(&east)), ("west", Ok(&west))]);
    assert_eq!(
        none.clusters[1].not_done,
        ["the Link east stays: it belongs to the fleet f.u, another file with this name"]
    );
    assert!(!none.is_pending());
}
