//! Applies what `allow` prints, and deletes it with what `allow --delete` prints.

use crate::support::{installation::can_i, planes::bare, program::run};

#[tokio::test(flavor = "multi_thread")]
async fn an_account_may_do_what_its_mode_says_until_it_is_revoked() {
    let plane = bare("allow").await;
    let kubeconfig = plane.kubeconfig();
    let account = |name: &str| format!("--as=system:serviceaccount:linkerd-multicluster:{name}");
    let may = async |name: &str, verb: &str, resource: &str| {
        can_i(&plane, &[verb, resource, "-A", &account(name)]).await
    };

    for (name, mode) in [("reader", "gateway"), ("peer", "full")] {
        let flag = format!("--service-account-name={name}");
        let args = ["allow", &flag, "--mode", mode];
        let printed = run(kubeconfig, &args).data();
        let new_namespace = printed.contains("kind: Namespace");
        assert_eq!(new_namespace, name == "reader", "only where there is none");
        plane.apply(&printed).await.unwrap();
        let again = run(kubeconfig, &args).failure();
        assert!(again.contains("already"), "{again}");
        let again = run(kubeconfig, &[&args[..], &["--ignore-cluster"]].concat()).data();
        let second = plane.apply(&again).await.unwrap();
        assert!(
            second.lines().all(|line| line.ends_with(" unchanged")),
            "{second}"
        );
    }
    // Without a look at the cluster, nothing is printed that would change a namespace of others.
    let elsewhere = [
        "allow",
        "--service-account-name=reader",
        "--ignore-cluster",
        "--namespace=kube-system",
    ];
    let elsewhere = run(kubeconfig, &elsewhere);
    assert_eq!(elsewhere.code, 0, "{elsewhere:?}");
    assert!(
        !elsewhere.stdout.contains("kind: Namespace"),
        "{elsewhere:?}"
    );
    let note = "the Namespace kube-system is not printed, because it may exist; create it if it does not\n";
    assert_eq!(elsewhere.stderr, note);

    for (verb, resource, reader, peer) in [
        ("list", "services", true, true),
        ("watch", "endpointslices.discovery.k8s.io", true, true),
        ("list", "pods", false, true),
        ("get", "replicasets.apps", false, true),
        ("list", "secrets", false, false),
        ("delete", "services", false, false),
        ("create", "events", false, true),
    ] {
        assert_eq!(
            may("reader", verb, resource).await,
            reader,
            "reader: {verb} {resource}"
        );
        assert_eq!(
            may("peer", verb, resource).await,
            peer,
            "peer: {verb} {resource}"
        );
    }

    // Both refuse the name of a ClusterRole that somebody else created.
    let theirs = [
        "create",
        "clusterrole",
        "theirs",
        "--verb=get",
        "--resource=pods",
    ];
    plane.kubectl(&theirs).await.unwrap();
    for delete in [&[][..], &["--delete"]] {
        let args = [&["allow", "--service-account-name=theirs"], delete].concat();
        let refused = run(kubeconfig, &args).failure();
        assert!(
            refused.contains("the ClusterRole \"theirs\" is not one of the extension"),
            "{refused}"
        );
    }

    // An account of an earlier version has no such Secret.
    let old = [
        "-n",
        "linkerd-multicluster",
        "delete",
        "secret",
        "reader-bound",
    ];
    plane.kubectl(&old).await.unwrap();
    let revoked = run(
        kubeconfig,
        &["allow", "--delete", "--service-account-name=reader,peer"],
    )
    .data();
    plane
        .kubectl_stdin(&["delete", "-f", "-"], &revoked)
        .await
        .unwrap();
    assert!(!may("peer", "list", "services").await);
    let left = plane
        .kubectl(&[
            "get",
            "clusterroles,clusterrolebindings",
            "-l",
            "linkerd.io/extension",
            "-o",
            "name",
        ])
        .await
        .unwrap();
    assert_eq!(left, "");
}
