//! Links whose connection to the API server is not secure or fails. `link-gen` creates insecure Links only with a flag.
//! The status reports them, and they work.

use std::path::PathBuf;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use control_plane::ControlPlane;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use linkerd_mc::api::labels as l;
use serde_json::json;

use crate::support::{
    installation::NAMESPACE,
    links::{
        checked, condition, condition_is, condition_says, in_step, mirror_is, objects, status_that,
        unlink,
    },
    objects::{apply, export, gone, namespace, web},
    planes::hub,
    program::run,
};

const INSECURE: &str = "InsecureTLS";
const UNVERIFIED: &str = "insecure-skip-tls-verify: true\n";

/// A kubeconfig of this control plane that disables the verification of its certificate.
fn unverified(plane: &ControlPlane) -> PathBuf {
    let good = std::fs::read_to_string(plane.kubeconfig()).unwrap();
    let lines = good.lines().map(|line| {
        if line.contains("certificate-authority-data: ") {
            format!("    {UNVERIFIED}")
        } else {
            format!("{line}\n")
        }
    });
    let path = plane.folder().join("unverified.kubeconfig");
    std::fs::write(&path, lines.collect::<String>()).unwrap();
    path
}

/// The kubeconfig in the Secret of a Link.
async fn kubeconfig_of(plane: &ControlPlane, cluster: &str) -> String {
    let name = format!("{}{cluster}", l::CREDENTIALS_PREFIX);
    let secrets = Api::<Secret>::namespaced(plane.client(), NAMESPACE);
    let data = secrets.get(&name).await.unwrap().data.unwrap();
    String::from_utf8(data[l::KUBECONFIG_KEY].0.clone()).unwrap()
}

/// Applies a Link with a changed kubeconfig, and waits until its `Connected` condition has this reason.
async fn connected_with(name: &str, change: impl Fn(&str) -> String, reason: &str) {
    let (east, west) = hub().await.pair();
    let mut printed = objects(east, name, &[]);
    let kubeconfig = &mut printed[0]["data"][l::KUBECONFIG_KEY];
    let text = BASE64_STANDARD
        .decode(kubeconfig.as_str().unwrap())
        .unwrap();
    let changed = change(&String::from_utf8(text).unwrap());
    *kubeconfig = json!(BASE64_STANDARD.encode(changed));
    apply(west, &printed).await;
    condition_is(west, name, "Connected", "False", reason).await;
    unlink(west, name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn certificate_that_does_not_fit_and_token_that_is_refused_are_told_apart() {
    let with = |kubeconfig: &str, key: &str, value: &str| {
        let lines = kubeconfig.lines().map(|line| match line.split_once(key) {
            Some((before, _)) => format!("{before}{key}{value}\n"),
            None => format!("{line}\n"),
        });
        lines.collect::<String>()
    };
    let named = format!(
        "{}\n    tls-server-name: other.example",
        hub().await.east.url()
    );
    let misnamed = |text: &str| with(text, "    server: ", &named);
    connected_with("misnamed", misnamed, "CertificateInvalid").await;
    let refused = |text: &str| with(text, "    token: ", "bm90LWEtdG9rZW4");
    connected_with("refused", refused, "Unauthorized").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn insecure_tls_needs_a_flag_is_reported_and_works() {
    let (east, west) = hub().await.pair();
    namespace("unsafe", &[east, west]).await;
    export(east, "unsafe", &web("web", "unsafe")).await;
    let config = unverified(east);
    let link_gen = |flags: &[&str]| {
        let selector = "--selector=mirror.linkerd.io/exported=unsafe";
        let own = ["link-gen", "--cluster-name=unsafe", selector];
        run(&config, &[&own[..], flags].concat())
    };
    let plain = "--api-server-address=http://192.0.2.1:8080";
    let account = ["serviceaccount", "unsafe", "--namespace", NAMESPACE];
    east.kubectl(&[&["create"], &account[..]].concat())
        .await
        .unwrap();
    for (flags, what) in [
        (
            &[][..],
            "the certificate of the target's API server is not verified",
        ),
        (
            &[plain],
            "requests to the target's API server are not encrypted",
        ),
    ] {
        let mark = east.audit_mark().unwrap();
        let account = ["--service-account-name=unsafe", "--token-duration=1h"];
        let refused = link_gen(&[flags, &account].concat());
        let asked = east.audit_since(mark).unwrap();
        let asked = asked.iter().filter(|event| event.name == "unsafe");
        let tokens = asked.filter(|event| event.subresource == "token").count();
        assert_eq!(tokens, 0, "a token was made for a link that is refused");
        assert_eq!(
            (refused.code, refused.stdout.as_str()),
            (1, ""),
            "{flags:?}"
        );
        assert!(
            refused.stderr.contains(&format!("error: {what}")),
            "{}",
            refused.stderr
        );
        assert!(
            refused
                .stderr
                .contains("pass --insecure-target-tls to link anyway"),
            "{}",
            refused.stderr
        );
        let printed = link_gen(&[flags, &["--insecure-target-tls"]].concat());
        assert_eq!(printed.code, 0, "{}", printed.stderr);
        assert!(
            printed.stderr.contains(&format!("warning: {what}")),
            "{}",
            printed.stderr
        );
    }

    east.kubectl(&[&["delete"], &account[..]].concat())
        .await
        .unwrap();

    let printed = link_gen(&["--insecure-target-tls"]).stdout;
    west.apply(&printed).await.unwrap();
    let reason = ("True", "CertificateNotVerified");
    condition_says(west, "unsafe", INSECURE, reason, "link again").await;
    condition_is(west, "unsafe", "Ready", "True", "Mirroring").await;
    mirror_is(west, "unsafe", "unsafe", "web", "Mirrored").await;
    assert!(kubeconfig_of(west, "unsafe").await.contains(UNVERIFIED));

    let report = run(west.kubeconfig(), &["check", "--wait=0s", "-o=json"]);
    assert_eq!(report.code, 1);
    let name = "connections to remote clusters are encrypted and verified";
    let found = checked(west, name);
    assert_eq!(found["result"], "error");
    let told = "unsafe: the certificate of the target's API server is not verified";
    let error = found["error"].as_str().unwrap();
    assert!(error.starts_with(told), "{error}");
    let status = run(west.kubeconfig(), &["status"]).data();
    assert!(status.contains(&format!("\n{told}")), "{status}");

    // `rotate` also writes credentials that disable the verification.
    let both = west.folder().join("unsafe.kubeconfig");
    ControlPlane::merged_kubeconfig(&[west, east], &both).unwrap();
    let before = kubeconfig_of(west, "unsafe").await;
    let rotate = ["rotate", "unsafe", "--no-restart", "--target"];
    let rotate = [&rotate[..], &[east.name(), "--source", west.name()]].concat();
    let rotated = run(&both, &rotate);
    assert_eq!(rotated.code, 0, "{}", rotated.stderr);
    let after = kubeconfig_of(west, "unsafe").await;
    assert!(after != before && after.contains(UNVERIFIED));
    in_step(west, "unsafe", &[]).await;

    // Applies the Link again, with a secure connection.
    apply(west, &objects(east, "unsafe", &[])).await;
    status_that(west, "unsafe", |status| {
        condition(status, INSECURE).is_none()
    })
    .await;
    condition_is(west, "unsafe", "Ready", "True", "Mirroring").await;
    unlink(west, "unsafe").await;
    gone(west, "unsafe", "web-unsafe").await;
}
