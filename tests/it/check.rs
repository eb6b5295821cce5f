//! `check`, `status`, `gateways` and `graph` of two linked control planes. The controller's part, what it
//! writes, is written here: these commands only read.

mod shown;

use std::{collections::BTreeMap, path::PathBuf, time::Duration, time::Instant};

use assert_cmd::Command;
use control_plane::{ControlPlane, LinkerdOptions, trust_anchor};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use linkerd_mc::api::link::Link;
use serde_json::{Value, json};

use crate::program::{Outcome, run};

const NAMESPACE: &str = "linkerd-multicluster";
const MIRRORS: usize = 600;

/// East, the target, and west, which links to it.
struct Planes {
    east: ControlPlane,
    west: ControlPlane,
    /// Contexts `west` (the current one) and `east`.
    kubeconfig: PathBuf,
}

impl Planes {
    async fn start() -> Self {
        let (east, west) =
            tokio::try_join!(ControlPlane::start("east"), ControlPlane::start("west")).unwrap();
        let kubeconfig = west.folder().join("both.kubeconfig");
        ControlPlane::merged_kubeconfig(&[&west, &east], &kubeconfig).unwrap();
        for plane in [&east, &west] {
            plane.linkerd(&LinkerdOptions::default()).await.unwrap();
            let printed = run(plane.kubeconfig(), &["install"]).data();
            plane
                .kubectl_stdin(&["apply", "-f", "-"], &printed)
                .await
                .unwrap();
        }
        let address = json!({"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.10"}]}}});
        Api::<Service>::namespaced(east.client(), NAMESPACE)
            .patch_status(
                "linkerd-gateway",
                &PatchParams::default(),
                &Patch::Merge(address),
            )
            .await
            .unwrap();
        Self {
            east,
            west,
            kubeconfig,
        }
    }

    /// Links west to east with a token that lives for an hour.
    async fn link(&self) {
        let link_gen = ["link-gen", "--cluster-name=east", "--token-duration=1h"];
        let outcome = run(self.east.kubeconfig(), &link_gen);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        self.west
            .kubectl_stdin(&["apply", "-f", "-"], &outcome.stdout)
            .await
            .unwrap();
    }

    /// What a controller in west would have written.
    async fn mirror(&self) {
        let of_east = json!({"mirror.linkerd.io/mirrored-service": "true", "mirror.linkerd.io/cluster-name": "east"});
        let probe = json!({"mirror.linkerd.io/mirrored-gateway": "true", "mirror.linkerd.io/cluster-name": "east"});
        let mut objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}),
            service(
                "shop",
                "web-federated",
                &json!({"mirror.linkerd.io/mirrored-service": "true"}),
                &json!({
                    "multicluster.linkerd.io/remote-discovery": "web@east",
                }),
            ),
            service(NAMESPACE, "probe-east", &probe, &json!({})),
            slice(NAMESPACE, "probe-east", true),
        ];
        for n in 0..MIRRORS {
            let name = format!("web-{n:03}");
            let mirror = format!("{name}-east");
            let fq_name = json!({"mirror.linkerd.io/remote-svc-fq-name": format!("{name}.shop.svc.cluster.local")});
            objects.push(service("shop", &mirror, &of_east, &fq_name));
            // One has no endpoints.
            if n != 7 {
                objects.push(slice("shop", &mirror, n != 8));
            }
        }
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
        self.west
            .kubectl_stdin(&["create", "-f", "-"], &list)
            .await
            .unwrap();
        let status = json!({"status": {"availableReplicas": 1, "readyReplicas": 1, "replicas": 1}});
        Api::<Deployment>::namespaced(self.west.client(), NAMESPACE)
            .patch_status(
                "linkerd-multicluster-controller",
                &PatchParams::default(),
                &Patch::Merge(status),
            )
            .await
            .unwrap();
    }

    async fn set_status(&self, ready: bool) {
        let condition = |type_: &str, holds: bool| {
            json!({
                "type": type_, "status": if holds { "True" } else { "False" }, "reason": "Because",
                "message": if holds { "" } else { "not yet" }, "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let status = json!({"status": {
            "mirrorServices": [{
                "controllerName": "linkerd.io/service-mirror",
                "remoteRef": {"name": "gone", "namespace": "nowhere"},
                "conditions": [{
                    "type": "Mirrored", "status": "False", "reason": "MissingNamespace",
                    "message": "Namespace does not exist", "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            }],
            "federatedServices": [],
            "conditions": [condition("Ready", ready), condition("Connected", true), condition("CredentialsValid", true)],
            "gateway": {"alive": true, "latencyMs": 3, "addresses": ["192.0.2.10"], "since": "2026-01-01T00:00:00Z"},
            "mirrored": MIRRORS, "federated": 1, "unhealthy": 1,
        }});
        Api::<Link>::namespaced(self.west.client(), NAMESPACE)
            .patch_status("east", &PatchParams::default(), &Patch::Merge(status))
            .await
            .unwrap();
    }

    fn run(&self, args: &[&str]) -> Outcome {
        run(&self.kubeconfig, args)
    }

    /// Results of `check` by description, and how long it took.
    fn check(&self, extra: &[&str]) -> (BTreeMap<String, Value>, Duration) {
        let begin = Instant::now();
        let outcome = self.run(&[&["check", "-o", "json", "--wait", "0s"], extra].concat());
        let took = begin.elapsed();
        assert_eq!(outcome.stderr, "");
        (results(&outcome), took)
    }
}

fn service(namespace: &str, name: &str, labels: &Value, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, "annotations": annotations},
        "spec": {"ports": [{"port": 80}]},
    })
}

fn slice(namespace: &str, service: &str, ready: bool) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": format!("{service}-ipv4"), "namespace": namespace,
            "labels": {
                "kubernetes.io/service-name": service, "endpointslice.kubernetes.io/managed-by": "linkerd-mc",
                "mirror.linkerd.io/cluster-name": "east", "mirror.linkerd.io/mirrored-service": "true",
            },
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["192.0.2.10"], "conditions": {"ready": ready}}],
        "ports": [{"name": "", "port": 4143}],
    })
}

/// Takes the JSON apart as the original's documentation describes it: no field more, none less.
fn results(outcome: &Outcome) -> BTreeMap<String, Value> {
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let fields = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(fields(&report), ["categories", "success"]);
    assert_eq!(report["success"], outcome.code == 0);
    let categories = report["categories"].as_array().unwrap();
    let checks = categories.iter().flat_map(|category| {
        assert_eq!(fields(category), ["categoryName", "checks"]);
        category["checks"].as_array().unwrap()
    });
    checks
        .map(|check| {
            for field in fields(check) {
                assert!(check[&field].is_string(), "{check}");
                assert!(
                    ["description", "error", "hint", "result"].contains(&field.as_str()),
                    "{check}"
                );
            }
            assert_eq!(
                check["result"] == "success",
                check.get("error").is_none(),
                "{check}"
            );
            let description = check["description"].as_str().unwrap();
            let title = description.lines().next().unwrap();
            (title.to_owned(), check.clone())
        })
        .collect()
}

fn failing(results: &BTreeMap<String, Value>) -> Vec<(&str, &str)> {
    let failing = results
        .iter()
        .filter(|(_, check)| check["result"] != "success");
    failing
        .map(|(title, check)| (title.as_str(), check["result"].as_str().unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_linked_clusters_from_the_first_look_to_the_loss_of_one() {
    let planes = Planes::start().await;

    assert_eq!(planes.run(&["gateways", "-o", "json"]).data(), "[]\n");
    assert_eq!(planes.run(&["status"]).stderr, "no Links found\n");

    planes.link().await;
    let early = planes.run(&["status", "--wait", "--timeout=1s"]).failure();
    assert!(early.contains("not Ready within 1s: east"), "{early}");

    planes.mirror().await;
    planes.set_status(false).await;
    shown::all_is_shown_as_it_is(&planes);
    shown::credentials_are_shown_as_far_as_they_may_be_read(&planes).await;
    shown::waiting_ends_with_the_change(&planes).await;
    all_is_checked(&planes).await;
    linkerd_can_call_it(&planes);
    a_fleet_is_put_together(&planes).await;
    a_dead_cluster_costs_one_timeout(&planes);
}

async fn all_is_checked(planes: &Planes) {
    let before = planes.west.audit().unwrap().len();
    let (results, _) = planes.check(&[]);
    assert_eq!(
        failing(&results),
        [
            ("all exported services are mirrored", "warning"),
            ("all mirror services have endpoints", "error"),
            ("multicluster extension proxies are healthy", "warning"),
            (
                "remote cluster access credentials are not about to expire",
                "warning"
            ),
        ],
        "{results:#?}"
    );
    assert_eq!(
        results["all mirror services have endpoints"]["error"],
        "Service shop/web-007-east has no endpoints"
    );
    assert_eq!(
        results["all mirror services have endpoints"]["hint"],
        "https://linkerd.io/2/checks/#l5d-multicluster-services-endpoints"
    );
    let expiry = results["remote cluster access credentials are not about to expire"]["error"]
        .as_str()
        .unwrap();
    assert!(
        expiry.starts_with("east: the token expires on "),
        "{expiry}"
    );

    // One list of each kind, in pages; no request for a mirror.
    let events = planes.west.audit().unwrap();
    let of = |verb: &str, resource: &str| {
        events[before..]
            .iter()
            .filter(|e| e.verb == verb && e.resource == resource)
            .count()
    };
    assert_eq!(of("get", "services") + of("get", "endpointslices"), 0);
    assert_eq!(
        of("list", "services"),
        4,
        "mirrors in two pages, probes and local members in one each"
    );
    // And by name for slices that do not say that they are a mirror's, 50 names each; probe and federated included.
    let by_name = (MIRRORS + 2).div_ceil(50);
    assert_eq!(of("list", "endpointslices"), 2 + by_name);

    what_does_not_fit_the_service_range_is_told(planes).await;

    // What the credentials may do beyond their need is found in the target cluster.
    let bind = [
        "create",
        "clusterrolebinding",
        "excess",
        "--clusterrole=view",
    ];
    let account =
        format!("--serviceaccount={NAMESPACE}:linkerd-service-mirror-remote-access-default");
    planes
        .east
        .kubectl(&[&bind[..], &[&account]].concat())
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    let excess = results["remote cluster access credentials permit only what is needed"]["error"]
        .as_str()
        .unwrap();
    assert!(
        excess.contains("deployments.apps (get list watch)"),
        "{excess}"
    );
    assert!(!excess.contains(" services ("), "{excess}");
    planes
        .east
        .kubectl(&["delete", "clusterrolebinding", "excess"])
        .await
        .unwrap();

    // Mirrors have EndpointSlices only; without these Linkerd finds no endpoints. Who installs is told as well.
    let without_slices = LinkerdOptions {
        endpoint_slices: false,
        ..LinkerdOptions::default()
    };
    planes.west.linkerd(&without_slices).await.unwrap();
    let (results, _) = planes.check(&[]);
    let result = &results["Linkerd reads EndpointSlices"];
    assert_eq!(result["result"], "error");
    let remedy = "linkerd upgrade --set enableEndpointSlices=true";
    assert!(
        result["error"].as_str().unwrap().contains(remedy),
        "{result}"
    );
    let installed = planes.run(&["install"]);
    assert_eq!(installed.code, 0);
    let warning = "warning: enableEndpointSlices is off";
    assert!(
        installed.stderr.starts_with(warning),
        "{}",
        installed.stderr
    );
    assert!(installed.stderr.contains(remedy), "{}", installed.stderr);
    planes
        .west
        .linkerd(&LinkerdOptions::default())
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    assert_eq!(results["Linkerd reads EndpointSlices"]["result"], "success");
    assert_eq!(planes.run(&["install"]).stderr, "");

    // The controller's permissions are those of its ServiceAccount, whatever grants them.
    planes
        .west
        .kubectl(&[
            "delete",
            "clusterrolebinding",
            "linkerd-multicluster-controller",
        ])
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    let denied = results["service mirror controller has required permissions"]["error"]
        .as_str()
        .unwrap();
    assert!(
        denied.starts_with("not permitted: list services, watch services, "),
        "{denied}"
    );
    assert!(!denied.contains("links"), "{denied}");
    let printed = planes.run(&["install"]).data();
    planes
        .west
        .kubectl_stdin(&["apply", "-f", "-"], &printed)
        .await
        .unwrap();
}

/// The range is that of the control plane, which is smaller than what the Link's status counts.
async fn what_does_not_fit_the_service_range_is_told(planes: &Planes) {
    let fits = "exported services fit the Service range";
    let (results, _) = planes.check(&[]);
    assert_eq!(results[fits]["result"], "success");
    let links = Api::<Link>::namespaced(planes.west.client(), NAMESPACE);
    let crowd = Patch::Merge(json!({ "status": { "unhealthy": 20_000_000 } }));
    links
        .patch_status("east", &PatchParams::default(), &crowd)
        .await
        .unwrap();
    let (results, _) = planes.check(&[]);
    assert_eq!(results[fits]["result"], "warning");
    let error = results[fits]["error"].as_str().unwrap();
    let (left, rest) = error
        .split_once(" ClusterIPs are left of the Service range ")
        .unwrap();
    let (range, rest) = rest.split_once(", and up to ").unwrap();
    assert!(rest.contains(" of east)"), "{error}");
    // All mirrors, and the Services that Kubernetes and Linkerd have.
    let (_, prefix) = range.split_once('/').unwrap();
    let all = (1_usize << (32 - prefix.parse::<u32>().unwrap())) - 2;
    let left: usize = left.parse().unwrap();
    assert!(
        (all - MIRRORS - 30..all - MIRRORS).contains(&left),
        "{error}"
    );
    planes.set_status(true).await;
}

/// As `linkerd check` finds and calls an extension: by the name of the executable, with these arguments.
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

async fn a_fleet_is_put_together(planes: &Planes) {
    let graph = planes.run(&["graph", "--all-contexts"]).data();
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
            .run(&["graph", "--context=west,east", "-ojson"])
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

    let (results, _) = planes.check(&["--all-contexts"]);
    assert_eq!(results["clusters share trust anchors"]["result"], "error");
    assert_eq!(
        results["Links lead both ways"]["error"],
        "west → east is one-way: east has no Link to west"
    );
    assert_eq!(
        results["linked clusters share trust anchors"]["result"],
        "error"
    );
    planes
        .east
        .linkerd(&LinkerdOptions::default())
        .await
        .unwrap();
}

fn a_dead_cluster_costs_one_timeout(planes: &Planes) {
    planes.east.pause_api_server().unwrap();
    let (results, took) = planes.check(&["--timeout", "3s"]);
    let access = &results["remote cluster access credentials are valid"];
    assert_eq!(access["result"], "error");
    assert!(
        access["error"]
            .as_str()
            .unwrap()
            .starts_with("east: cannot reach the cluster: no answer"),
        "{access}"
    );
    assert_eq!(
        results["clusters share trust anchors"]["error"],
        "east: not known"
    );
    assert!(took < Duration::from_millis(4500), "{took:?}");

    let begin = Instant::now();
    let outcome = planes.run(&["status", "--context=east,west", "--request-timeout=3s"]);
    assert!(
        begin.elapsed() < Duration::from_millis(4500),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!((outcome.code, outcome.stderr.as_str()), (1, ""));
    assert!(
        outcome.stdout.contains("\nwest    east "),
        "{}",
        outcome.stdout
    );
    assert!(
        outcome
            .stdout
            .contains("\neast cannot be asked: no answer in time\n"),
        "{}",
        outcome.stdout
    );

    let alone = planes
        .run(&["status", "--context=east", "--request-timeout=1s"])
        .failure();
    assert!(
        alone.starts_with("error: cannot list the Links of east: no answer in time\nhint: "),
        "{alone}"
    );
    planes.east.resume_api_server().unwrap();
}
