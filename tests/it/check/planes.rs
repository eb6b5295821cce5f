//! Two linked control planes, with the objects that a controller would have written.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    time::{Duration, Instant},
};

use control_plane::{ControlPlane, Lent};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use linkerd_mc::api::link::Link;
use serde_json::{Value, json};

use super::MIRRORS;
use crate::support::{
    installation::NAMESPACE,
    planes::installed,
    program::{Outcome, run},
};

/// The target `east`, and `west`, which links to it.
pub(super) struct Planes {
    pub(super) east: Lent,
    pub(super) west: Lent,
    /// Contexts `west` (the current one) and `east`.
    pub(super) kubeconfig: PathBuf,
}

impl Planes {
    /// Starts both control planes, and installs the extension.
    pub(super) async fn start() -> Self {
        let (east, west) = tokio::join!(
            installed("east", "192.0.2.10"),
            installed("west", "192.0.2.20")
        );
        let kubeconfig = west.folder().join("both.kubeconfig");
        ControlPlane::merged_kubeconfig(&[&west, &east], &kubeconfig).unwrap();
        Self {
            east,
            west,
            kubeconfig,
        }
    }

    /// Links west to east with a token that expires after an hour.
    pub(super) async fn link(&self) {
        let link_gen = ["link-gen", "--cluster-name=east", "--token-duration=1h"];
        let outcome = run(self.east.kubeconfig(), &link_gen);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        self.west.apply(&outcome.stdout).await.unwrap();
    }

    /// Creates the mirrors that a controller in west would have created.
    pub(super) async fn mirror(&self) {
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
        objects.push(lease(FUTURE));
        for n in 0..MIRRORS {
            let name = format!("web-{n:03}");
            let mirror = format!("{name}-east");
            let fq_name = json!({"mirror.linkerd.io/remote-svc-fq-name": format!("{name}.shop.svc.cluster.local")});
            objects.push(service("shop", &mirror, &of_east, &fq_name));
            // One mirror has no endpoints, and the endpoint of another one is not ready.
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

    /// Writes the Link's status that the controller would have written.
    pub(super) async fn set_status(&self, ready: bool) {
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

    /// Writes into the Link's status that the gateway of east is dead.
    pub(super) async fn kill_gateway(&self) {
        let links = Api::<Link>::namespaced(self.west.client(), NAMESPACE);
        let mut link = links.get_status("east").await.unwrap();
        let status = link.status.as_mut().unwrap();
        status.gateway.as_mut().unwrap().alive = Some(false);
        let why = json!({
            "type": "GatewayAlive", "status": "False", "reason": "ProbeFailed",
            "message": "connection refused", "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        status.conditions.push(serde_json::from_value(why).unwrap());
        let patch = Patch::Merge(json!({ "status": status }));
        links
            .patch_status("east", &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    /// Writes the Lease of a controller that renewed it at this time.
    pub(super) async fn renew_lease(&self, at: &str) {
        let text = lease(at).to_string();
        self.west
            .kubectl_stdin(&["replace", "-f", "-"], &text)
            .await
            .unwrap();
    }

    /// Runs the program with a kubeconfig that has a context for each control plane.
    pub(super) fn run(&self, args: &[&str]) -> Outcome {
        run(&self.kubeconfig, args)
    }

    /// Results of `check` by description, and how long the command took.
    pub(super) fn check(&self, extra: &[&str]) -> (BTreeMap<String, Value>, Duration) {
        let begin = Instant::now();
        let outcome = self.run(&[&["check", "-o", "json", "--wait", "0s"], extra].concat());
        let took = begin.elapsed();
        assert_eq!(outcome.stderr, "");
        (results(&outcome), took)
    }
}

/// With this time of its last renewal, a controller counts as active whenever the test runs.
pub(super) const FUTURE: &str = "2126-01-01T00:00:00.000000Z";

/// The Lease of a controller that renewed it at this time.
fn lease(renewed: &str) -> Value {
    json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "service-mirror-write", "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": "controller-1", "leaseDurationSeconds": 3600,
            "renewTime": renewed,
        },
    })
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

/// Parses the JSON of `check`, which must have exactly the fields that Linkerd's documentation describes.
pub(super) fn results(outcome: &Outcome) -> BTreeMap<String, Value> {
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

/// Description and result of each check that does not succeed.
pub(super) fn failing(results: &BTreeMap<String, Value>) -> Vec<(&str, &str)> {
    let failing = results
        .iter()
        .filter(|(_, check)| check["result"] != "success");
    failing
        .map(|(title, check)| (title.as_str(), check["result"].as_str().unwrap()))
        .collect()
}
