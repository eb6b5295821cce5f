//! `unlink` and `uninstall`: which objects they print and delete.

mod objects;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use control_plane::ControlPlane;
use linkerd_mc::api::labels as l;

use self::objects::{ANOTHER, LEFT, LINKED};
use crate::support::{
    audit::{mark, requests, writes_in},
    controller::signal,
    installation::{NAMESPACE, parsed},
    links::{in_step, own_link},
    objects::{export, join, namespace, service, web},
    planes::{hub, installed},
    program::run,
};

/// `kind namespace/name` of each document.
fn names(json: &str) -> Vec<String> {
    parsed(json)
        .into_iter()
        .map(|object| {
            let text = |pointer| {
                object
                    .pointer(pointer)
                    .and_then(|v| v.as_str())
                    .unwrap_or("")
            };
            let namespace = text("/metadata/namespace");
            format!("{} {namespace}/{}", text("/kind"), text("/metadata/name"))
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn unlink_and_uninstall_delete_what_belongs_to_them_and_nothing_else() {
    let plane = installed("unlink", "192.0.2.10").await;
    plane.apply(LINKED).await.unwrap();

    nothing_is_deleted_by_mistake(plane.kubeconfig());
    linkerd_keeps_a_secret_that_another_link_needs(&plane).await;
    printed_objects_are_those_of_the_link(&plane).await;
    without_a_controller_mirrors_stay(&plane).await;
    uninstall_overlooks_nothing_in_use(&plane).await;
    uninstall_names_what_install_made(&plane).await;
}

fn nothing_is_deleted_by_mistake(kubeconfig: &Path) {
    let refused = run(kubeconfig, &["uninstall"]).failure();
    insta::assert_snapshot!(refused, @r"
    error: this cluster is still linked to east, north
    hint: unlink each of them first, as with `linkerd-mc --context unlink unlink east --apply`
    ");
    let unknown = run(kubeconfig, &["unlink", "--cluster-name=south"]).failure();
    insta::assert_snapshot!(unknown, @r#"
    error: cluster "south" is not linked to namespace "linkerd-multicluster"
    hint: linked clusters: east, north
    "#);
    // The Link is in another namespace, with the mirrors and the ClusterRole.
    let elsewhere = ["unlink", "--cluster-name=east", "--namespace=shop"];
    for more in [&["--apply", "--yes"][..], &["--only-controller"], &[]] {
        let refused = run(kubeconfig, &[&elsewhere[..], more].concat()).failure();
        insta::allow_duplicates!(insta::assert_snapshot!(refused, @r#"
        error: cluster "east" is not linked to namespace "shop"
        hint: namespace "linkerd-multicluster" has the Link east; pass --namespace linkerd-multicluster
        "#));
    }
    let only = ["unlink", "--cluster-name=north", "--only-controller"];
    insta::assert_snapshot!(run(kubeconfig, &only).failure(), @r#"
    error: namespace "linkerd-multicluster" has no objects of Linkerd's service mirror for cluster "north"
    hint: nothing has to be removed; the Link and its mirrors stay
    "#);
    // Without a terminal, the command cannot ask, and must not delete anything.
    let unasked = run(kubeconfig, &["unlink", "--cluster-name=east", "--apply"]).failure();
    insta::assert_snapshot!(unasked, @r"
    error: cannot prompt for confirmation: stdin or stderr is not a terminal
    hint: pass --yes to delete without confirmation
    ");
}

async fn linkerd_keeps_a_secret_that_another_link_needs(plane: &ControlPlane) {
    let unlink = |more: &[&str]| {
        let args = [&["unlink", "--cluster-name=east", "-o=json"][..], more].concat();
        let printed = run(plane.kubeconfig(), &args);
        assert_eq!(printed.code, 0, "{}", printed.stderr);
        printed
    };
    plane.apply(ANOTHER).await.unwrap();
    names_clusters(plane, "web@north").await;
    let printed = unlink(&[]);
    let secrets = |json: &str| {
        let all = names(json).into_iter();
        all.filter(|name| name.starts_with("Secret"))
            .collect::<Vec<_>>()
    };
    let own = "Secret linkerd-multicluster/cluster-credentials-east";
    assert_eq!(secrets(&printed.stdout), [own]);
    let kept =
        "note: Linkerd's Secret for this cluster stays, because the Link other-mc/far needs it";
    assert!(printed.stderr.contains(kept), "{}", printed.stderr);

    let restricted = unlink(&["--as=restricted"]);
    assert_eq!(
        secrets(&restricted.stdout),
        [own, "Secret linkerd/any-name"]
    );
    assert!(
        !restricted.stderr.contains("stays"),
        "{}",
        restricted.stderr
    );

    plane
        .kubectl_stdin(&["delete", "-f", "-"], ANOTHER)
        .await
        .unwrap();
    let printed = unlink(&[]);
    assert_eq!(secrets(&printed.stdout), [own, "Secret linkerd/any-name"]);
    names_clusters(plane, "web@east,web@north").await;
}

/// Sets which clusters the federated Service names, as the controller would.
async fn names_clusters(plane: &ControlPlane, members: &str) {
    let members = format!("{}={members}", l::REMOTE_DISCOVERY);
    let args = [
        "-n",
        "shop",
        "annotate",
        "--overwrite",
        "service",
        "both-federated",
        &members,
    ];
    plane.kubectl(&args).await.unwrap();
}

async fn printed_objects_are_those_of_the_link(plane: &ControlPlane) {
    let kubeconfig = plane.kubeconfig();
    let only = run(
        kubeconfig,
        &[
            "unlink",
            "--cluster-name=east",
            "--only-controller",
            "-o=json",
        ],
    )
    .data();
    insta::assert_snapshot!(names(&only).join("\n"), @r"
    Deployment linkerd-multicluster/linkerd-service-mirror-east
    ClusterRole /linkerd-service-mirror-access-local-resources-east
    ClusterRoleBinding /linkerd-service-mirror-access-local-resources-east
    Role linkerd-multicluster/linkerd-service-mirror-read-remote-creds-east
    RoleBinding linkerd-multicluster/linkerd-service-mirror-read-remote-creds-east
    ServiceAccount linkerd-multicluster/controller-east
    ServiceAccount linkerd-multicluster/linkerd-service-mirror-east
    PodDisruptionBudget linkerd-multicluster/linkerd-service-mirror-east
    PodDisruptionBudget linkerd-multicluster/controller-east
    Lease linkerd-multicluster/service-mirror-write-east
    ");

    let only = [
        "unlink",
        "east",
        "--only-controller",
        "--apply",
        "--dry-run",
    ];
    insta::assert_snapshot!(run(kubeconfig, &only).data(), @"would delete 10 objects of Linkerd's service mirror for east");

    let printed = run(kubeconfig, &["unlink", "--cluster-name=east", "-o=json"]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    insta::assert_snapshot!(printed.stderr, @"note: the Secrets are left out, because Linkerd needs them until east is removed from 1 federated Service with other members (shop/both-federated); the controller does that after the Link is deleted. Run this again afterwards to get the Secrets; --apply does all of it");
    insta::assert_snapshot!(names(&printed.stdout).join("\n"), @r"
    Link linkerd-multicluster/east
    Deployment linkerd-multicluster/linkerd-service-mirror-east
    ClusterRole /linkerd-service-mirror-access-local-resources-east
    ClusterRoleBinding /linkerd-service-mirror-access-local-resources-east
    Role linkerd-multicluster/linkerd-service-mirror-read-remote-creds-east
    RoleBinding linkerd-multicluster/linkerd-service-mirror-read-remote-creds-east
    ServiceAccount linkerd-multicluster/controller-east
    ServiceAccount linkerd-multicluster/linkerd-service-mirror-east
    PodDisruptionBudget linkerd-multicluster/linkerd-service-mirror-east
    PodDisruptionBudget linkerd-multicluster/controller-east
    Lease linkerd-multicluster/service-mirror-write-east
    Service linkerd-multicluster/probe-east
    Service shop/web-east
    Service shop/web-federated
    ");
    plane
        .kubectl_stdin(&["delete", "-f", "-"], &printed.stdout)
        .await
        .unwrap();
    let left = plane
        .kubectl(&["-n", "shop", "get", "services", "-o", "name"])
        .await
        .unwrap();
    assert_eq!(
        left,
        "service/both-federated\nservice/mine-east\nservice/web-north\n"
    );
}

/// No controller runs here, so the mirror of north stays at first. The Link is deleted anyway.
async fn without_a_controller_mirrors_stay(plane: &ControlPlane) {
    let kubeconfig = plane.kubeconfig();
    let secret = "secret/cluster-credentials-north";
    let create = [
        "-n",
        NAMESPACE,
        "create",
        "secret",
        "generic",
        "cluster-credentials-north",
        "--from-literal=kubeconfig=any",
    ];
    plane.kubectl(&create).await.unwrap();
    let apply = [
        "unlink",
        "--cluster-name=north",
        "--apply",
        "--yes",
        "--wait=1s",
    ];
    let one = [&["unlink", "--link=north"], &apply[2..]].concat();
    let said = run(kubeconfig, &one).failure();
    // `unlink` prints this line only if the wait takes at least a second. Here it takes about a second, so the line may
    // be missing.
    let said = said.trim_start_matches("waiting for the mirrors of north to be removed\n");
    insta::assert_snapshot!(said, @r"
    error: 1 mirror of north still exists, and north is still in 1 federated Service with other members (shop/both-federated); the Secrets were not deleted
    hint: check that the controller is running, then run `linkerd-mc --context unlink unlink north --apply`: without a Link, it deletes the mirrors itself
    ");
    // Nothing but the Link led to this Secret.
    let own = ["-n", NAMESPACE, "get", "secret/own-north", "-o", "name"];
    let own = [&own[..], &["--ignore-not-found"]].concat();
    assert_eq!(plane.kubectl(&own).await.unwrap(), "");
    // The second run deletes the mirror itself, because no Link is left. Its hint says what to do about the federated
    // Service.
    let said = run(kubeconfig, &apply).failure();
    let said = said.trim_start_matches("waiting for the mirrors of north to be removed\n");
    insta::assert_snapshot!(said, @r"
    error: north is still in 1 federated Service with other members (shop/both-federated); the Secrets were not deleted
    hint: start the controller, which takes the cluster out, then run the same command again; if no controller is to run any more, delete these Services first: `kubectl --context unlink -n shop delete service both-federated`
    ");
    interrupted_unlink_says_what_to_do(kubeconfig);
    plane
        .kubectl(&["-n", "shop", "delete", "service", "both-federated"])
        .await
        .unwrap();
    let stored = ["-n", NAMESPACE, "get", secret, "-o", "name"];
    let kept = plane.kubectl(&stored).await.unwrap();
    assert_eq!(kept.trim(), secret);
    // Now no object names the cluster, so `unlink` also deletes the Secret.
    let done = run(kubeconfig, &apply);
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (0, ""),
        "{}",
        done.stderr
    );
    insta::assert_snapshot!(done.stderr, @"deleted the link to north and its mirrors");
    let gone = [&stored[..], &["--ignore-not-found"]].concat();
    assert_eq!(plane.kubectl(&gone).await.unwrap(), "");
}

/// It waits for a controller, which does not run.
fn interrupted_unlink_says_what_to_do(kubeconfig: &Path) {
    for name in ["INT", "TERM"] {
        let mut waits = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
            .env("KUBECONFIG", kubeconfig)
            .args([
                "unlink",
                "--cluster-name=north",
                "--apply",
                "--yes",
                "--wait=60s",
            ])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(waits.stderr.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("waiting"));
        signal(name, waits.id());
        let said: Vec<String> = lines.map_while(Result::ok).collect();
        assert_eq!(
            said.last().map(String::as_str),
            Some(
                "interrupted: a part of the link to north may be deleted; run the same command again, which does the rest"
            )
        );
        assert_eq!(waits.wait().unwrap().code(), Some(130), "{name}");
    }
}

async fn uninstall_overlooks_nothing_in_use(plane: &ControlPlane) {
    plane.apply(LEFT).await.unwrap();
    let kubeconfig = plane.kubeconfig();
    let refused = run(kubeconfig, &["uninstall"]).failure();
    insta::assert_snapshot!(refused, @r"
    error: this cluster still has 1 mirror without a Link, such as shop/left-south
    hint: wait until the controller has removed them, or delete them, as with `linkerd-mc --context unlink unlink south --apply`
    ");
    let apply = ["unlink", "--cluster-name=south", "--apply", "--yes"];
    let done = run(kubeconfig, &apply);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let kept = run(kubeconfig, &["uninstall", "-o=json"]);
    assert_eq!(kept.code, 0, "{}", kept.stderr);
    insta::assert_snapshot!(kept.stderr, @"warning: the Namespace linkerd-multicluster stays: it has the CronJob backup");
    let delete = ["-n", NAMESPACE, "delete", "cronjob", "backup"];
    plane.kubectl(&delete).await.unwrap();
}

async fn uninstall_names_what_install_made(plane: &ControlPlane) {
    let kubeconfig = plane.kubeconfig();
    let uninstall = run(kubeconfig, &["uninstall", "-o=json"]).data();
    insta::assert_snapshot!(names(&uninstall).join("\n"), @r"
    ClusterRole /linkerd-multicluster-controller
    ClusterRole /linkerd-multicluster-view
    ClusterRole /linkerd-service-mirror-remote-access-default
    ClusterRoleBinding /linkerd-multicluster-controller
    ClusterRoleBinding /linkerd-service-mirror-remote-access-default
    Role linkerd-multicluster/linkerd-multicluster-controller
    RoleBinding linkerd-multicluster/linkerd-multicluster-controller
    CustomResourceDefinition /links.multicluster.linkerd.io
    ValidatingAdmissionPolicyBinding /linkerd-multicluster-controller
    ValidatingAdmissionPolicyBinding /linkerd-multicluster-controller-gateway
    ValidatingAdmissionPolicyBinding /linkerd-multicluster-controller-owners
    ValidatingAdmissionPolicyBinding /linkerd-multicluster-controller-parents
    ValidatingAdmissionPolicyBinding /linkerd-multicluster-controller-routes
    ValidatingAdmissionPolicyBinding /linkerd-multicluster-controller-services
    ValidatingAdmissionPolicyBinding /linkerd-multicluster-controller-slices
    ValidatingAdmissionPolicyBinding /linkerd-multicluster-events
    ValidatingAdmissionPolicy /linkerd-multicluster-controller
    ValidatingAdmissionPolicy /linkerd-multicluster-controller-gateway
    ValidatingAdmissionPolicy /linkerd-multicluster-controller-owners
    ValidatingAdmissionPolicy /linkerd-multicluster-controller-parents
    ValidatingAdmissionPolicy /linkerd-multicluster-controller-routes
    ValidatingAdmissionPolicy /linkerd-multicluster-controller-services
    ValidatingAdmissionPolicy /linkerd-multicluster-controller-slices
    ValidatingAdmissionPolicy /linkerd-multicluster-events
    Namespace /linkerd-multicluster
    ");
    plane
        .kubectl_stdin(&["delete", "--timeout=60s", "-f", "-"], &uninstall)
        .await
        .unwrap();
    let again = run(kubeconfig, &["uninstall"]).failure();
    insta::assert_snapshot!(again, @r"
    error: the multicluster extension is not installed in this cluster
    hint: choose another cluster with --context
    ");
}

/// Linkerd still needs the Secret of a cluster when a Service stops naming the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn unlink_deletes_the_secrets_after_all_objects_that_name_the_cluster() {
    let (east, west) = hub().await.pair();
    namespace("parted", &[east, west]).await;
    own_link(west, east, "part", &[]).await;
    export(east, "parted", &web("web", "part")).await;
    join(east, "parted", "member", "part", "no").await;
    for name in ["web-part", "member-federated"] {
        service(west, "parted", name, |_| true).await;
    }
    in_step(west, "part", &[]).await;

    let since = mark(west);
    let apply = ["unlink", "--cluster-name=part", "--apply", "--yes"];
    let done = run(west.kubeconfig(), &apply);
    assert_eq!(done.code, 0, "{}", done.stderr);
    // No rotation has created tokens for this link.
    assert!(!done.stderr.contains("token-of-link"), "{}", done.stderr);
    let removed = writes_in(west, "parted", since);
    let last = removed.iter().map(|event| event.noted).max();
    let requests = requests(west, since);
    // Other tests delete the Secrets of their own links meanwhile.
    let secrets = requests.iter().filter(|event| {
        event.resource == "secrets"
            && event.verb == "delete"
            && event.name == "cluster-credentials-part"
    });
    let secrets: Vec<_> = secrets
        .map(|event| (event.namespace.as_str(), event.received))
        .collect();
    assert_eq!(secrets.len(), 2, "{secrets:?}");
    for (of, received) in secrets {
        assert!([NAMESPACE, "linkerd"].contains(&of), "{of}");
        let after = received.duration_since(last.unwrap());
        assert!(
            after.as_millis() >= 1500,
            "{after:?} after the last removal"
        );
    }
}
