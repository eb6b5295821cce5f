//! Commands that messages tell people to run use the cluster that was asked about, whatever the current context is.

use std::path::Path;

use control_plane::ControlPlane;
use serde_json::json;

use crate::support::{
    installation::NAMESPACE,
    objects::apply,
    planes::{bare, installed},
    program::run,
};

/// The programs whose commands are printed.
const PROGRAMS: [&str; 3] = ["linkerd-mc", "kubectl", "linkerd"];
/// The cluster that is asked about. It is not in the current context.
const ASKED: &str = "asked";

/// Commands that ask about one cluster.
#[rustfmt::skip]
const QUESTIONS: [&[&str]; 25] = [
    &["check"],
    &["check", "-o", "short"],
    &["check", "-o", "json"],
    &["check", "-o", "junit"],
    &["status"],
    &["status", "-o", "wide"],
    &["status", "-o", "json"],
    &["status", "--services"],
    &["status", "shop/none"],
    &["status", "none"],
    &["status", "--cluster-name", "nowhere"],
    &["status", "--wait", "10ms"],
    &["gateways"],
    &["status", "-o", "tree"],
    &["traffic", "--interval", "10ms"],
    &["traffic", "none", "--interval", "10ms"],
    &["diagnose", "shop/web-east"],
    &["diagnose", "shop/none"],
    &["diagnose", "kubernetes", "--from", "default/none"],
    &["diagnose", "shop/web-east", "-o", "json"],
    &["plan", "east"],
    &["drain", "east", "--dry-run"],
    &["unlink", "--cluster-name", "east"],
    &["hand-back", "--dry-run"],
    &["uninstall"],
];

/// The commands in what the program prints: in backticks, and after `run: `.
fn commands(text: &str) -> Vec<&str> {
    let runs = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("run: "));
    let quoted = text
        .lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2));
    let all = quoted.chain(runs).flat_map(|command| command.split(" | "));
    all.filter(|command| {
        let program = command.split(' ').next();
        program.is_some_and(|program| PROGRAMS.contains(&program)) && command.contains(' ')
    })
    .collect()
}

/// Asks all questions about the cluster. Returns the printed commands that do not name it, and the number of all.
fn unnamed(kubeconfig: &Path) -> (Vec<String>, usize) {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for question in QUESTIONS {
        let args = [&["--context", ASKED], question].concat();
        let outcome = run(kubeconfig, &args);
        for command in commands(&format!("{}\n{}", outcome.stdout, outcome.stderr)) {
            count += 1;
            let names = ["--context", "--source"].map(|flag| format!("{flag} {ASKED}"));
            if !names.iter().any(|name| command.contains(name)) {
                wrong.push(format!("{}: {command}", question.join(" ")));
            }
        }
    }
    (wrong, count)
}

/// A kubeconfig whose current context is of another cluster.
fn kubeconfig(asked: &ControlPlane, current: &ControlPlane) -> std::path::PathBuf {
    let path = asked.folder().join("hints.kubeconfig");
    ControlPlane::merged_kubeconfig(&[current, asked], &path).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn each_printed_command_uses_the_cluster_that_was_asked_about() {
    let (asked, current) = tokio::join!(bare(ASKED), bare("current"));
    let config = kubeconfig(&asked, &current);
    let (wrong, count) = unnamed(&config);
    assert!(
        wrong.is_empty(),
        "without the extension:\n{}",
        wrong.join("\n")
    );
    assert!(count >= 10, "{count}");
    drop(asked);

    // A Link to nowhere, and a controller that stopped.
    let asked = installed(ASKED, "192.0.2.60").await;
    let config = kubeconfig(&asked, &current);
    apply(&asked, &stopped()).await;
    let (wrong, count) = unnamed(&config);
    assert!(
        wrong.is_empty(),
        "with the extension:\n{}",
        wrong.join("\n")
    );
    assert!(count >= 30, "{count}");
}

/// A Link whose controller and credentials are gone, and a mirror.
fn stopped() -> Vec<serde_json::Value> {
    let labels = json!({ "mirror.linkerd.io/mirrored-service": "true", "mirror.linkerd.io/cluster-name": "east" });
    vec![
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }),
        json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3", "kind": "Link",
            "metadata": { "name": "east", "namespace": NAMESPACE },
            "spec": {
                "targetClusterName": "east", "targetClusterDomain": "cluster.local",
                "targetClusterLinkerdNamespace": "linkerd", "clusterCredentialsSecret": "cluster-credentials-east",
                "gatewayAddress": "192.0.2.1", "gatewayPort": "4143", "gatewayIdentity": "gateway",
                "probeSpec": { "path": "/ready", "port": "4191", "period": "3s" },
                "selector": { "matchLabels": { "mirror.linkerd.io/exported": "true" } },
            },
        }),
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "service-mirror-write", "namespace": NAMESPACE },
            "spec": { "holderIdentity": "gone", "leaseDurationSeconds": 30, "renewTime": "2026-01-01T00:00:00.000000Z" },
        }),
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web-east", "namespace": "shop", "labels": labels },
            "spec": { "ports": [{ "port": 80 }] },
        }),
    ]
}
