//! `rotate --file` and `drain --file` on real control planes.

use std::{collections::BTreeMap, path::PathBuf};

use control_plane::ControlPlane;
use kube::ResourceExt as _;
use linkerd_mc::api::labels as l;
use serde_json::Value;

use super::Fleet;
use crate::support::{
    controller::Controller,
    credentials::{destination, is_of, kubeconfig, token, token_secrets},
    links::{condition_is, links},
    objects::{join, members_are, namespace},
    program::Outcome,
};

pub(super) const MESH: &str = "links:\n- mesh: all\n";

/// The names of the token Secrets of each of these accounts. An account has the name of a cluster.
pub(super) async fn tokens(
    plane: &ControlPlane,
    accounts: &[&str],
) -> BTreeMap<String, Vec<String>> {
    let found = token_secrets(plane).await;
    let mut tokens: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for secret in found {
        let account = secret.annotations().get(l::SERVICE_ACCOUNT_NAME).cloned();
        let account = account.unwrap_or_default();
        if accounts.contains(&account.as_str()) {
            tokens.entry(account).or_default().push(secret.name_any());
        }
    }
    tokens
}

/// The token that the controller of `source` uses for `target`, and the name of its Secret in `target`.
pub(super) async fn in_use(source: &ControlPlane, target: &ControlPlane) -> (String, String) {
    let held = token(&kubeconfig(source, target.name()).await);
    let found = token_secrets(target).await;
    let secret = found.iter().find(|secret| is_of(&held, secret)).unwrap();
    (held.clone(), secret.name_any())
}

pub(super) fn results(outcome: &Outcome) -> BTreeMap<String, String> {
    let document: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let links = document["links"].as_array().unwrap().iter();
    let links = links.map(|link| {
        let text = |key: &str| link[key].as_str().unwrap().to_owned();
        (
            format!("{}/{}", text("source"), text("cluster")),
            text("result"),
        )
    });
    links.collect()
}

/// The number of links by result.
fn counted(outcome: &Outcome) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for result in results(outcome).into_values() {
        *counted.entry(result).or_default() += 1;
    }
    counted
}

fn ended(pairs: &[(&str, usize)]) -> BTreeMap<String, usize> {
    let pairs = pairs.iter();
    pairs
        .map(|(result, count)| ((*result).to_owned(), *count))
        .collect()
}

/// A fleet whose three clusters all link to each other, and its file. Each cluster has a controller, and a stand-in for
/// the Deployment of Linkerd's destination controller.
pub(super) async fn linked(fleet: &str, names: &[&str; 3]) -> (Fleet, PathBuf, [Controller; 3]) {
    let fleet = Fleet::start(fleet).await;
    let controllers = fleet
        .planes
        .each_ref()
        .map(|plane| Controller::start(plane, &[]));
    for plane in &fleet.planes {
        destination(plane).await;
    }
    let mesh = fleet.file(names, MESH);
    let applied = fleet.run("apply", &mesh, &[]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    (fleet, mesh, controllers)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn rotate_replaces_all_tokens_with_one_restart_for_each_cluster() {
    let names = ["turn-east", "turn-north", "turn-west"];
    let (mut fleet, mesh, _controllers) = linked("turn", &names).await;
    let planes = fleet.planes.clone();
    let [east, north, west] = &planes;
    fleet.writes();

    let dry = fleet.run("rotate", &mesh, &["--dry-run", "-o=json"]);
    assert_eq!((dry.code, counted(&dry)), (0, ended(&[("planned", 6)])));
    let all = format!(
        "in all: create 6 tokens, and restart linkerd-destination in 3 clusters: {}\n",
        names.join(", ")
    );
    assert!(dry.stderr.ends_with(&all), "{}", dry.stderr);
    assert_eq!(fleet.writes(), [""; 0]);

    // Without a terminal, all links are rotated only with `--yes`.
    let refused = fleet.run("rotate", &mesh, &[]).failure();
    assert!(
        refused.contains("cannot prompt for confirmation") && refused.contains("pass --yes"),
        "{refused}"
    );
    assert_eq!(fleet.writes(), [""; 0]);

    // `rotate` also replaces the first token of each account. `apply` does not create this token again.
    let rotated = fleet.run("rotate", &mesh, &["--at-most=2", "--yes", "-o=json"]);
    assert_eq!(rotated.code, 0, "{}", rotated.stderr);
    assert_eq!(counted(&rotated), ended(&[("rotated", 6)]));
    let writes = fleet.writes();
    for plane in &planes {
        let restart = format!("{} patch deployments/linkerd-destination", plane.name());
        let at = writes.iter().enumerate();
        let restarts: Vec<usize> = at.filter(|(_, w)| **w == restart).map(|(i, _)| i).collect();
        let [restart] = restarts[..] else {
            panic!("{writes:?}");
        };
        // The Secrets of both Links got their new tokens before the restart.
        let secrets = format!("{} patch secrets/", plane.name());
        let of_links =
            |writes: &[String]| writes.iter().filter(|w| w.starts_with(&secrets)).count();
        assert_eq!((of_links(&writes[..restart]), of_links(&writes)), (4, 4));
        for (account, tokens) in tokens(plane, &names).await {
            assert_eq!(tokens.len(), 1, "{account}: {tokens:?}");
            assert_ne!(tokens[0], format!("{account}-token"));
        }
    }
    let planned = fleet.run("plan", &mesh, &[]);
    assert_eq!(planned.stdout, "Nothing to do.\n", "{}", planned.stderr);
    let young = ["--older-than=1h", "--yes", "-o=json"];
    let young = fleet.run("rotate", &mesh, &young);
    assert_eq!((young.code, counted(&young)), (0, ended(&[("skipped", 6)])));
    assert_eq!(fleet.writes(), [""; 0]);

    // `rotate` is killed after a random number of writes, and runs again. It does what is left.
    for seed in 1..=3 {
        let mut random = fastrand::Rng::with_seed(seed);
        let after = random.usize(1..12);
        fleet.killed("rotate", &["--yes"], &mesh, after).await;
        let rotated = fleet.run("rotate", &mesh, &["--yes", "-o=json"]);
        assert_eq!(rotated.code, 0, "seed {seed}: {}", rotated.stderr);
        for plane in &planes {
            for (account, tokens) in tokens(plane, &names).await {
                assert_eq!(tokens.len(), 1, "seed {seed}: {account}: {tokens:?}");
            }
        }
    }

    // North does not answer. A restart of Linkerd would cut it off from north, so `rotate` does not restart it.
    // `rotate` deletes no token that is in use.
    north.pause_api_server().unwrap();
    for plane in [east, west] {
        let link = condition_is(plane, names[1], "Connected", "False", "Unreachable");
        link.await;
    }
    let (_, before) = in_use(west, east).await;
    fleet.writes();
    let why = format!(
        "cannot restart linkerd-destination now: {} is unreachable",
        names[1]
    );
    for more in ["--dry-run", "--yes"].map(|flag| [flag, "-o=json"]) {
        let blocked = fleet.run("rotate", &mesh, &more);
        assert_eq!(blocked.code, 1, "{more:?}: {}", blocked.stderr);
        assert_eq!(counted(&blocked), ended(&[("failed", 6)]));
        assert!(blocked.stderr.contains(&why), "{}", blocked.stderr);
    }
    let (held, after) = in_use(west, east).await;
    assert_ne!(before, after);
    let of_west = &tokens(east, &names).await[names[2]];
    assert!(of_west.contains(&before), "{of_west:?}");
    let writes = fleet.writes();
    assert!(
        !writes.iter().any(|w| w.contains("deployments")),
        "{writes:?}"
    );

    // North answers again, and `rotate` does the rest. Links that already have new tokens get no other ones.
    north.resume_api_server().unwrap();
    for plane in [east, west] {
        condition_is(plane, names[1], "Connected", "True", "Connected").await;
    }
    let rest = fleet.run("rotate", &mesh, &["--yes", "-o=json"]);
    assert_eq!(
        (rest.code, counted(&rest)),
        (0, ended(&[("rotated", 6)])),
        "{}",
        rest.stderr
    );
    assert_eq!(in_use(west, east).await, (held, after.clone()));
    assert_eq!(tokens(east, &names).await[names[2]], [after]);

    // With the name of a link, only its tokens are rotated.
    let name = format!("{}/{}", names[2], names[0]);
    let some = fleet.run("rotate", &mesh, &[&name, "-o=json"]);
    assert_eq!(results(&some), [(name, "rotated".to_owned())].into());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn drained_cluster_leaves_federated_services_everywhere_and_rejoins() {
    let fleet = Fleet::start("rest").await;
    let [east, north, west] = &fleet.planes;
    let names = ["rest-east", "rest-north", "rest-west"];
    let _controllers = [east, north, west].map(|plane| Controller::start(plane, &[]));
    namespace("shop", &[east, north, west]).await;
    for plane in [east, north, west] {
        join(plane, "shop", "web", "member", "no").await;
    }
    join(north, "shop", "only", "member", "no").await;
    let mesh = fleet.file(&names, MESH);
    let applied = fleet.run("apply", &mesh, &[]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    for (plane, other) in [(east, names[2]), (west, names[0])] {
        let both = [format!("web@{}", names[1]), format!("web@{other}")];
        let mut both = both.to_vec();
        both.sort();
        members_are(
            plane,
            "shop",
            "web-federated",
            Some(&both.join(",")),
            Some("web"),
        )
        .await;
        members_are(
            plane,
            "shop",
            "only-federated",
            Some(&format!("only@{}", names[1])),
            None,
        )
        .await;
    }

    let dry = fleet.run("drain", &mesh, &[names[1], "--dry-run"]);
    assert_eq!(dry.code, 1, "{}", dry.stderr);
    for name in [names[0], names[2]] {
        let answer = format!("{name} cannot lose rest-north: 2 federated Services would have no");
        assert!(dry.stdout.contains(&answer), "{}", dry.stdout);
        let command = format!(
            "kubectl --context {name} -n linkerd-multicluster annotate links.multicluster.linkerd.io rest-north --overwrite \
             multicluster.linkerd.io/drained-until="
        );
        assert!(dry.stdout.contains(&command), "{}", dry.stdout);
    }
    assert_eq!(drained_until(west, names[1]).await, None);

    // North stays in federated Services that have no other member, and `drain` lists these.
    let drained = fleet.run("drain", &mesh, &[names[1]]);
    assert_eq!(drained.code, 1, "{}", drained.stderr);
    let stays = format!(
        "{}: shop/only-federated\n{}: shop/only-federated\n",
        names[0], names[2]
    );
    assert_eq!(drained.stdout, stays, "{}", drained.stderr);
    for (plane, other) in [(east, names[2]), (west, names[0])] {
        let left = format!("web@{other}");
        members_are(plane, "shop", "web-federated", Some(&left), Some("web")).await;
    }
    let until = drained_until(west, names[1]).await;
    assert!(until.is_some() && until == drained_until(east, names[1]).await);
    // The drain is no difference between the file and the clusters.
    let planned = fleet.run("plan", &mesh, &[]);
    assert_eq!(planned.stdout, "Nothing to do.\n", "{}", planned.stderr);
    let status = fleet.run("status", &mesh, &[]);
    assert!(status.stdout.contains("drained"), "{}", status.stdout);

    // One source cluster does not answer. `drain --end` still works in the other one.
    east.pause_api_server().unwrap();
    let back = fleet.run("drain", &mesh, &[names[1], "--end", "-o=json"]);
    east.resume_api_server().unwrap();
    assert_eq!(back.code, 1, "{}", back.stderr);
    let document: Value = serde_json::from_str(&back.stdout).unwrap();
    let sources = document["sources"].as_array().unwrap().iter();
    let shown = sources.map(|source| (source["source"].as_str(), source["result"].as_str()));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            (Some(names[0]), Some("failed")),
            (Some(names[2]), Some("ended"))
        ]
    );
    assert_eq!(drained_until(west, names[1]).await, None);
    let back = fleet.run("drain", &mesh, &[names[1], "--end"]);
    assert_eq!(back.code, 0, "{}", back.stderr);
    assert!(
        back.stderr
            .contains(&format!("{}: {} is not drained", names[2], names[1])),
        "{}",
        back.stderr
    );
    for plane in [east, west] {
        assert_eq!(drained_until(plane, names[1]).await, None);
    }
}

async fn drained_until(plane: &ControlPlane, link: &str) -> Option<String> {
    let link = links(plane).get(link).await.unwrap();
    link.annotations().get(l::DRAINED_UNTIL).cloned()
}
