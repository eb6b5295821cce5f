//! The accounts of a fleet in a namespace of their own, and from there to another one.

use std::{collections::BTreeSet, time::Duration};

use control_plane::ControlPlane;
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Pod, Service, ServiceAccount},
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    config::Kubeconfig,
};
use linkerd_mc::{api::labels as l, timing};
use serde_json::json;

use super::{Fleet, keep::results};
use crate::support::{
    controller::Controller,
    credentials::{account, client, destination, kubeconfig, token},
    installation::NAMESPACE,
    links::condition_is,
    objects::{export, namespace, service, web},
    program::run,
};

const NAMES: [&str; 3] = ["home-east", "home-north", "home-west"];

/// The accounts of the fleet in a namespace.
async fn accounts(plane: &ControlPlane, namespace: &str) -> BTreeSet<String> {
    let api = Api::<ServiceAccount>::namespaced(plane.client(), namespace);
    let found = api.list(&ListParams::default()).await.unwrap();
    let names = found.iter().map(ServiceAccount::name_any);
    names
        .filter(|name| NAMES.contains(&name.as_str()))
        .collect()
}

/// The namespaces of the accounts that the binding of one is for.
async fn bound(plane: &ControlPlane, name: &str) -> Vec<String> {
    let binding = Api::<ClusterRoleBinding>::all(plane.client())
        .get(name)
        .await;
    let subjects = binding.unwrap().subjects.into_iter().flatten();
    subjects.filter_map(|subject| subject.namespace).collect()
}

/// Whether the token in this kubeconfig is valid, and has its rights.
async fn works(text: &str) -> bool {
    let client = client(Kubeconfig::from_yaml(text).unwrap()).await;
    let services = Api::<Service>::namespaced(client, "home");
    services.list(&ListParams::default()).await.is_ok()
}

/// Stands in for a Pod of Linkerd's destination controller that started at this time.
async fn linkerd_started(plane: &ControlPlane, at: Timestamp) {
    let pods = Api::<Pod>::namespaced(plane.client(), l::LINKERD_NAMESPACE);
    let pod = json!({
        "metadata": {
            "name": "destination",
            "labels": { "linkerd.io/control-plane-component": "destination" },
        },
        "spec": { "containers": [{ "name": "destination", "image": "none" }] },
    });
    if pods.get_opt("destination").await.unwrap().is_none() {
        let pod = serde_json::from_value(pod).unwrap();
        pods.create(&PostParams::default(), &pod).await.unwrap();
    }
    let status = Patch::Merge(json!({ "status": { "phase": "Running", "startTime": at } }));
    let params = PatchParams::default();
    pods.patch_status("destination", &params, &status)
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn accounts_move_between_namespaces_and_no_link_loses_its_credentials() {
    let mut fleet = Fleet::start("home").await;
    let planes = fleet.planes.clone();
    let [east, north, west] = &planes;
    let _controllers = [east, north, west].map(|plane| Controller::start(plane, &[]));
    for plane in &planes {
        destination(plane).await;
    }
    namespace("home", &[east, north, west]).await;
    export(east, "home", &web("web", "true")).await;
    let with_key = |fleet: &Fleet, key: &str| {
        let rest = format!("serviceAccountNamespace: {key}\nlinks:\n- mesh: all\n");
        fleet.file(&NAMES, &rest)
    };

    // Nobody has made the namespace.
    let file = with_key(&fleet, "access");
    fleet.writes();
    let missing = fleet.run("apply", &file, &["--yes"]);
    let said = "the namespace access of accounts does not exist; create it with `kubectl --context home-east create namespace access`";
    assert!(
        missing.code == 1 && missing.stdout.contains(said),
        "{}{}",
        missing.stdout,
        missing.stderr
    );
    assert_eq!(fleet.writes(), [""; 0]);

    namespace("access", &[east, north, west]).await;
    let applied = fleet.run("apply", &file, &[]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    for (plane, others) in [
        (east, [NAMES[1], NAMES[2]]),
        (north, [NAMES[0], NAMES[2]]),
        (west, [NAMES[0], NAMES[1]]),
    ] {
        let others: BTreeSet<String> = others.map(str::to_owned).into();
        assert_eq!(accounts(plane, "access").await, others);
        assert_eq!(accounts(plane, NAMESPACE).await, BTreeSet::new());
    }
    let of = "system:serviceaccount:access:home-west";
    assert_eq!(account(&token(&kubeconfig(west, NAMES[0]).await)), of);
    let mirror = service(west, "home", "web-home-east", |_| true).await;
    fleet.writes();
    let again = fleet.run("apply", &file, &["--prune"]);
    assert_eq!(again.stdout, "Nothing to do.\n", "{}", again.stderr);
    assert_eq!(fleet.writes(), [""; 0]);

    let rotated = fleet.run("rotate", &file, &["--yes", "-o=json"]);
    assert_eq!(rotated.code, 0, "{}", rotated.stderr);
    let all = results(&rotated);
    assert!(
        all.len() == 6 && all.values().all(|result| result == "rotated"),
        "{all:?}"
    );
    assert_eq!(account(&token(&kubeconfig(west, NAMES[0]).await)), of);
    let planned = fleet.run("plan", &file, &["--prune"]);
    assert_eq!(planned.stdout, "Nothing to do.\n", "{}", planned.stderr);

    // The file names another namespace. Both accounts work, and Linkerd of west has the old token.
    let old = kubeconfig(west, NAMES[0]).await;
    linkerd_started(west, timing::now() - Duration::from_hours(1)).await;
    namespace("peers", &[east, north, west]).await;
    let moved = with_key(&fleet, "peers");
    let applied = fleet.run("apply", &moved, &["--yes", "--prune"]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    let said = "the account of home-west, until now in the namespace access";
    assert!(applied.stdout.contains(said), "{}", applied.stdout);
    // An account goes when there is another one in its place.
    let new = kubeconfig(west, NAMES[0]).await;
    let of = "system:serviceaccount:peers:home-west";
    assert_eq!(account(&token(&new)), of);
    assert!(works(&old).await && works(&new).await);
    assert_eq!(bound(east, NAMES[2]).await, ["peers", "access"]);
    fleet.writes();
    let kept = fleet.run("apply", &moved, &["--yes"]);
    assert_eq!(kept.code, 0, "{}{}", kept.stdout, kept.stderr);
    assert_eq!(fleet.writes(), [""; 0]);

    // Where Linkerd has not restarted, the old accounts stay in use.
    let pruned = fleet.run("apply", &moved, &["--yes", "--prune"]);
    assert_eq!(pruned.code, 1, "{}{}", pruned.stdout, pruned.stderr);
    let said = "linkerd-destination in home-west has not restarted since it got new credentials";
    assert!(pruned.stdout.contains(said), "{}", pruned.stdout);
    let left: BTreeSet<String> = [NAMES[2].to_owned()].into();
    assert_eq!(accounts(east, "access").await, left);
    assert_eq!(accounts(north, "access").await, left);
    assert_eq!(accounts(west, "access").await, BTreeSet::new());
    assert!(works(&old).await && works(&new).await);

    linkerd_started(west, timing::now() + Duration::from_secs(5)).await;
    let pruned = fleet.run("apply", &moved, &["--yes", "--prune"]);
    assert_eq!(pruned.code, 0, "{}{}", pruned.stdout, pruned.stderr);
    for plane in &planes {
        assert_eq!(accounts(plane, "access").await, BTreeSet::new());
        assert_eq!(accounts(plane, "peers").await.len(), 2);
    }
    assert_eq!(bound(east, NAMES[2]).await, ["peers"]);
    assert!(!works(&old).await && works(&new).await);
    fleet.writes();
    let again = fleet.run("apply", &moved, &["--yes", "--prune"]);
    assert_eq!(again.stdout, "Nothing to do.\n", "{}", again.stderr);
    assert_eq!(fleet.writes(), [""; 0]);
    condition_is(west, NAMES[0], "Ready", "True", "Mirroring").await;
    let now = service(west, "home", "web-home-east", |_| true).await;
    assert_eq!(now.metadata.uid, mirror.metadata.uid);

    // `import` writes the key.
    let contexts = NAMES.join(",");
    let import = ["--context", &contexts, "fleet", "import"];
    let imported = run(&fleet.kubeconfig, &import);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
    let key = "serviceAccountNamespace: peers\n";
    assert!(imported.stdout.contains(key), "{}", imported.stdout);
}
