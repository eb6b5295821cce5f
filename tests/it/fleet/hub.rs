//! `fleet` with clusters that have a ClusterProfile in a hub cluster.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use control_plane::{ControlPlane, eventually};
use kube::config::Kubeconfig;
use serde_json::{Value, json};

use super::{Fleet, linked_to, made};
use crate::support::{SOON, program::run};

/// The CRD of ClusterProfiles, with only what an API server needs.
const CRD: &str = r#"{
  "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
  "metadata": { "name": "clusterprofiles.multicluster.x-k8s.io",
    "annotations": { "api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/4323" } },
  "spec": {
    "group": "multicluster.x-k8s.io", "scope": "Namespaced",
    "names": { "kind": "ClusterProfile", "listKind": "ClusterProfileList", "plural": "clusterprofiles", "singular": "clusterprofile" },
    "versions": [{ "name": "v1alpha1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
      "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }]
  }
}"#;

/// The kubeconfig of a control plane: its cluster and its user.
fn admin(plane: &ControlPlane) -> (Value, Value) {
    let text = fs::read_to_string(plane.kubeconfig()).unwrap();
    let config: Value = json!(Kubeconfig::from_yaml(&text).unwrap());
    (
        config["clusters"][0]["cluster"].clone(),
        config["users"][0]["user"].clone(),
    )
}

/// A credential plugin for a control plane: a script that prints the certificate of its administrator.
fn plugin(plane: &ControlPlane, folder: &Path) -> String {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    let (_, user) = admin(plane);
    let pem = |key: &str| {
        let bytes = BASE64_STANDARD.decode(user[key].as_str().unwrap()).unwrap();
        String::from_utf8(bytes).unwrap()
    };
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {
            "clientCertificateData": pem("client-certificate-data"), "clientKeyData": pem("client-key-data"),
        },
    });
    let (file, script) = (
        folder.join(format!("{}.json", plane.name())),
        folder.join(plane.name()),
    );
    fs::write(&file, credential.to_string()).unwrap();
    fs::write(&script, format!("#!/bin/sh\nexec cat {}\n", file.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    format!("--credential-plugin={}={}", plane.name(), script.display())
}

/// A ClusterProfile whose access provider has the name of the cluster. It also names a command, which `fleet` must not
/// run.
fn profile(plane: &ControlPlane, healthy: &str, evil: &Path) -> Value {
    let (mut cluster, _) = admin(plane);
    let touch = json!([evil.display().to_string()]);
    cluster["extensions"] = json!([
        { "name": "clusterprofiles.multicluster.x-k8s.io/exec/additional-args", "extension": touch },
    ]);
    json!({
        "apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {
            "name": plane.name(), "namespace": "default", "labels": { "env": "prod", "cluster": plane.name() },
        },
        "spec": { "clusterManager": { "name": "test" } },
        "status": {
            "conditions": [{
                "type": "ControlPlaneHealthy", "status": healthy, "reason": "Probe", "message": "etcd is slow",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "accessProviders": [{
                "name": plane.name(), "cluster": cluster,
                "execConfig": { "command": "touch", "args": [evil.display().to_string()] },
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn clusters_of_a_hub_are_linked_with_the_plugins_of_flags() {
    let fleet = Fleet::start("hub").await;
    let [east, hub, west] = &fleet.planes;
    let folder = fleet.folder.path();
    let evil = folder.join("evil");
    let apply = async |object: &str| {
        // The CRD is served a moment after it was made.
        eventually("the object to be accepted", SOON, async || {
            Ok(hub.apply(object).await.ok())
        })
        .await
        .unwrap();
    };
    apply(CRD).await;
    apply(&profile(east, "True", &evil).to_string()).await;
    apply(&profile(west, "False", &evil).to_string()).await;
    let file = folder.join("fleet.yaml");
    let text = "name: f\nid: t\nclusters:\n- clusterProfiles: {context: hub-north, namespace: default, selector: env=prod}\n\
                links: [{mesh: all}]\n";
    fs::write(&file, text).unwrap();
    // The user has a kubeconfig for the hub alone.
    let plugins = [plugin(east, folder), plugin(west, folder)];
    let fleet_with = |command: &str, flags: &[&str]| {
        let args = ["fleet", command, "--file", file.to_str().unwrap()];
        run(hub.kubeconfig(), &[&args[..], flags].concat())
    };

    let without = fleet_with("plan", &[&plugins[0]]);
    assert_eq!(without.code, 1, "{}{}", without.stdout, without.stderr);
    let why = "not read: its profile names the access providers hub-west; pass --credential-plugin NAME=COMMAND";
    assert!(without.stdout.contains(why), "{}", without.stdout);
    let unhealthy = "hub-west: the control plane is not healthy, says the ClusterProfile default/hub-west: etcd is slow";
    assert!(without.stderr.contains(unhealthy), "{}", without.stderr);

    let flags = [plugins[0].as_str(), &plugins[1], "--wait=0s"];
    let applied = fleet_with("apply", &flags);
    assert_eq!(applied.code, 0, "{}{}", applied.stdout, applied.stderr);
    assert_eq!(made(east).await, linked_to(&["hub-west"]));
    assert_eq!(made(west).await, linked_to(&["hub-east"]));
    let again = fleet_with("plan", &flags[..2]);
    assert_eq!(
        (again.code, again.stdout.as_str()),
        (0, "Nothing to do.\n"),
        "{}",
        again.stderr
    );
    // `fleet` has not run the command of a profile.
    assert!(!evil.exists());

    // The entries of the file may be on one line.
    let entry = |name: &str| {
        text.lines().nth(3).unwrap()[2..].replace("env=prod", &format!("cluster={name}"))
    };
    let both = [entry("hub-east"), entry("hub-west")].map(|entry| format!("{{{entry}}}"));
    let on_one_line = format!(
        "name: f\nid: t\nclusters: [{}]\nlinks: [{{mesh: all}}]\n",
        both.join(", ")
    );
    fs::write(&file, on_one_line).unwrap();
    let same = fleet_with("plan", &flags[..2]);
    assert_eq!(same.stdout, "Nothing to do.\n", "{}", same.stderr);

    // While the hub is unavailable, its clusters are unknown, and nothing is removed.
    fs::write(&file, text).unwrap();
    let away = folder.join("away");
    let kubeconfig = fs::read_to_string(hub.kubeconfig()).unwrap();
    fs::write(&away, kubeconfig.replace(hub.url(), "https://127.0.0.1:1")).unwrap();
    let args = [
        "fleet",
        "apply",
        "--yes",
        "--wait=0s",
        "--file",
        file.to_str().unwrap(),
    ];
    let unread = run(&away, &[&args[..], &flags[..2]].concat());
    assert_eq!(unread.code, 1, "{}", unread.stdout);
    let why = format!(
        "cannot read the clusterProfiles of {}, line 4",
        file.display()
    );
    assert!(unread.stderr.contains(&why), "{}", unread.stderr);
    assert_eq!(made(east).await, linked_to(&["hub-west"]));

    fs::write(&file, text.replace("env=prod", "env=test")).unwrap();
    let none = fleet_with("plan", &flags[..2]);
    assert_eq!(none.code, 1, "{}", none.stdout);
    assert!(
        none.stderr
            .contains("no ClusterProfile is selected in the namespace default"),
        "{}",
        none.stderr
    );
}
