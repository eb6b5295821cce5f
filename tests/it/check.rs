//! `check`, `status`, `gateways` and `graph` of two linked control planes. No controller runs: these commands only
//! read, so the tests write what a controller would write.

mod found;
mod planes;
mod shown;

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
    time::{Duration, Instant},
};

use assert_cmd::Command;
use control_plane::{LinkerdOptions, trust_anchor};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use self::planes::{Planes, results};
use crate::support::{audit::mark, program::Outcome};

const MIRRORS: usize = 600;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn check_status_gateways_and_graph_report_two_linked_clusters() {
    let planes = Planes::start().await;

    assert_eq!(planes.run(&["gateways", "-o", "json"]).data(), "[]\n");
    assert_eq!(planes.run(&["status"]).stderr, "no Links found\n");

    planes.link().await;
    let nothing = planes.run(&["status", "--services"]);
    assert_eq!(nothing.stderr, "no Services are mirrored or federated\n");
    let early = planes.run(&["status", "--wait=1s"]).failure();
    let unmet = "error: 1 of 1 Links not Ready: east, after 1s\n";
    assert!(early.contains(unmet), "{early}");
    let unknown = planes.run(&["status", "--cluster-name=typo"]).failure();
    let expected = "error: no Link to typo\nhint: linked clusters: east\n";
    assert_eq!(unknown, expected);

    planes.mirror().await;
    planes.set_status(false).await;
    shown::all_is_shown_as_it_is(&planes);
    shown::credentials_are_shown_as_far_as_they_may_be_read(&planes).await;
    shown::waiting_ends_with_the_change(&planes).await;
    shown::dead_controllers_and_gateways_are_seen(&planes).await;
    let since = mark(&planes.west);
    found::mirrors_without_endpoints_are_found(&planes);
    found::few_requests_were_made(&planes, since);
    found::labels_that_select_nothing_are_reported(&planes).await;
    found::services_that_do_not_fit_the_service_range_are_reported(&planes).await;
    found::excess_permissions_are_found(&planes).await;
    found::api_servers_with_one_ca_are_found(&planes).await;
    found::linkerd_without_slices_is_found(&planes).await;
    found::lacking_permissions_are_found(&planes).await;
    linkerd_can_call_it(&planes);
    a_fleet_is_put_together(&planes).await;
    a_dead_cluster_costs_one_timeout(&planes);
}

/// Calls the program as `linkerd check` finds and calls an extension: by the name of the executable, with these
/// arguments.
fn linkerd_can_call_it(planes: &Planes) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("linkerd-multicluster");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_linkerd-mc"), &program).unwrap();
    let call = |args: &[&str]| {
        let output = Command::new(&program).args(args).output().unwrap();
        Outcome {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    };
    assert_eq!(
        call(&["_extension-metadata"]).data(),
        "{\"name\":\"linkerd-multicluster\"}\n"
    );
    let kubeconfig = format!("--kubeconfig={}", planes.kubeconfig.display());
    let api_addr = format!(
        "--api-addr={}",
        planes.west.url().trim_start_matches("https://")
    );
    let outcome = call(&[
        "check",
        &api_addr,
        "--context=west",
        "--as=kubernetes-admin",
        "--as-group=[system:masters]",
        &kubeconfig,
        "--linkerd-namespace=linkerd",
        "--verbose=false",
        "--namespace=linkerd-multicluster",
        "--proxy=false",
        "--wait=5m0s",
        "--output=json",
    ]);
    assert_eq!(outcome.stderr, "");
    let results = results(&outcome);
    assert_eq!(results["Link CRD exists"]["result"], "success");
    assert_eq!(results["clusters share trust anchors"]["result"], "success");
}

/// The target cluster is paused, and ends once `check` has printed all rows that do not need it. `check` prints the others
/// last, and then all problems once more.
fn rows_are_printed_before_the_target_answers(planes: &Planes) {
    let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .env("KUBECONFIG", &planes.kubeconfig)
        .args(["check", "--timeout=5m"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut early: Vec<String> = Vec::new();
    let topics = [
        "installation",
        "controller",
        "links",
        "gateways",
        "services",
        "credentials",
        "proxies",
    ];
    while !topics
        .iter()
        .all(|topic| early.iter().any(|line| line == topic))
    {
        early.push(lines.next().unwrap().unwrap());
    }
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let waits = "checking west: remote cluster access credentials are valid (east)";
    assert!(said.any(|line| line.unwrap() == waits), "no `{waits}`");
    planes.east.kill_api_server().unwrap();
    assert_eq!(
        early[..3],
        [
            "installation",
            "------------",
            "√ multicluster extension Namespace exists"
        ]
    );
    assert!(
        !early.iter().any(|line| line == "target clusters"),
        "{early:?}"
    );
    let late: Vec<String> = lines.map(Result::unwrap).collect();
    let place = |line: &str| late.iter().position(|found| found.starts_with(line));
    let targets = place("target clusters").unwrap();
    let again = late
        .iter()
        .position(|line| line.contains(" error") && line.contains(" warning"))
        .unwrap();
    assert!(targets < again, "{late:?}");
    let problem = "× remote cluster access credentials are valid";
    let at = late[again..].iter().position(|line| line == problem);
    let below = &late[again + at.unwrap() + 1..];
    let why = "    east: cannot reach the cluster: ";
    assert!(below[0].starts_with(why), "{late:?}");
    assert_eq!(
        below[1], "    run in east: kubectl get --raw /readyz",
        "{late:?}"
    );
    assert_eq!(late.last().unwrap(), "Status check results are ×");
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

async fn a_fleet_is_put_together(planes: &Planes) {
    let graph = planes.run(&["status", "--all-contexts", "-o=tree"]).data();
    assert_eq!(
        graph,
        "west\n└─▶ east  connected, gateway 3ms, 600 mirrored, 1 federated, 1 unhealthy\n\
         east\n└─ no Links\n\nwest → east is one-way: east has no Link to west\n"
    );
    let other = LinkerdOptions {
        trust_anchors: Some(trust_anchor().unwrap()),
        ..LinkerdOptions::default()
    };
    planes.east.linkerd(&other).await.unwrap();
    let graph: Value = serde_json::from_str(
        &planes
            .run(&["status", "--context=west,east", "-ojson"])
            .data(),
    )
    .unwrap();
    let edge = &graph["links"][0];
    assert_eq!(
        (&edge["source"], &edge["target"]),
        (&json!("west"), &json!("east"))
    );
    assert_eq!(
        (&edge["oneWay"], &edge["sharesTrustAnchors"]),
        (&json!(true), &json!(false))
    );

    // `gateways` prints one document for all contexts. It names the source cluster of each gateway.
    let gateways = planes.run(&["gateways", "--context=west,east", "-ojson"]);
    let gateways: Value = serde_json::from_str(&gateways.data()).unwrap();
    assert_eq!(gateways.as_array().unwrap().len(), 1);
    assert_eq!(gateways[0]["context"], "west");

    let (results, _) = planes.check(&["--all-contexts"]);
    assert_eq!(results["clusters share trust anchors"]["result"], "error");
    assert_eq!(
        results["clusters are linked in both directions"]["error"],
        "west → east is one-way: east has no Link to west"
    );
    assert_eq!(
        results["linked clusters share trust anchors"]["result"],
        "error"
    );
    let well = LinkerdOptions::default();
    planes.east.linkerd(&well).await.unwrap();

    // What counts are the anchors that proxies accept, and not those of the installation.
    let roots = Api::<ConfigMap>::namespaced(planes.east.client(), l::LINKERD_NAMESPACE);
    let other = json!({ "data": { l::LINKERD_TRUST_ROOTS_KEY: trust_anchor().unwrap() } });
    let (params, other) = (PatchParams::default(), Patch::Merge(&other));
    let patched = roots.patch(l::LINKERD_TRUST_ROOTS, &params, &other);
    patched.await.unwrap();
    let (results, _) = planes.check(&["--all-contexts"]);
    for row in [
        "clusters share trust anchors",
        "linked clusters share trust anchors",
    ] {
        assert_eq!(results[row]["result"], "error", "{row}");
    }
    planes.east.linkerd(&well).await.unwrap();
}

fn a_dead_cluster_costs_one_timeout(planes: &Planes) {
    // Long, so that a busy machine does not make one timeout look like two.
    const TIMEOUT: Duration = Duration::from_secs(10);
    planes.east.pause_api_server().unwrap();
    let (results, took) = planes.check(&["--timeout", "10s"]);
    let access = &results["remote cluster access credentials are valid"];
    assert_eq!(access["result"], "error");
    assert!(
        access["error"]
            .as_str()
            .unwrap()
            .starts_with("east: cannot reach the cluster: timed out"),
        "{access}"
    );
    assert_eq!(
        results["clusters share trust anchors"]["error"],
        "east: not checked; see the check of its credentials"
    );
    assert!(took < 2 * TIMEOUT, "{took:?}: {results:#?}");

    let begin = Instant::now();
    let outcome = planes.run(&["status", "--context=east,west", "--request-timeout=10s"]);
    assert!(begin.elapsed() < 2 * TIMEOUT, "{:?}", begin.elapsed());
    let error = "error: east: cannot list Links: timed out after 10 s\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (1, error));
    assert!(
        outcome.stdout.contains("\nwest    east "),
        "{}",
        outcome.stdout
    );

    let alone = planes
        .run(&["status", "--context=east", "--request-timeout=1s"])
        .failure();
    assert!(
        alone.starts_with("error: cannot list the Links of east: timed out after 1 s\nhint: "),
        "{alone}"
    );
    rows_are_printed_before_the_target_answers(planes);
}
