//! Output of `gateways` and `status`, and conditions that `status` waits for.

use std::time::Duration;

use control_plane::eventually;
use serde_json::{Value, json};

use super::{MIRRORS, planes::Planes};
use crate::support::{
    audit::{mark, requests},
    installation::NAMESPACE,
    program::run,
};

pub(super) fn all_is_shown_as_it_is(planes: &Planes) {
    assert_eq!(
        planes.run(&["gateways"]).data(),
        format!(
            "CLUSTER  ALIVE    NUM_SVC      LATENCY  \neast     True   {MIRRORS:>9}          3ms  \n"
        )
    );
    let gateways: Value =
        serde_json::from_str(&planes.run(&["gateways", "-ojson"]).data()).unwrap();
    let expected =
        json!([{"clusterName": "east", "alive": true, "numberOfServices": MIRRORS, "latency": 3}]);
    assert_eq!(gateways, expected);

    let status = planes.run(&["status"]).data();
    let rows: Vec<Vec<&str>> = status
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[1][..7],
        ["east", "True", "alive", "3ms", "600", "1", "1"],
        "{status}"
    );
    let notes: Vec<&str> = status.lines().skip(3).collect();
    assert_eq!(notes[0], "east: not yet");
    assert!(
        notes[1].starts_with("east: the token expires on "),
        "{status}"
    );
    assert_eq!(notes.len(), 2, "{status}");

    let services = planes.run(&["status", "--services", "-o", "json"]).data();
    let services: Value = serde_json::from_str(&services).unwrap();
    let services = services["services"].as_array().unwrap();
    assert_eq!(
        services.len(),
        MIRRORS + 2,
        "mirrors, a federated Service, and one that is missing"
    );
    let row = |name: Value| services.iter().find(|row| row["service"] == name).unwrap();
    assert_eq!(
        row(json!("web-007-east"))["endpoints"],
        json!({"ready": 0, "total": 0})
    );
    assert_eq!(
        row(json!("web-008-east"))["endpoints"],
        json!({"ready": 0, "total": 1})
    );
    assert_eq!(row(json!("web-009-east"))["from"], json!(["web-009@east"]));
    assert_eq!(row(json!("web-federated"))["mode"], "federated");
    assert_eq!(row(Value::Null)["reason"], "MissingNamespace");
    let table = planes.run(&["status", "--services"]).data();
    assert_eq!(
        table
            .lines()
            .filter(|line| line.contains(" gateway "))
            .count(),
        MIRRORS
    );
}

pub(super) async fn waiting_ends_with_the_change(planes: &Planes) {
    let kubeconfig = planes.kubeconfig.clone();
    let since = mark(&planes.west);
    let waiting = tokio::task::spawn_blocking(move || {
        run(
            &kubeconfig,
            &[
                "status",
                "--wait",
                "--for=ready",
                "--timeout=60s",
                "-o=yaml",
            ],
        )
    });
    // The command has opened its watch, and its condition is not met yet.
    eventually("a watch of Links", Duration::from_secs(30), async || {
        let events = requests(&planes.west, since);
        let watches = events
            .iter()
            .filter(|e| e.verb == "list" && e.resource == "links");
        Ok((watches.count() > 1).then_some(()))
    })
    .await
    .unwrap();
    planes.set_status(true).await;
    let status = waiting.await.unwrap().data();
    assert!(status.contains("\n  ready: true\n"), "{status}");
}

/// `status` checks credentials as far as the user may read them.
pub(super) async fn credentials_are_shown_as_far_as_they_may_be_read(planes: &Planes) {
    let west = async |args: &[&str]| planes.west.kubectl(args).await.unwrap();
    let role = "--resource=links.multicluster.linkerd.io";
    west(&["create", "clusterrole", "links", "--verb=list", role]).await;
    let binding = ["create", "clusterrolebinding", "links"];
    west(&[&binding[..], &["--clusterrole=links", "--user=reader"]].concat()).await;
    let problems = |user: &str| {
        let status = planes.run(&["status", "-o=json", "--as", user]);
        assert_eq!((status.code, status.stderr.as_str()), (0, ""));
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        status["links"][0]["credentialsProblems"].clone()
    };
    let starts = |problems: &Value, expected: &[&str]| {
        let texts: Vec<_> = problems.as_array().unwrap().iter().collect();
        assert_eq!(texts.len(), expected.len(), "{problems}");
        for (text, start) in texts.iter().zip(expected) {
            assert!(text.as_str().unwrap().starts_with(start), "{problems}");
        }
    };

    assert_eq!(problems("reader"), Value::Null);
    let table = planes.run(&["status", "--as=reader"]).data();
    assert!(table.ends_with("\n\neast: not yet\n"), "{table}");
    // This user may read only the Secrets in the namespace of the Link.
    let role = [
        "create",
        "role",
        "secrets",
        "--verb=get",
        "--resource=secrets",
    ];
    west(&[&role[..], &["--namespace", NAMESPACE]].concat()).await;
    let binding = ["create", "rolebinding", "secrets", "--role=secrets"];
    west(&[&binding[..], &["--user=reader", "--namespace", NAMESPACE]].concat()).await;
    eventually("the Role to count", Duration::from_secs(30), async || {
        Ok((problems("reader") != Value::Null).then_some(()))
    })
    .await
    .unwrap();
    starts(&problems("reader"), &["the token expires on "]);

    let secret = ["secret", "cluster-credentials-east", "--namespace=linkerd"];
    let kept = west(&[&["get", "-o=json"][..], &secret].concat()).await;
    west(&[&["delete"][..], &secret].concat()).await;
    let missing = "namespace linkerd has no Secret for this cluster";
    let all = planes.run(&["status", "-o=json"]).data();
    let all: Value = serde_json::from_str(&all).unwrap();
    let found = &all["links"][0]["credentialsProblems"];
    starts(found, &[missing, "the token expires on "]);
    let wide = planes.run(&["status", "-o=wide"]).data();
    let notes: Vec<&str> = wide.lines().skip(3).collect();
    assert_eq!(notes, [format!("east: {}", found[0].as_str().unwrap())]);
    planes
        .west
        .kubectl_stdin(&["create", "-f", "-"], &kept)
        .await
        .unwrap();
}
