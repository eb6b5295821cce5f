//! A cluster is the one that was linked, whatever its name, its account or its context.

use std::{fs, path::PathBuf};

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::{Api, api::DeleteParams};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use super::{Fleet, keep::linked, made, run_fleet};
use crate::support::{
    installation::NAMESPACE,
    links::{condition_is, links},
    objects::{export, gone, join, members_are, namespace, service, web},
};

/// A mesh of these clusters, each with its context.
fn mesh(fleet: &Fleet, clusters: &[(&str, &str)]) -> PathBuf {
    let clusters = clusters.iter();
    let clusters =
        clusters.map(|(name, context)| format!("- name: {name}\n  context: {context}\n"));
    let clusters: String = clusters.collect();
    let text = format!("name: f\nid: t\nclusters:\n{clusters}links:\n- mesh: all\n");
    let file = fleet.folder.path().join("identity.yaml");
    fs::write(&file, text).unwrap();
    file
}

/// Deletes the account of a cluster in another one, with its token.
async fn without_account(plane: &ControlPlane, account: &str) {
    let (accounts, secrets) = (
        Api::<ServiceAccount>::namespaced(plane.client(), NAMESPACE),
        Api::<Secret>::namespaced(plane.client(), NAMESPACE),
    );
    let params = DeleteParams::default();
    let token = format!("{account}-bound");
    secrets.delete(&token, &params).await.unwrap();
    accounts.delete(account, &params).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn renamed_cluster_stays_a_member_and_one_that_is_another_is_not_used() {
    let [far, north, west] = ["id-east", "id-north", "id-west"];
    let (mut fleet, _, _controllers) = linked("id", &[far, north, west]).await;
    let planes = fleet.planes.clone();
    let [of_far, of_north, of_west] = &planes;
    namespace("id", &[of_far, of_north, of_west]).await;
    export(of_far, "id", &web("web", "true")).await;
    join(of_far, "id", "all", "member", "no").await;
    service(of_west, "id", "web-id-east", |_| true).await;
    let before = service(of_west, "id", "all-federated", |_| true).await;

    // It gets another name. The plan says what that costs, and only asks.
    let renamed = mesh(&fleet, &[("orient", far), (north, north), (west, west)]);
    fleet.writes();
    let plan = fleet.run("plan", &renamed, &["--prune"]);
    assert_eq!(plan.code, 2, "{}{}", plan.stdout, plan.stderr);
    assert!(
        plan.stdout.contains(
            "- Link id-east: its cluster is called orient in the file\n      deletes 1 mirror, with its ClusterIP\n"
        ),
        "{}",
        plan.stdout
    );
    let refused = fleet.run("apply", &renamed, &["--prune"]);
    assert!(
        refused.code == 1 && refused.stderr.contains("pass --yes"),
        "{}",
        refused.stderr
    );
    assert_eq!(fleet.writes(), [""; 0]);

    // Without consent to delete, it has both names, so that clients can move to the new mirrors.
    let both = fleet.run("apply", &renamed, &["--yes"]);
    assert_eq!(both.code, 0, "{}{}", both.stdout, both.stderr);
    service(of_west, "id", "web-orient", |_| true).await;
    service(of_west, "id", "web-id-east", |_| true).await;
    let applied = fleet.run("apply", &renamed, &["--yes", "--prune"]);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    gone(of_west, "id", "web-id-east").await;
    let after = members_are(of_west, "id", "all-federated", Some("all@orient"), None).await;
    assert_eq!(after.metadata.uid, before.metadata.uid);
    let ip = |of: &k8s_openapi::api::core::v1::Service| of.spec.clone().unwrap().cluster_ip;
    assert_eq!(ip(&after), ip(&before));
    // It has the accounts that it had, and both directions work.
    let left = made(of_west).await;
    assert!(left.contains("ServiceAccount/id-east"), "{left:?}");
    assert!(!left.contains("ServiceAccount/orient"), "{left:?}");
    assert!(
        !left.contains("Secret/cluster-credentials-id-east"),
        "{left:?}"
    );
    condition_is(of_west, "orient", "Ready", "True", "Mirroring").await;
    condition_is(of_far, west, "Ready", "True", "Mirroring").await;
    fleet.writes();
    let again = fleet.run("apply", &renamed, &[]);
    assert_eq!(again.stdout, "Nothing to do.\n", "{}", again.stderr);
    assert_eq!(fleet.writes(), [""; 0]);

    // An account that was deleted is made again: the link leads to the same cluster.
    without_account(of_far, west).await;
    let restored = fleet.run("apply", &renamed, &[]);
    assert_eq!(restored.code, 0, "{}{}", restored.stdout, restored.stderr);
    condition_is(of_west, "orient", "Connected", "True", "Connected").await;

    // Its context leads to another cluster. Nothing is done with it, until the user says that it is meant.
    let two = mesh(&fleet, &[("orient", far), (west, west)]);
    let left = fleet.run("apply", &two, &["--yes", "--prune", "--also", north]);
    assert_eq!(left.code, 0, "{}{}", left.stdout, left.stderr);
    export(of_west, "id", &web("shop", "true")).await;
    service(of_far, "id", "shop-id-west", |_| true).await;
    let moved = fleet.folder.path().join("moved");
    let text = fs::read_to_string(&fleet.kubeconfig).unwrap();
    let mut other: Value = json!(kube::config::Kubeconfig::from_yaml(&text).unwrap());
    let contexts = other["contexts"].as_array_mut().unwrap();
    let of = |contexts: &[Value], name: &str| {
        let found = contexts.iter().find(|context| context["name"] == name);
        found.unwrap()["context"].clone()
    };
    let of_another = of(contexts, north);
    for context in contexts
        .iter_mut()
        .filter(|context| context["name"] == west)
    {
        context["context"] = of_another.clone();
    }
    fs::write(&moved, other.to_string()).unwrap();
    fleet.writes();
    let refused = run_fleet(&moved, "apply", &two, &["--yes"]);
    let said = "id-west was built again, pass --replace id-west";
    assert!(
        refused.code == 1 && refused.stdout.contains(said),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    assert_eq!(fleet.writes(), [""; 0]);

    let replaced = run_fleet(&moved, "apply", &two, &["--yes", "--replace=id-west"]);
    assert_eq!(replaced.code, 0, "{}{}", replaced.stdout, replaced.stderr);
    assert!(
        replaced.stdout.contains("its cluster was built again"),
        "{}",
        replaced.stdout
    );
    let link = links(of_far).get(west).await.unwrap();
    let system = Api::<k8s_openapi::api::core::v1::Namespace>::all(of_north.client());
    let uid = system.get("kube-system").await.unwrap().metadata.uid;
    assert_eq!(
        link.metadata.annotations.unwrap().get(l::CLUSTER_UID),
        uid.as_ref()
    );
    condition_is(of_far, west, "Ready", "True", "Mirroring").await;
    gone(of_far, "id", "shop-id-west").await;
    let again = run_fleet(&moved, "apply", &two, &[]);
    assert_eq!(again.stdout, "Nothing to do.\n", "{}", again.stderr);
}
