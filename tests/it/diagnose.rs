//! `diagnose`: causes that need no proxies, against real control planes.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use control_plane::{AuditEvent, ControlPlane, eventually};
use serde_json::{Value, json};

use crate::support::{
    SOON,
    audit::{mark, requests},
    controller::Controller,
    installation::NAMESPACE as INSTALLED,
    links::{condition_is, mirror_is, own_link, unlink},
    objects::{
        addresses, delete, endpoints, export, namespace, relabel, service, slices_that, web,
    },
    planes::alone,
    program::{Outcome, run},
};

/// The kubeconfig with both contexts.
fn both(west: &ControlPlane, east: &ControlPlane, name: &str) -> PathBuf {
    let path = west.folder().join(format!("{name}.kubeconfig"));
    ControlPlane::merged_kubeconfig(&[west, east], &path).unwrap();
    path
}

/// Starts a controller with leader election, so that there is a Lease.
fn leader(plane: &ControlPlane) -> Controller {
    let kubeconfig = plane
        .user_kubeconfig("leader", &["system:masters"])
        .unwrap();
    Controller::start_as(&kubeconfig, &["--identity", "leader"])
}

/// The JSON of `diagnose`, and its exit code.
fn diagnosed(kubeconfig: &Path, args: &[&str]) -> (Value, i32) {
    let all = [&["diagnose", "-o", "json", "--request-timeout=30s"], args].concat();
    let Outcome {
        code,
        stdout,
        stderr,
    } = run(kubeconfig, &all);
    let document = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{args:?}: {stderr}"));
    (document, code)
}

/// The layer and the name of the cause that `diagnose` finds; `none` if it finds no cause.
fn cause(kubeconfig: &Path, args: &[&str]) -> String {
    let (document, code) = diagnosed(kubeconfig, args);
    let finding = &document["finding"];
    if finding.is_null() {
        assert_eq!(
            (code, &document["success"]),
            (0, &json!(true)),
            "{document:#}"
        );
        return "none".to_owned();
    }
    let is_broken = finding["level"] == "error";
    assert_eq!(code, i32::from(is_broken), "{document:#}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    format!("{} {}", text(&document["layer"]), text(&finding["cause"]))
}

/// Runs the commands that `diagnose` prints, in a shell, as if a person pasted them.
fn run_fix(plane: &ControlPlane, kubeconfig: &Path, args: &[&str]) {
    let (document, _) = diagnosed(kubeconfig, args);
    let commands = document["finding"]["commands"].as_array().unwrap();
    assert!(!commands.is_empty(), "{document:#}");
    for command in commands {
        let command = command["command"].as_str().unwrap();
        let rest = command
            .strip_prefix("kubectl ")
            .unwrap_or_else(|| panic!("{command}"));
        let script = format!("exec {} {rest}", plane.kubectl_program().display());
        let output = std::process::Command::new("sh")
            .args(["-c", &script])
            .env("KUBECONFIG", kubeconfig)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn causes_are_found_and_what_is_printed_fixes_them() {
    const NS: &str = "diagnosed";
    let alone = alone().await;
    let (east, west) = (&*alone.far, &*alone.source);
    let kubeconfig = both(west, east, NS);
    namespace(NS, &[east, west]).await;
    export(east, NS, &web("web", NS)).await;
    own_link(west, east, NS, &[]).await;
    let _controller = leader(west);
    service(west, NS, "web-diagnosed", |_| true).await;
    let well = async |what: &str, args: &[&str]| {
        eventually(what, SOON, async || {
            let (document, _) = diagnosed(&kubeconfig, args);
            anyhow::ensure!(document["finding"].is_null(), "{document:#}");
            Ok(Some(()))
        })
        .await
        .unwrap();
    };
    let called = "diagnosed/web-diagnosed";
    let target = ["--target", east.name(), "--cluster-name", NS];
    let looked = |service: &'static str| [&[service][..], &target[..]].concat();
    well("nothing to be found", &looked(called)).await;

    // The Service does not declare this port. The text output has the cause and a command, too.
    let wrong_port = "diagnosed/web-diagnosed:81";
    assert_eq!(cause(&kubeconfig, &[wrong_port]), "objects PortNotDeclared");
    let text = run(
        &kubeconfig,
        &[
            "diagnose",
            wrong_port,
            "--target",
            east.name(),
            "--cluster-name",
            NS,
        ],
    );
    assert_eq!(text.code, 1, "{}", text.stderr);
    let edit = format!(
        "  kubectl --context {} -n diagnosed edit service web",
        east.name()
    );
    for line in [
        "Cause: PortNotDeclared (objects)",
        &edit,
        "- not judged, because a layer before is broken: ",
    ] {
        assert!(text.stdout.contains(line), "{line}: {}", text.stdout);
    }

    // Somebody else creates a slice under the name of the mirror.
    let stranger = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "namespace": NS, "name": "stranger", "labels": { "kubernetes.io/service-name": "web-diagnosed" } },
        "addressType": "IPv4", "endpoints": [{ "addresses": ["192.0.2.66"] }],
        "ports": [{ "name": "http", "port": 80 }],
    });
    west.apply(&stranger.to_string()).await.unwrap();
    assert_eq!(cause(&kubeconfig, &[called]), "objects ForeignEndpoints");
    run_fix(west, &kubeconfig, &[called]);
    well("the stranger's slice to be gone", &[called]).await;

    // What somebody changed is in the time line of both clusters, above what happened before.
    let note = |name: &'static str| {
        [
            "-n",
            NS,
            "annotate",
            "--overwrite",
            "service",
            name,
            "note=1",
        ]
    };
    east.kubectl(&note("web")).await.unwrap();
    let (document, _) = diagnosed(&kubeconfig, &looked(called));
    let happened = document["timeline"]["happened"].as_array().unwrap();
    let times = happened.iter().map(|one| one["at"].as_str().unwrap());
    let times: Vec<jiff::Timestamp> = times.map(|at| at.parse().unwrap()).collect();
    assert!(
        times.is_sorted_by(|one, other| one >= other),
        "{document:#}"
    );
    let has = |cluster: &str, about: &str, what: &str| {
        let mut of_object = happened
            .iter()
            .filter(|one| one["cluster"] == cluster && one["about"] == about);
        let found = of_object.any(|one| one["what"].as_str().unwrap().starts_with(what));
        assert!(found, "{what}: {about} in {cluster}: {document:#}");
    };
    let link = format!("Link {INSTALLED}/{NS}");
    let lease = format!("Lease {INSTALLED}/service-mirror-write");
    has(NS, "Service diagnosed/web", "changed by kubectl-annotate");
    has(west.name(), "Service diagnosed/web-diagnosed", "created");
    has(west.name(), &link, "Connected became True");
    has(west.name(), &lease, "acquired by leader");
    assert_eq!(document["timeline"]["unseen"], json!([]), "{document:#}");

    // The Service loses its label for export, and is deleted later.
    relabel(east, NS, "web", None).await;
    eventually("the mirror to go", SOON, async || {
        let found = cause(&kubeconfig, &[called]);
        Ok((found == "objects NotExported").then_some(()))
    })
    .await
    .unwrap();
    assert_eq!(cause(&kubeconfig, &looked(called)), "objects NotExported");
    run_fix(east, &kubeconfig, &looked(called));
    // Kubernetes copies the label to the slices, by which the controller selects them.
    endpoints(east, NS, "web", 1).await;
    well("the mirror to be back", &looked(called)).await;
    delete(east, NS, "web").await;
    eventually("the mirror to go", SOON, async || {
        let found = cause(&kubeconfig, &looked(called));
        Ok((found == "objects MissingInTarget").then_some(()))
    })
    .await
    .unwrap();
    unlink(west, NS).await;
}

/// Nobody has to name a Service: Links that do not work are found.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_broken_is_found_without_a_name() {
    const NS: &str = "unnamed";
    let alone = alone().await;
    let (east, west) = (&*alone.far, &*alone.source);
    let kubeconfig = both(west, east, NS);
    own_link(west, east, NS, &[]).await;
    let _controller = leader(west);
    let problem = || {
        let (document, code) = diagnosed(&kubeconfig, &[]);
        // There are no Pods, so no requests are seen, and nothing is said of them.
        assert_eq!(document["requests"]["read"], 0, "{document:#}");
        assert_eq!(document["worst"], json!(null), "{document:#}");
        let findings = document["links"]["findings"].as_array().unwrap();
        let is_error = |found: &Value| found["level"] == "error";
        assert_eq!(code == 1, findings.iter().any(is_error), "{document:#}");
        let own = findings.iter().find(|found| found["about"] == "unnamed");
        own.map(|found| found["evidence"].as_str().unwrap().to_owned())
    };
    // A Link of which nobody has reported yet has no problem either.
    condition_is(west, NS, "Ready", "True", "Mirroring").await;
    eventually("the Link to be well", SOON, async || {
        Ok(problem().is_none().then_some(()))
    })
    .await
    .unwrap();
    let secret = format!("cluster-credentials-{NS}");
    west.kubectl(&["-n", INSTALLED, "delete", "secret", &secret])
        .await
        .unwrap();
    let told = eventually("the Link to be reported", SOON, async || Ok(problem()));
    let told = told.await.unwrap();
    assert!(told.contains(&secret), "{told}");
    // The text says when that began.
    let text = run(&kubeconfig, &["diagnose", "--request-timeout=30s"]).stdout;
    let link = format!("Link {INSTALLED}/{NS}: CredentialsValid became False");
    assert!(
        text.contains("What happened in the last 24 hours"),
        "{text}"
    );
    assert!(text.contains(&link), "{text}");
    unlink(west, NS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn obstacles_in_this_cluster_are_found() {
    const NS: &str = "obstacles";
    const ELSEWHERE: &str = "obstacles-elsewhere";
    let alone = alone().await;
    let (east, west) = (&*alone.far, &*alone.source);
    let kubeconfig = both(west, east, NS);
    namespace(NS, &[east, west]).await;
    namespace(ELSEWHERE, &[east]).await;
    west.kubectl(&[
        "create",
        "service",
        "clusterip",
        "taken-obstacles",
        "--tcp=80",
        "-n",
        NS,
    ])
    .await
    .unwrap();
    export(east, NS, &web("taken", NS)).await;
    export(east, ELSEWHERE, &web("web", NS)).await;
    own_link(west, east, NS, &[]).await;
    let _controller = leader(west);
    mirror_is(west, NS, NS, "taken", "NameConflict").await;
    mirror_is(west, NS, ELSEWHERE, "web", "MissingNamespace").await;

    assert_eq!(
        cause(&kubeconfig, &["obstacles/taken-obstacles"]),
        "objects NameConflict"
    );
    let called = "obstacles-elsewhere/web-obstacles";
    assert_eq!(cause(&kubeconfig, &[called]), "objects NamespaceMissing");
    run_fix(west, &kubeconfig, &[called]);
    service(west, ELSEWHERE, "web-obstacles", |_| true).await;
    unlink(west, NS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn misspelt_names_get_a_suggestion() {
    const NS: &str = "misspelt";
    let alone = alone().await;
    let (east, west) = (&*alone.far, &*alone.source);
    let kubeconfig = both(west, east, NS);
    namespace(NS, &[east, west]).await;
    export(east, NS, &web("web", NS)).await;
    own_link(west, east, NS, &[]).await;
    let _controller = leader(west);
    service(west, NS, "web-misspelt", |_| true).await;
    west.kubectl(&[
        "create",
        "service",
        "clusterip",
        "web",
        "--tcp=80",
        "-n",
        NS,
    ])
    .await
    .unwrap();
    west.kubectl(&["run", "client-0", "--image=client", "-n", NS])
        .await
        .unwrap();
    for (args, said) in [
        (
            &["misspelt/web-misspetl"][..],
            "did you mean misspelt/web-misspelt?",
        ),
        (&["misspelt/web"], "name one of misspelt/web-misspelt"),
        (
            &["misspelt/web-misspelt", "--from", "client-00"],
            "did you mean misspelt/client-0?",
        ),
        (&["misspeltt/other"], "there is no namespace misspeltt"),
        (
            &["misspelt/web-misspelt", "--target", "esat"],
            "context \"esat\" is not in the kubeconfig",
        ),
    ] {
        let said_now = run(&kubeconfig, &[&["diagnose"], args].concat()).failure();
        assert!(said_now.contains(said), "{args:?}: {said_now}");
    }
    let unclear = [
        "diagnose",
        "misspelt/web-misspelt",
        "--target",
        east.name(),
        "--cluster-name",
        "esat",
    ];
    let said = run(&kubeconfig, &unclear).misuse();
    assert!(
        said.contains("pass --cluster-name with one of misspelt"),
        "{said}"
    );
    // The name is right now, and no kubelet runs the Pod.
    let found = cause(
        &kubeconfig,
        &["misspelt/web-misspelt", "--from", "client-0"],
    );
    assert_eq!(found, "client ClientNotRunning");
    unlink(west, NS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn reader_of_one_namespace_is_told_what_is_missing_and_nothing_is_written() {
    const NS: &str = "half-blind";
    const USER: &str = "half-blind-reader";
    let alone = alone().await;
    let (east, west) = (&*alone.far, &*alone.source);
    namespace(NS, &[east, west]).await;
    export(east, NS, &web("web", NS)).await;
    own_link(west, east, NS, &[]).await;
    let _controller = leader(west);
    service(west, NS, "web-half-blind", |_| true).await;
    let role = [
        "create",
        "role",
        "reader",
        "--verb=get,list",
        "--resource=services",
        "-n",
        NS,
    ];
    west.kubectl(&role).await.unwrap();
    let user = format!("--user={USER}");
    let bind = [
        "create",
        "rolebinding",
        "reader",
        "--role=reader",
        &user,
        "-n",
        NS,
    ];
    west.kubectl(&bind).await.unwrap();
    let kubeconfig = west.user_kubeconfig(USER, &[]).unwrap();
    let question = ["auth", "can-i", "get", "services", "--as", USER, "-n", NS];
    eventually("the role to be in force", SOON, async || {
        Ok(west.kubectl(&question).await.ok())
    })
    .await
    .unwrap();

    let since = mark(west);
    let (document, code) = diagnosed(
        &kubeconfig,
        &["half-blind/web-half-blind", "--from", "client-0"],
    );
    assert_eq!(
        (code, &document["finding"]),
        (0, &Value::Null),
        "{document:#}"
    );
    let unseen = document["layers"].as_array().unwrap().iter();
    let unseen = unseen.flat_map(|layer| layer["unseen"].as_array().unwrap());
    let told: Vec<&str> = unseen.filter_map(Value::as_str).collect();
    for what in [
        "the Links: ",
        "EndpointSlices: ",
        "routes: ",
        "the calling Pod: ",
        "the Pods of linkerd-destination: ",
    ] {
        let line = told.iter().find(|line| line.starts_with(what));
        assert!(
            line.is_some_and(|line| line.contains("forbidden")),
            "{what}: {told:#?}"
        );
    }
    let own = |event: &AuditEvent| event.user == USER;
    let verbs = requests(west, since)
        .into_iter()
        .filter(own)
        .map(|event| event.verb);
    let verbs: BTreeSet<String> = verbs.collect();
    assert_eq!(
        verbs,
        ["get", "list"].map(str::to_owned).into(),
        "it only reads"
    );
    unlink(west, NS).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn missing_controller_is_the_cause_of_what_it_would_have_written() {
    const NS: &str = "unattended";
    let alone = alone().await;
    let (east, west) = (&*alone.far, &*alone.source);
    namespace(NS, &[east, west]).await;
    export(east, NS, &web("web", NS)).await;
    own_link(west, east, NS, &[]).await;
    let mut controller = leader(west);
    slices_that(west, NS, "web-unattended", |slices| {
        !addresses(slices).is_empty()
    })
    .await;
    let (_, took) = controller.terminate();
    export(east, NS, &web("late", NS)).await;
    let kubeconfig = both(west, east, NS);
    let found = |called: &str| cause(&kubeconfig, &[called]);
    assert_eq!(
        found("unattended/late-unattended"),
        "objects ControllerDown",
        "{took:?}"
    );
    // Existing mirrors keep working.
    let (document, code) = diagnosed(&kubeconfig, &["unattended/web-unattended"]);
    assert_eq!(
        (code, &document["success"]),
        (0, &json!(true)),
        "{document:#}"
    );
    assert_eq!(document["finding"]["level"], "warning", "{document:#}");
    let _controller = leader(west);
    service(west, NS, "late-unattended", |_| true).await;
    eventually("nothing to be found", SOON, async || {
        Ok((found("unattended/late-unattended") == "none").then_some(()))
    })
    .await
    .unwrap();
    unlink(west, NS).await;
}
