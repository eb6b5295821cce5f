//! `link` and `plan`: links two clusters with one command, and shows before what it would do.

use std::{process::Stdio, sync::Arc};

use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use crate::support::{
    controller::Controller,
    installation::{installed, link_gen},
    objects::namespace,
    program::run,
};

async fn exported(plane: &ControlPlane) {
    let service = serde_json::from_value(json!({
        "metadata": { "name": "web", "labels": { "mirror.linkerd.io/exported": "remote-discovery" } },
        "spec": { "ports": [{ "name": "http", "port": 80 }] },
    }))
    .unwrap();
    Api::<k8s_openapi::api::core::v1::Service>::namespaced(plane.client(), "link-command")
        .create(&PostParams::default(), &service)
        .await
        .unwrap();
}

/// Runs the program with something on standard input.
fn run_with(kubeconfig: &std::path::Path, args: &[&str], input: &str) -> (i32, String, String) {
    use std::io::Write as _;
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .env("KUBECONFIG", kubeconfig)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn link_connects_two_clusters_and_mirrors_what_plan_predicted() {
    let (east, west): (Arc<ControlPlane>, Arc<ControlPlane>) = tokio::join!(
        installed("link-east", "192.0.2.10"),
        installed("link-west", "192.0.2.20")
    );
    namespace("link-command", &[&east, &west]).await;
    exported(&east).await;
    let kubeconfig = west.folder().join("both.kubeconfig");
    ControlPlane::merged_kubeconfig(&[&west, &east], &kubeconfig).unwrap();

    // Before linking: `plan` reads the Link and its Secrets from stdin, and nothing is applied.
    let proposed = link_gen(&east, "link-east", &[]);
    let plan = ["--context", "link-west", "plan", "--link-file", "-"];
    let (code, diff, errors) = run_with(&kubeconfig, &plan, &proposed);
    assert_eq!(code, 2, "{errors}");
    assert!(
        diff.contains("+ Service link-command/web-link-east"),
        "{diff}"
    );
    assert!(
        diff.contains("+ Service linkerd-multicluster/probe-link-east"),
        "{diff}"
    );
    assert!(!diff.contains("token"), "{diff}");
    let json = [&plan[..], &["-o", "json"]].concat();
    let (_, json, _) = run_with(&kubeconfig, &json, &proposed);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["problems"], json!([]));
    assert!(
        json["changes"]
            .as_array()
            .unwrap()
            .iter()
            .all(|change| change["verb"] == "create")
    );

    let _controller = Controller::start(&west, &[]);
    let linked = run(
        &kubeconfig,
        &["link", "--from", "link-east", "--to", "link-west"],
    );
    assert_eq!(linked.code, 0, "{}", linked.stderr);
    assert!(
        linked.stderr.contains("link-west is linked to link-east"),
        "{}",
        linked.stderr
    );
    assert!(linked.stdout.contains("web-link-east"), "{}", linked.stdout);

    // Linkerd ignores a change of its Secret, but no change needs no restart.
    let link_again = || {
        let linked = run(
            &kubeconfig,
            &["link", "--from", "link-east", "--to", "link-west"],
        );
        assert_eq!(linked.code, 0, "{}", linked.stderr);
        linked.stderr
    };
    let restart =
        "`kubectl --context link-west -n linkerd rollout restart deployment/linkerd-destination`";
    let said = link_again();
    assert!(!said.contains("restart"), "{said}");
    let secrets = Api::<Secret>::namespaced(west.client(), "linkerd");
    let other = Patch::Merge(json!({ "stringData": { "kubeconfig": "another" } }));
    secrets
        .patch(
            "cluster-credentials-link-east",
            &PatchParams::default(),
            &other,
        )
        .await
        .unwrap();
    let said = link_again();
    assert!(said.contains(restart), "{said}");

    // After linking: nothing is left to do. A Link that was not applied is unknown.
    let again = run(
        &kubeconfig,
        &["--context", "link-west", "plan", "--link", "link-east"],
    );
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "Nothing to do.\n"),
        "{}",
        again.stderr
    );
    let unknown = run(
        &kubeconfig,
        &["--context", "link-west", "plan", "--link", "north"],
    )
    .failure();
    assert!(unknown.contains("Link north not found"), "{unknown}");
    assert!(
        unknown.contains("hint: known Links: link-east"),
        "{unknown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn link_says_what_is_missing_and_applies_nothing() {
    let plane = installed("link-alone", "192.0.2.30").await;
    let kubeconfig = plane.kubeconfig();
    let missing = run(kubeconfig, &["link", "--to", "link-alone"]).misuse();
    assert!(missing.contains("error: missing --from"), "{missing}");
    let same = run(
        kubeconfig,
        &["link", "--from", "link-alone", "--to", "link-alone"],
    )
    .misuse();
    assert!(same.contains("are both"), "{same}");
    let unknown = run(
        kubeconfig,
        &["link", "--from", "nowhere", "--to", "link-alone"],
    )
    .failure();
    assert!(
        unknown.contains("\"nowhere\" is not in the kubeconfig"),
        "{unknown}"
    );
    let links = plane
        .kubectl(&["get", "links", "-A", "-o", "name"])
        .await
        .unwrap();
    assert_eq!(links, "");
}
