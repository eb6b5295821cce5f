//! `link --from-file`: takes a link that the owner of the target cluster has written, and nothing else.

use std::{fs, path::Path};

use control_plane::ControlPlane;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Api;

use super::stored;
use crate::support::{
    installation::link_gen,
    links::{condition_is, links, unlink},
    planes::hub,
    program::{Outcome, run},
};

const NAME: &str = "taken-from-file";

/// Runs `link --from-file` in the source cluster alone.
fn take(west: &ControlPlane, file: &Path, more: &[&str]) -> Outcome {
    let file = file.to_str().unwrap();
    let own = ["link", "--from-file", file, "--source", west.name()];
    run(west.kubeconfig(), &[&own[..], more].concat())
}

/// Whether there is the Link with both Secrets. There is all of it, or nothing.
async fn is_linked(west: &ControlPlane) -> bool {
    let [own, of_linkerd] = stored(west, NAME).await.map(|secret| secret.is_some());
    let link = links(west).get_opt(NAME).await.unwrap().is_some();
    assert!(
        link == own && own == of_linkerd,
        "{link} {own} {of_linkerd}"
    );
    link
}

#[tokio::test(flavor = "multi_thread")]
async fn link_of_another_owner_is_shown_and_taken_and_nothing_else_is() {
    let (east, west) = hub().await.pair();
    let file = west.folder().join("handed.yaml");
    let made = link_gen(east, NAME, &["--federation=none", "--selector=handed=yes"]);

    // Each of these would get more than a link with `kubectl apply`, and would run a program in Linkerd's control plane.
    let binding = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: handed-admin}\n\
                   roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\nsubjects: []\n";
    let twice = format!("{made}\n---\n{made}");
    let elsewhere = made.replacen("namespace: linkerd\n", "namespace: kube-system\n", 1);
    for (text, why) in [
        (
            format!("{made}\n{binding}"),
            "it has the \"ClusterRoleBinding\" \"handed-admin\"",
        ),
        (twice, "is the second of its kind"),
        (elsewhere, "is in the namespace \"kube-system\""),
        ("{".to_owned(), "it is not valid YAML"),
    ] {
        fs::write(&file, text).unwrap();
        let refused = take(west, &file, &["--yes"]);
        assert_eq!(refused.code, 1, "{}", refused.stderr);
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
        assert!(
            refused.stderr.contains("nothing was applied"),
            "{}",
            refused.stderr
        );
        assert!(!is_linked(west).await);
    }
    let bindings = Api::<ClusterRoleBinding>::all(west.client());
    assert!(bindings.get_opt("handed-admin").await.unwrap().is_none());

    // Without a terminal, nothing is written without `--yes`. What matters is shown.
    fs::write(&file, &made).unwrap();
    let flag = take(west, &file, &["--federation=any"]);
    assert_eq!(flag.code, 2, "{}", flag.stderr);
    assert!(
        flag.stderr
            .contains("--federation cannot be used with --from-file"),
        "{}",
        flag.stderr
    );
    let asked = take(west, &file, &[]);
    assert_eq!(asked.code, 1, "{}", asked.stderr);
    for shown in [
        "federation: (none) -> none",
        "selector: (none) -> handed in (yes)",
        "gatewayAddress: (none) -> ",
        "the controller connects to https://",
        "Linkerd connects to https://",
    ] {
        assert!(asked.stderr.contains(shown), "{shown}: {}", asked.stderr);
    }
    assert!(!is_linked(west).await);
    let dry = take(west, &file, &["--dry-run"]);
    assert!(
        dry.stdout
            .starts_with("would create the Link taken-from-file in "),
        "{}",
        dry.stdout
    );
    assert!(
        dry.stdout.contains("selector: (none) -> handed in (yes)"),
        "{}",
        dry.stdout
    );
    assert!(!is_linked(west).await);

    let taken = take(west, &file, &["--yes"]);
    assert_eq!(taken.code, 0, "{}", taken.stderr);
    assert!(is_linked(west).await);
    condition_is(west, NAME, "Ready", "True", "Mirroring").await;
    let before = stored(west, NAME).await;

    // The same file again changes nothing; without its Link, it has credentials for the Link that is there.
    let again = take(west, &file, &["--yes"]);
    assert_eq!(again.code, 0, "{}", again.stderr);
    assert_eq!(stored(west, NAME).await, before);
    let at = made.find("apiVersion: multicluster.linkerd.io").unwrap();
    fs::write(&file, &made[..at]).unwrap();
    let secrets = take(west, &file, &["--yes"]);
    assert_eq!(secrets.code, 0, "{}", secrets.stderr);
    assert_eq!(stored(west, NAME).await, before);

    // A file of another cluster does not get this name.
    let uid = links(west).get(NAME).await.unwrap();
    let uid = linkerd_mc::api::metadata::cluster_uid(&uid)
        .unwrap()
        .to_owned();
    let another = made.replace(&uid, "another-uid");
    fs::write(&file, another).unwrap();
    let refused = take(west, &file, &["--yes"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("the name taken-from-file is taken"),
        "{}",
        refused.stderr
    );
    assert_eq!(stored(west, NAME).await, before);
    unlink(west, NAME).await;
}
