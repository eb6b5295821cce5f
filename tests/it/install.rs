//! Applies the output of `install` to a real API server.

use control_plane::{ControlPlane, LinkerdOptions, Verdict, eventually};
use k8s_openapi::jiff::Timestamp;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use linkerd_mc::api::{
    labels::CONTROLLER_NAME,
    link::{
        GatewayStatus, Link, LinkSpec, LinkStatus, ProbeSpec, ServiceCondition, ServiceRef,
        ServiceStatus,
    },
};
use serde_json::{Value, json};

use crate::support::{
    SOON, credentials::claims, installation::NAMESPACE, links::shown, planes::bare, program::run,
    variants::VARIANTS,
};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn installed_objects_are_accepted_and_applying_them_again_changes_nothing() {
    let plane = bare("install").await;
    plane
        .linkerd(&LinkerdOptions {
            trust_domain: "trust.example".into(),
            cni_enabled: true,
            ..Default::default()
        })
        .await
        .unwrap();

    let printed = run(plane.kubeconfig(), &["install"]).data();
    assert!(printed.contains("serviceaccount.identity.linkerd.trust.example\n"));
    assert!(printed.contains("pod-security.kubernetes.io/enforce: restricted\n"));

    let first = twice(&plane, &printed).await;
    assert!(
        first.lines().all(|line| line.ends_with(" created")),
        "{first}"
    );
    assert!(first.lines().count() > 20, "{first}");
    for variant in VARIANTS {
        // The variants change fields of the gateway Service that the API server does not allow to change. So the test
        // deletes the Service first.
        let gateway = ["delete", "service", "linkerd-gateway", "--ignore-not-found"];
        plane
            .kubectl(&[&["-n", "linkerd-multicluster"], &gateway[..]].concat())
            .await
            .unwrap();
        let args = [&["install"], variant].concat();
        twice(&plane, &run(plane.kubeconfig(), &args).data()).await;
    }

    crd_keeps_every_field_of_the_link_type(&plane).await;
    token_of_the_controller_lasts_an_hour(&plane).await;
    pods_are_admitted_as_on_openshift(&plane).await;
    policies_are_left_out_where_there_are_none(&plane);
}

/// The kubelet requests a token for the time that the Pod says. For the 3607 s that Kubernetes itself writes into Pods, the
/// API server grants a year.
async fn token_of_the_controller_lasts_an_hour(plane: &ControlPlane) {
    let tokens = "jsonpath={.spec.template.spec.volumes[*].projected.sources[*].serviceAccountToken.expirationSeconds}";
    let get = ["get", "deployment", CONTROLLER_NAME, "-o", tokens];
    let within = ["-n", NAMESPACE];
    let seconds = plane.kubectl(&[&within, &get[..]].concat()).await.unwrap();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "robbed", "namespace": NAMESPACE },
        "spec": {
            "serviceAccountName": CONTROLLER_NAME, "automountServiceAccountToken": false,
            "securityContext": { "runAsNonRoot": true, "seccompProfile": { "type": "RuntimeDefault" } },
            "containers": [{
                "name": "controller", "image": "none",
                "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
            }],
        },
    });
    plane.apply(&pod.to_string()).await.unwrap();
    let lasts = format!("--duration={seconds}s");
    let bound = [
        "--bound-object-kind=Pod",
        "--bound-object-name=robbed",
        &lasts,
    ];
    let create = [&within, &["create", "token", CONTROLLER_NAME][..], &bound].concat();
    let token = claims(plane.kubectl(&create).await.unwrap().trim());
    let granted = token["exp"].as_i64().unwrap() - token["iat"].as_i64().unwrap();
    assert_eq!(granted, 3600);
}

/// Rules for users as the SCC `restricted-v2` has them: a number is given by the cluster, or of the namespace's range. The
/// other rules of this SCC are those of the pod security level `restricted`.
const RESTRICTED: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: restricted, labels: {pod-security.kubernetes.io/enforce: restricted}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: restricted}
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: restricted}}
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations:
  - message: users have to be of the namespace
    expression: >-
      (object.spec.containers.map(one, one.?securityContext) + [object.spec.?securityContext])
      .all(one, one.?runAsUser.orValue(1000650000) in [1000650000] && one.?fsGroup.orValue(1000650000) == 1000650000)
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: restricted}
spec: {policyName: restricted, validationActions: [Deny]}
"#;

/// The Pods of an installation with the values of docs/openshift.md are admitted, and those of another one are not.
async fn pods_are_admitted_as_on_openshift(plane: &ControlPlane) {
    plane.apply(RESTRICTED).await.unwrap();
    let page = include_str!("../../docs/openshift.md");
    let (_, values) = page.split_once("```yaml").unwrap();
    let (values, _) = values.split_once("```").unwrap();
    let file = plane.folder().join("openshift.yaml");
    std::fs::write(&file, values.replace("\n  ", "\n")).unwrap();
    let api = "apiGateway.apiServerAddress=10.96.0.1";
    let install = ["install", "-o", "json", "--set", api];
    let all = run(plane.kubeconfig(), &install).data();
    eventually("users to be refused", SOON, async || {
        let refused = refused(plane, &all).await;
        anyhow::ensure!(refused == ["users"; 3], "{refused:?}");
        Ok(Some(()))
    })
    .await
    .unwrap();
    let with = ["--values", file.to_str().unwrap()];
    let without = run(plane.kubeconfig(), &[&install[..], &with].concat()).data();
    assert_eq!(refused(plane, &without).await, [""; 3]);
}

/// Why the API server refuses the Pod of each Deployment, of which there are three.
async fn refused(plane: &ControlPlane, objects: &str) -> Vec<String> {
    let objects = objects
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let deployments = objects.filter(|object: &Value| object["kind"] == "Deployment");
    let mut refused = Vec::new();
    for mut deployment in deployments {
        let mut pod = deployment["spec"]["template"].take();
        pod["apiVersion"] = json!("v1");
        pod["kind"] = json!("Pod");
        pod["metadata"]["name"] = json!("pod");
        pod["metadata"]["namespace"] = json!("restricted");
        let create = ["create", "--dry-run=server", "-f", "-"];
        let created = plane.kubectl_stdin(&create, &pod.to_string()).await;
        refused.push(match created {
            Ok(_) => String::new(),
            Err(why) if format!("{why:#}").contains("users have to be") => "users".to_owned(),
            Err(why) => format!("{why:#}"),
        });
    }
    refused
}

/// Runs `install` against an API server without ValidatingAdmissionPolicy, as before Kubernetes 1.30.
fn policies_are_left_out_where_there_are_none(plane: &ControlPlane) {
    let old = plane
        .intercept(Some(("admin", &["system:masters"])))
        .unwrap();
    old.judge(|asked| match asked.uri.path() {
        "/apis/admissionregistration.k8s.io/v1" => {
            let list = json!({
                "kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": "admissionregistration.k8s.io/v1",
                "resources": [{
                    "name": "validatingwebhookconfigurations", "singularName": "", "namespaced": false,
                    "kind": "ValidatingWebhookConfiguration", "verbs": ["get"],
                }],
            });
            let headers = vec![("content-type", "application/json".to_owned())];
            Verdict::Answer(200, headers, list.to_string())
        }
        _ => Verdict::Forward,
    });
    let url = old.url();
    let args = ["--api-addr", url.trim_start_matches("https://"), "install"];
    let outcome = run(plane.kubeconfig(), &args);
    insta::assert_snapshot!(outcome.stderr, @"warning: the cluster does not support ValidatingAdmissionPolicy (Kubernetes 1.30 or later), so only RBAC restricts what the controller may write; install again after upgrading the cluster");
    assert_eq!(outcome.code, 0);
    assert!(!outcome.stdout.contains("ValidatingAdmissionPolicy"));
    let off = ["--set", "controller.admissionPolicy=false"];
    let outcome = run(plane.kubeconfig(), &[&args[..], &off].concat());
    assert_eq!(
        outcome.data().matches("ValidatingAdmissionPolicy").count(),
        0
    );
}

/// Applies objects twice, and asserts that the second time changes nothing. Returns the output of the first `kubectl
/// apply`.
async fn twice(plane: &ControlPlane, printed: &str) -> String {
    let generations = async || {
        let all = "jsonpath={.items[*].metadata.generation}";
        let get = ["get", "poddisruptionbudgets", "-A", "-o", all];
        plane.kubectl(&get).await.unwrap()
    };
    let first = plane.apply(printed).await.unwrap();
    let before = generations().await;
    let second = plane.apply(printed).await.unwrap();
    for line in second.lines() {
        // kubectl always patches the selector of this kind, because it replaces selectors as a whole.
        let replaced = line.starts_with("poddisruptionbudget.policy/");
        assert!(replaced || line.ends_with(" unchanged"), "{second}");
    }
    assert_eq!(generations().await, before);
    assert_eq!(second.lines().count(), first.lines().count());
    first
}

/// Asserts that the API server stores a Link with every field set without changes, so that the CRD prunes no field.
async fn crd_keeps_every_field_of_the_link_type(plane: &ControlPlane) {
    let links = Api::<Link>::namespaced(plane.client(), "linkerd-multicluster");
    let mut link = full_link();
    let created = links.create(&PostParams::default(), &link).await.unwrap();
    assert_eq!(created.spec, link.spec);

    link.status = Some(full_status());
    let patch = Patch::Merge(json!({ "status": link.status }));
    let patched = links
        .patch_status("east", &PatchParams::default(), &patch)
        .await
        .unwrap();
    assert_eq!(patched.status, link.status);
    assert_eq!(patched.spec, link.spec);

    assert_eq!(
        shown(plane, "east").await,
        ["east", "east", "Unknown", "True", "False", "3", "2", "1"]
    );

    // Defaults of the CRD for a Link without these fields.
    let bare = Link::new("bare", LinkSpec::default());
    let bare = links.create(&PostParams::default(), &bare).await.unwrap();
    assert_eq!(bare.spec.probe_spec.failure_threshold.as_deref(), Some("3"));
    assert_eq!(bare.spec.probe_spec.timeout.as_deref(), Some("30s"));

    // The API server also serves the Link in its older versions. These reads do not change the Link.
    for version in ["v1alpha1", "v1alpha2"] {
        let resource = format!("links.{version}.multicluster.linkerd.io");
        let spec = plane
            .kubectl(&[
                "-n",
                "linkerd-multicluster",
                "get",
                &resource,
                "east",
                "-o",
                "jsonpath={.spec}",
            ])
            .await
            .unwrap();
        let spec: LinkSpec = serde_json::from_str(&spec).unwrap();
        // They do not have all fields of today.
        let known = |spec: &LinkSpec| (spec.gateway_address.clone(), spec.probe_spec.clone());
        assert_eq!(known(&spec), known(&link.spec), "{version}");
    }
    let still = links.get("east").await.unwrap();
    assert_eq!((still.spec, still.status), (link.spec, link.status));
}

fn full_link() -> Link {
    let selector = json!({
        "matchLabels": { "a": "b" },
        "matchExpressions": [
            { "key": "c", "operator": "In", "values": ["d", "e"] },
            { "key": "f", "operator": "Exists" },
        ],
    });
    let selector = Some(serde_json::from_value(selector).unwrap());
    Link::new(
        "east",
        LinkSpec {
            target_cluster_name: "east".into(),
            target_cluster_domain: "cluster.local".into(),
            target_cluster_linkerd_namespace: "linkerd".into(),
            cluster_credentials_secret: "cluster-credentials-east".into(),
            gateway_address: "192.0.2.1,gw.example.com".into(),
            gateway_port: "4143".into(),
            gateway_identity: "gw.identity".into(),
            probe_spec: ProbeSpec {
                failure_threshold: Some("5".into()),
                path: "/ready".into(),
                period: "3s".into(),
                port: "4191".into(),
                timeout: Some("10s".into()),
            },
            selector: selector.clone(),
            remote_discovery_selector: selector.clone(),
            federated_service_selector: selector,
            excluded_annotations: vec!["a.example/*".into()],
            excluded_labels: vec!["b".into()],
        },
    )
}

fn full_status() -> LinkStatus {
    let time = || {
        let second: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
        k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(second)
    };
    let reference = |name: &str| ServiceRef {
        group: "core".into(),
        kind: "Service".into(),
        name: name.into(),
        namespace: "shop".into(),
    };
    let services = |status: &str, reason: &str, local: Option<ServiceRef>| {
        vec![ServiceStatus {
            controller_name: "linkerd.io/service-mirror".into(),
            remote_ref: reference("web"),
            conditions: vec![ServiceCondition {
                type_: "Mirrored".into(),
                status: status.into(),
                reason: reason.into(),
                message: String::new(),
                last_transition_time: time(),
                local_ref: local,
            }],
        }]
    };
    let condition = |type_: &str, status: &str| {
        serde_json::from_value(json!({
            "type": type_, "status": status, "reason": "Because", "message": "a sentence",
            "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": 1,
        }))
        .unwrap()
    };
    LinkStatus {
        mirror_services: services("True", "Mirrored", Some(reference("web-east"))),
        federated_services: services("False", "InvalidService", None),
        conditions: vec![
            condition("Ready", "Unknown"),
            condition("Connected", "True"),
            condition("GatewayAlive", "False"),
        ],
        gateway: Some(GatewayStatus {
            alive: Some(false),
            since: Some(time()),
            latency_ms: Some(12),
            addresses: vec!["192.0.2.1".into()],
        }),
        mirrored: Some(3),
        federated: Some(2),
        unhealthy: Some(1),
        target_cluster_name: Some("east".into()),
        credentials_fingerprint: Some("0123456789abcdef".into()),
        observed_generation: Some(1),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_linkerd_and_unreachable_cluster_have_different_errors() {
    let plane = bare("manifests").await;
    let lacking = run(plane.kubeconfig(), &["install", "-L", "nowhere"]).failure();
    insta::assert_snapshot!(lacking, @r#"
    error: ConfigMap linkerd-config not found in namespace "nowhere"
    hint: install Linkerd first, or pass its namespace with --linkerd-namespace
    "#);

    let unknown = run(plane.kubeconfig(), &["--context", "mars", "install"]).failure();
    insta::assert_snapshot!(unknown, @r#"
    error: context "mars" is not in the kubeconfig
    hint: known contexts: manifests
    "#);

    // Port 1 of the loopback address, where nothing listens.
    let away = run(
        plane.kubeconfig(),
        &["--api-addr", "127.0.0.1:1", "install"],
    )
    .failure();
    insta::assert_snapshot!(away, @r"
    error: cannot reach the API server https://127.0.0.1:1
    cause: connection refused
    hint: check that the cluster is up, and that --context is the right one
    ");

    // `--ignore-cluster` sends no requests.
    let offline = run(
        plane.kubeconfig(),
        &["--context", "mars", "install", "--ignore-cluster"],
    );
    assert!(offline.data().contains("identity.linkerd.cluster.local\n"));
}
