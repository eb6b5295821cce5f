//! Names of clusters that a file changes, or gives twice.

use std::collections::BTreeMap;

use super::planned::{FILE, done, installed, loaded, name};
use crate::{
    cli::{
        common::test_server::TestServer,
        fleet::{
            facts::ClusterFacts,
            gather::{ReadCluster, ReadClusters},
            identity::tell_apart,
        },
    },
    hint::hint_of,
};

fn read<const N: usize>(clusters: [(&str, ClusterFacts); N]) -> ReadClusters {
    let read = clusters.map(|(of, facts)| {
        let cluster = TestServer::new(Vec::new()).cluster();
        (name(of), Ok(ReadCluster { cluster, facts }))
    });
    BTreeMap::from(read)
}

fn with_uid(uid: &str, mut facts: ClusterFacts) -> ClusterFacts {
    facts.uid = Some(uid.to_owned());
    facts
}

#[tokio::test]
async fn names_of_one_cluster_are_told_apart() {
    let renamed = FILE.replace("east", "orient");
    let (own, other) = (loaded(FILE), loaded(&renamed));
    let new = || installed("orient", "192.0.2.1");

    // As the file says.
    let [east, west] = done(&own);
    let mut good = read([("east", with_uid("e", east)), ("west", with_uid("w", west))]);
    tell_apart(&own, &mut good).unwrap();
    assert!(good.values().all(Result::is_ok));

    // The cluster was read under both names.
    let [east, west] = done(&own);
    let mut both = read([
        ("east", with_uid("e", east)),
        ("orient", with_uid("e", new())),
        ("west", with_uid("w", west)),
    ]);
    let error = tell_apart(&other, &mut both).unwrap_err();
    let said =
        "orient is the cluster that this fleet has linked as east, and a cluster cannot be renamed";
    assert!(error.to_string().starts_with(said), "{error}");
    assert!(hint_of(&error).unwrap().contains("keep the name east"));

    // No context has the old name, and its UID may not be read: it has the account of the Link.
    let [east, west] = done(&own);
    let mut unread = read([("orient", east), ("west", west)]);
    let error = tell_apart(&other, &mut unread).unwrap_err();
    assert!(error.to_string().starts_with(said), "{error}");

    // Only accounts have the old name: nothing of it is read, so nothing of it is removed.
    let [east, _] = done(&own);
    let mut left = read([
        ("east", with_uid("e", east)),
        ("orient", with_uid("e", new())),
        ("west", with_uid("w", installed("west", "192.0.2.2"))),
    ]);
    tell_apart(&other, &mut left).unwrap();
    let east = left[&name("east")].as_ref().err();
    assert_eq!(
        east.map(String::as_str),
        Some("it is called orient in the file")
    );

    // A cluster that has left the file is another one, also if it was read.
    let [east, west] = done(&own);
    let mut gone = read([
        ("east", with_uid("e", east)),
        ("orient", with_uid("o", new())),
        ("west", with_uid("w", west)),
    ]);
    tell_apart(&other, &mut gone).unwrap();
    assert!(gone.values().all(Result::is_ok));

    // Two names of the file.
    let same = || with_uid("e", new());
    let mut twice = read([("east", same()), ("west", same())]);
    let error = tell_apart(&own, &mut twice).unwrap_err();
    assert_eq!(error.to_string(), "east and west are the same cluster");
}
