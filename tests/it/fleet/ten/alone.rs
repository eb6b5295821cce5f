//! A cluster that does not answer, and one that leaves the file.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use control_plane::ControlPlane;
use futures::future::join_all;
use kube::{ResourceExt as _, api::ListParams};
use serde_json::json;

use super::{LINKS, MESH, apply_with, nothing_is_left, say};
use crate::{
    fleet::many::{Inventory, Planes, SHOP, is_ready, shape},
    support::{
        links::{condition, condition_is, links},
        objects::{annotation, patch, service},
    },
};

/// Links by their names: UID, generation, and since when they are ready and connected.
async fn since(plane: &ControlPlane, except: &str) -> BTreeMap<String, String> {
    let found = links(plane).list(&ListParams::default()).await.unwrap();
    let others = found.items.iter().filter(|link| link.name_any() != except);
    let since = others.map(|link| {
        let status = link.status.clone().unwrap_or_default();
        let at = |type_| {
            let condition = condition(&status, type_).unwrap();
            (condition.status.clone(), condition.last_transition_time.0)
        };
        assert!(is_ready(link), "{link:?}");
        let said = format!(
            "{:?} {:?} {:?} {:?}",
            link.uid(),
            link.metadata.generation,
            at("Ready"),
            at("Connected")
        );
        (link.name_any(), said)
    });
    since.collect()
}

/// Pauses the API server of the last cluster. The Links between the others stay ready and connected all the time.
pub(super) async fn others_are_unaffected_by_a_cluster_that_does_not_answer(
    planes: &Planes,
    names: &[String],
) {
    let (stopped, others) = planes.all.split_last().unwrap();
    let before = join_all(others.iter().map(|plane| since(plane, stopped.name()))).await;
    assert_eq!(before.iter().map(BTreeMap::len).sum::<usize>(), LINKS - 18);
    stopped.pause_api_server().unwrap();
    let started = Instant::now();
    for plane in others {
        condition_is(plane, stopped.name(), "Connected", "False", "Unreachable").await;
    }
    say(
        "a cluster is stopped, until all say so",
        started.elapsed(),
        0,
    );

    let took = followed(others, "while one is stopped").await;
    say(
        "72 mirrors follow a change of 9 Services, one cluster stopped",
        took,
        0,
    );
    let mesh = planes.file("fleet.yaml", names, MESH);
    for (command, code, says) in [
        (
            "plan",
            1,
            "Nothing to do in the clusters that were read. 1 cluster was not read.",
        ),
        (
            "apply",
            1,
            "Nothing to do in the clusters that were read. 1 cluster was not read.",
        ),
        ("status", 1, "72 ready (+)"),
    ] {
        let started = Instant::now();
        let outcome = planes.run(command, &mesh, &[]);
        say(
            &format!("fleet {command}, one cluster stopped"),
            started.elapsed(),
            0,
        );
        assert_eq!(outcome.code, code, "{}{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.contains(says), "{}", outcome.stdout);
    }
    let after = join_all(others.iter().map(|plane| since(plane, stopped.name()))).await;
    assert_eq!(after, before);

    stopped.resume_api_server().unwrap();
    let started = Instant::now();
    planes.ready(names).await;
    say(
        "the cluster goes on, until all Links are ready",
        started.elapsed(),
        0,
    );
}

/// Changes the Service of each of these clusters, and waits until its mirrors in the others have followed.
async fn followed(planes: &[ControlPlane], team: &str) -> Duration {
    let started = Instant::now();
    let change = json!({ "metadata": { "annotations": { "team": team } } });
    join_all(
        planes
            .iter()
            .map(|plane| patch(plane, SHOP, "web", change.clone())),
    )
    .await;
    for plane in planes {
        for other in planes.iter().filter(|other| other.name() != plane.name()) {
            let mirror = format!("web-{}", other.name());
            service(plane, SHOP, &mirror, |now| {
                annotation(now, "team") == Some(team)
            })
            .await;
        }
    }
    started.elapsed()
}

/// All mirrors exist, and follow a change of their Services.
pub(super) async fn mirrors_are_there(planes: &Planes, names: &[String]) {
    assert_eq!(planes.all.len(), names.len());
    let took = followed(&planes.all, "blue").await;
    say("90 mirrors follow a change of 10 Services", took, 0);
}

/// The last cluster leaves the file. `fleet apply` deletes its objects in all clusters, and changes nothing else.
pub(super) async fn one_leaves(
    planes: &mut Planes,
    names: &[String],
    empty: &[Inventory],
    mesh: &[Inventory],
) {
    let (left, rest) = names.split_last().unwrap();
    let (took, writes) = apply_with(planes, rest, MESH, &["--also", left]);
    say("fleet apply, one cluster has left the file", took, writes);
    nothing_is_left(planes, rest, MESH);
    let now = planes.inventories().await;
    assert_eq!(now.last(), empty.last());
    for (before, now) in mesh.iter().zip(&now).take(rest.len()) {
        let mut expected = before.clone();
        let is_of = |key: &String| key.ends_with(left) || key.ends_with(&format!("{left}-token"));
        expected.retain(|key, _| !is_of(key));
        // A Link, two Secrets, an account of four objects, a mirror, and a probe Service.
        assert_eq!(before.len() - expected.len(), 9);
        assert_eq!(*now, expected);
    }
    // Later changes of the other clusters create no objects.
    let others = &planes.all[..rest.len()];
    let started = Instant::now();
    followed(others, "green").await;
    followed(others, "blue").await;
    say(
        "72 mirrors follow two changes of 9 Services",
        started.elapsed(),
        0,
    );
    // The mirrors have the versions of the changed Services.
    let shapes = |all: &[Inventory]| all.iter().map(shape).collect::<Vec<_>>();
    assert_eq!(shapes(&planes.inventories().await), shapes(&now));
}
