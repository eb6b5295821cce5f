//! Output of `gateways` and `status`, and conditions that `status` waits for.

use std::time::Duration;

use control_plane::eventually;
use serde_json::{Value, json};

use super::{
    MIRRORS,
    planes::{FUTURE, Planes},
};
use crate::support::{
    audit::{mark, requests},
    installation::NAMESPACE,
    program::run,
};

/// The note about the Service whose namespace does not exist in the source cluster.
const UNMIRRORED: &str = "east: 1 of 602 Services are not mirrored (MissingNamespace): run `linkerd-mc --context west status --services --cluster-name east`";

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
        rows[1][..8],
        ["east", "False", "True", "alive", "3ms", "600", "1", "1"],
        "{status}"
    );
    let notes: Vec<&str> = status.lines().skip(3).collect();
    assert_eq!(notes[0], "east: not yet");
    assert_eq!(notes[1], UNMIRRORED);
    assert!(
        notes[2].starts_with("east: the token expires on "),
        "{status}"
    );
    assert_eq!(notes.len(), 3, "{status}");

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
    assert!(table.starts_with("CLUSTER  READY "), "Links stay visible");
    let bad = "1 of 600 mirrors have no endpoints, 1 of 600 mirrors have no endpoint that is ready; check";
    assert!(table.contains(bad), "{table}");
    one_service_can_be_asked_for(planes);
}

/// `status` finds a Service by its name in this cluster or in the target cluster, with or without its namespace.
fn one_service_can_be_asked_for(planes: &Planes) {
    for args in [
        &["status", "shop/web-007"][..],
        &["status", "shop/web-007-east"],
        &["status", "web-007", "-n", "shop"],
        &["status", "web-007", "-A"],
    ] {
        let table = planes.run(args).data();
        let rows: Vec<_> = table
            .lines()
            .filter(|line| line.contains(" gateway "))
            .collect();
        assert_eq!(rows.len(), 1, "{table}");
        let words: Vec<_> = rows[0].split_whitespace().collect();
        let expected = [
            "shop",
            "web-007-east",
            "gateway",
            "web-007@east",
            "0/0",
            "NoEndpoints",
        ];
        assert_eq!(words, expected, "{args:?}");
    }
    let none = planes.run(&["status", "shop/typo"]).failure();
    let expected = "error: no mirror or federated Service is, or comes from, shop/typo\nhint: ";
    assert!(none.starts_with(expected), "{none}");
}

/// Every command shows that the controller has not renewed its Lease, and that it reported the gateway as dead.
pub(super) async fn dead_controllers_and_gateways_are_seen(planes: &Planes) {
    planes.kill_gateway().await;
    planes.renew_lease("2026-01-01T00:00:00.000000Z").await;
    let silent = "no controller is active: controller-1 last renewed the Lease linkerd-multicluster/service-mirror-write ";
    let status = planes.run(&["status"]).data();
    let row: Vec<&str> = status.lines().nth(1).unwrap().split_whitespace().collect();
    let expected = [
        "east", "True", "(old)", "True", "(old)", "dead", "(old)", "-", "600", "1", "1",
    ];
    assert_eq!(row[..11], expected, "{status}");
    // What nobody reports any more is no fact.
    let notes: Vec<&str> = status.lines().skip(3).collect();
    assert!(
        notes.len() == 2 && notes[0].starts_with(silent) && notes[1].contains("the token"),
        "{status}"
    );
    let gateways = planes.run(&["gateways"]);
    assert!(
        gateways.stdout.contains("\neast     False (old) "),
        "{gateways:?}"
    );
    let graph = planes.run(&["status", "-o", "tree"]).data();
    assert!(
        graph.contains("east  old, connected, gateway dead, "),
        "{graph}"
    );
    assert!(gateways.stderr.contains(silent), "{gateways:?}");
    assert!(graph.contains(silent), "{graph}");
    let (results, _) = planes.check(&[]);
    let reporting = &results["service mirror controller is reporting"];
    assert_eq!(reporting["result"], "error");
    assert!(
        reporting["error"].as_str().unwrap().starts_with(silent),
        "{reporting}"
    );
    let gateway = &results["probe services able to communicate with all gateway mirrors"];
    assert_eq!(
        gateway["error"],
        "east: the gateway at 192.0.2.10 port 4191 fails probes since 2026-01-01 00:00:00 UTC: connection refused; check \
         its Pods and the firewall\nold: no controller has reported since 2026-01-01 00:00:00 UTC"
    );
    let json: Value = serde_json::from_str(&planes.run(&["status", "-o=json"]).data()).unwrap();
    let controller = &json["links"][0]["controller"];
    assert_eq!(
        controller,
        &json!({"active": false, "holder": "controller-1", "renewed": "2026-01-01T00:00:00Z"})
    );
    // Ready is what it was: nobody knows what it is.
    let waited = planes.run(&["status", "--wait=1s"]).failure();
    let unmet = "error: 1 of 1 Links not Ready: east (old: no controller is active), after 1s\n";
    assert!(waited.contains(unmet), "{waited}");
    planes.renew_lease(FUTURE).await;
    planes.set_status(true).await;
    let status = planes.run(&["status"]).data();
    assert!(
        !status.contains("old") && !status.contains("gateway at"),
        "{status}"
    );
}

pub(super) async fn waiting_ends_with_the_change(planes: &Planes) {
    let kubeconfig = planes.kubeconfig.clone();
    let since = mark(&planes.west);
    let waiting = tokio::task::spawn_blocking(move || {
        run(
            &kubeconfig,
            &["status", "--wait=60s", "--for=ready", "-o=yaml"],
        )
    });
    // The command lists Links once to show them, and a second time when its watch begins.
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
    let status = waiting.await.unwrap();
    assert_eq!(status.code, 0, "{status:?}");
    // The command says what it waits for when the wait begins, also into a pipe.
    assert_eq!(
        status.stderr,
        "waiting: 1 of 1 Links not Ready: east (not yet)\n"
    );
    assert!(status.stdout.contains("\n  ready: true\n"), "{status:?}");
}

/// `status` checks credentials as far as the user may read them.
pub(super) async fn credentials_are_shown_as_far_as_they_may_be_read(planes: &Planes) {
    let west = async |args: &[&str]| planes.west.kubectl(args).await.unwrap();
    let role = "--resource=links.multicluster.linkerd.io";
    west(&["create", "clusterrole", "links", "--verb=list", role]).await;
    let binding = ["create", "clusterrolebinding", "links"];
    west(&[&binding[..], &["--clusterrole=links", "--user=reader"]].concat()).await;
    let link = |user: &[&str]| {
        let status = planes.run(&[&["status", "-o=json"], user].concat());
        assert_eq!((status.code, status.stderr.as_str()), (0, ""));
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        status["links"][0].clone()
    };
    let reader = ["--as", "reader"];
    let starts = |link: &Value, expected: &[&str]| {
        let found: Vec<_> = link["findings"].as_array().unwrap().iter().collect();
        assert_eq!(found.len(), expected.len(), "{link}");
        for (found, start) in found.iter().zip(expected) {
            assert!(
                found["evidence"].as_str().unwrap().starts_with(start),
                "{link}"
            );
        }
    };
    let (not_yet, unmirrored) = ("not yet", "1 of 602 Services are not mirrored");
    let unseen = |link: &Value| link["unseen"].as_array().unwrap().len();

    let nothing = link(&reader);
    starts(&nothing, &[not_yet, unmirrored]);
    assert_eq!(unseen(&nothing), 2, "{nothing}");
    let table = planes.run(&["status", "--as=reader"]).data();
    let list = UNMIRRORED.replace("--context west", "--context west --as reader");
    assert!(
        table.ends_with(&format!("\n\neast: not yet\n{list}\n")),
        "{table}"
    );
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
        Ok((unseen(&link(&reader)) < 2).then_some(()))
    })
    .await
    .unwrap();
    starts(
        &link(&reader),
        &[not_yet, unmirrored, "the token expires on "],
    );

    let secret = ["secret", "cluster-credentials-east", "--namespace=linkerd"];
    let kept = west(&[&["get", "-o=json"][..], &secret].concat()).await;
    west(&[&["delete"][..], &secret].concat()).await;
    let missing = "namespace linkerd has no Secret for this cluster";
    let all = link(&[]);
    starts(
        &all,
        &[not_yet, unmirrored, missing, "the token expires on "],
    );
    assert_eq!(all["findings"][2]["cause"], "LinkerdSecretMissing");
    let wide = planes.run(&["status", "-o=wide"]).data();
    let notes: Vec<&str> = wide.lines().skip(3).collect();
    let missing = format!("east: {missing}");
    assert_eq!(notes[..2], ["east: not yet", UNMIRRORED]);
    assert!(notes.len() == 3 && notes[2].starts_with(&missing), "{wide}");
    planes
        .west
        .kubectl_stdin(&["create", "-f", "-"], &kept)
        .await
        .unwrap();
}
