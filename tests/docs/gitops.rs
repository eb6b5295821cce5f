//! What GitOps tools make of Links, by their own rules, and that the examples in `examples/gitops` are what linkerd-mc
//! prints.
//!
//! The rules are in a Go program in this folder: it has kstatus, by which Flux judges objects, and runs Argo CD's health
//! script in the Lua that Argo CD has. This needs Go.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use control_plane::go;
use k8s_openapi::{api::core::v1::Secret, jiff::Timestamp};
use linkerd_mc::{
    api::{
        labels,
        link::{Link, LinkSpec, LinkStatus, LinkerdConfig},
        selector_text::parse_selector,
    },
    manifests::{
        gateway::RemoteGateway,
        kubeconfig,
        link::{ApiServerAccess, LinkObjects, LinkOptions, LinkTarget, link},
    },
    mirror::{
        Copied, FederatedThrough, Federation, GatewayState, Liveness, Outcome, Problem, Reason,
        RemoteRef, ServiceOutcome,
        link_status::{Expiry, GatewayInputs, Outcomes, StatusInputs, status},
    },
};
use serde_json::{Value, json};

use crate::{read, root};

pub(crate) const EXAMPLES: &str = "examples/gitops";

/// A Link of generation 2 with the status that the controller writes for these facts.
fn seen(facts: StatusInputs, outcomes: &Outcomes) -> Value {
    let facts = StatusInputs {
        generation: facts.generation.or(Some(2)),
        ..facts
    };
    let mut link = Link::new("east", LinkSpec::default());
    link.metadata.generation = Some(2);
    link.status = Some(status(
        &LinkStatus::default(),
        &facts,
        outcomes,
        Timestamp::UNIX_EPOCH,
    ));
    serde_json::to_value(link).expect("a Link is JSON")
}

/// A Link that works.
fn good() -> StatusInputs {
    StatusInputs {
        credentials: Some(Ok(())),
        connected: Some(Ok(())),
        settled: true,
        ..StatusInputs::default()
    }
}

fn with_gateway(liveness: Liveness) -> StatusInputs {
    let state = GatewayState {
        liveness,
        ..GatewayState::default()
    };
    StatusInputs {
        gateway: Some(GatewayInputs {
            state,
            ..GatewayInputs::default()
        }),
        ..good()
    }
}

fn with_token(expires: i64) -> StatusInputs {
    StatusInputs {
        expiry: Some(Expiry {
            at: Timestamp::from_second(expires).expect("a time"),
            cluster: "east".to_owned(),
        }),
        ..good()
    }
}

/// One Service that is not mirrored.
fn one_problem() -> Outcomes {
    let mut outcomes = Outcomes::default();
    outcomes.record(&ServiceOutcome {
        remote: RemoteRef {
            cluster: "east".to_owned(),
            namespace: "shop".to_owned(),
            service: "web".to_owned(),
        },
        federated: false,
        report: Outcome::Failed(Problem::new(Reason::NameConflict, "taken")),
    });
    outcomes
}

#[test]
fn gitops_tools_judge_links_as_documented() {
    let none = Outcomes::default();
    let unseen = json!({
        "apiVersion": "multicluster.linkerd.io/v1alpha3", "kind": "Link",
        "metadata": {"name": "east", "generation": 1},
        // The default of the CRD.
        "status": {"observedGeneration": -1},
    });
    let changed = StatusInputs {
        generation: Some(1),
        ..good()
    };
    let syncing = StatusInputs {
        settled: false,
        ..good()
    };
    let disconnected = StatusInputs {
        connected: Some(Err("connection refused".to_owned().into())),
        ..good()
    };
    let no_secret = StatusInputs {
        credentials: Some(Err(("SecretMissing", "Secret x not found".to_owned()))),
        ..StatusInputs::default()
    };
    let invalid = StatusInputs {
        invalid: Some("invalid gatewayPort".to_owned()),
        ..StatusInputs::default()
    };
    let duplicate = StatusInputs {
        duplicate_of: Some("older".to_owned()),
        ..StatusInputs::default()
    };
    #[rustfmt::skip]
    let cases = [
        (unseen, "InProgress", "Progressing: waiting for the controller"),
        (seen(changed, &none), "InProgress", "Progressing: waiting for the controller"),
        (seen(syncing, &none), "InProgress", "Progressing: Syncing"),
        (seen(good(), &none), "Current", "Healthy: Mirroring"),
        (seen(with_gateway(Liveness::Unknown), &none), "Current", "Healthy: Mirroring"),
        (seen(with_gateway(Liveness::Alive), &none), "Current", "Healthy: Mirroring"),
        (seen(with_gateway(Liveness::Dead), &none), "Current", "Degraded: ProbeFailed"),
        (seen(with_token(86_400), &none), "Current", "Healthy: ExpiresSoon: the token expires on"),
        (seen(with_token(-1), &none), "Current", "Degraded: Expired: the token expired on"),
        (seen(good(), &one_problem()), "Current", "Degraded: 1 Services are not mirrored or federated"),
        (seen(disconnected, &none), "InProgress", "Degraded: Disconnected: connection refused"),
        (seen(no_secret, &none), "InProgress", "Degraded: CredentialsInvalid: Secret x not found"),
        (seen(invalid, &none), "Failed", "Degraded: InvalidLink: invalid gatewayPort"),
        (seen(duplicate, &none), "Failed", "Degraded: DuplicateCluster: Link older is older"),
    ];
    let Some(program) = build() else {
        requirements::missing("go", "GitOps tools judge Links");
        return;
    };
    let script = read(Path::new(EXAMPLES).join("argocd/health.lua"));
    let objects: Vec<&Value> = cases.iter().map(|(object, ..)| object).collect();
    let verdicts = ask(&program, &json!({"lua": script, "objects": objects}));
    assert_eq!(verdicts.len(), cases.len());
    for ((object, kstatus, argocd), verdict) in cases.iter().zip(verdicts) {
        assert_eq!(verdict["kstatus"], *kstatus, "{object}");
        let said = verdict["argocd"].as_str().unwrap_or_default();
        assert!(said.starts_with(argocd), "{said}, not {argocd}: {object}");
    }
}

/// Builds the program as control planes are built, so that Go's cache has most of its packages. `None` without Go.
fn build() -> Option<PathBuf> {
    if !go::is_installed() {
        return None;
    }
    let folder = root().join("tests/docs/gitops");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gitops");
    go::build(&folder, &[], ".", "-s -w", &program).unwrap_or_else(|error| panic!("{error:#}"));
    Some(program)
}

fn ask(program: &Path, question: &Value) -> Vec<Value> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let mut input = child.stdin.take().expect("it has an input");
    write!(input, "{question}").expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", output.status);
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

#[test]
fn argocd_settings_have_the_health_script_and_the_annotation_of_drains() {
    let settings = &objects("argocd/argocd-cm.yaml")[0]["data"];
    let script = &settings["resource.customizations.health.multicluster.linkerd.io_Link"];
    let kept = read(Path::new(EXAMPLES).join("argocd/health.lua"));
    assert_eq!(script.as_str(), Some(kept.as_str()));
    let ignored =
        &settings["resource.customizations.ignoreDifferences.multicluster.linkerd.io_Link"];
    let annotation = labels::DRAINED_UNTIL.replace('/', "~1");
    let ignored = ignored.as_str().unwrap_or_default();
    assert!(ignored.contains(&annotation), "{ignored}");
}

#[test]
fn secrets_of_the_examples_are_those_of_link_gen() {
    let printed = printed();
    for (file, template, key) in [
        (
            "west/east/external-secrets/credentials.yaml",
            "/spec/target/template",
            "/spec/data/0/secretKey",
        ),
        (
            "west/east/sealed-secrets/credentials.yaml",
            "/spec/template",
            "/spec/encryptedData/kubeconfig",
        ),
    ] {
        let found = objects(file);
        assert_eq!(found.len(), 2, "{file}");
        let linkerds = printed.control_plane_credentials.as_ref().unwrap();
        let secrets = [&printed.credentials, linkerds];
        for (object, secret) in found.iter().zip(secrets) {
            let secret = metadata_and_type(secret);
            for field in ["name", "namespace"] {
                assert_eq!(
                    object["metadata"][field], secret["metadata"][field],
                    "{file}"
                );
            }
            let wave = &object["metadata"]["annotations"][labels::SYNC_WAVE];
            assert_eq!(wave, "-1", "{file}");
            let template = object.pointer(template).expect("it has a template");
            assert_eq!(template["type"], secret["type"], "{file}");
            for field in ["labels", "annotations"] {
                let (made, printed) = (&template["metadata"][field], &secret["metadata"][field]);
                assert_eq!(made, printed, "{file}: {field}");
            }
            assert!(object.pointer(key).is_some(), "{file}: no kubeconfig");
        }
    }
}

fn metadata_and_type(secret: &Secret) -> Value {
    json!({"metadata": secret.metadata, "type": secret.type_})
}

#[test]
fn link_of_the_examples_is_that_of_link_gen() {
    let mut printed = printed().link;
    printed.metadata.annotations = None; // the version that printed it
    let printed = serde_json::to_value(printed).expect("a Link is JSON");
    assert_eq!(objects("west/east/link/link.yaml"), [printed]);
}

#[test]
fn gitops_objects_name_folders_and_objects_that_there_are() {
    let mut names = Vec::new();
    let mut kustomizations = Vec::new();
    for folder in ["argocd", "flux"] {
        for file in fs::read_dir(root().join(EXAMPLES).join(folder)).expect("there are examples") {
            let name = file.expect("it can be read").file_name();
            let name = format!("{folder}/{}", name.to_string_lossy());
            if Path::new(&name)
                .extension()
                .is_some_and(|end| end == "yaml")
            {
                kustomizations.extend(
                    objects(&name)
                        .into_iter()
                        .map(|object| (name.clone(), object)),
                );
            }
        }
    }
    for (_, object) in &kustomizations {
        names.push(
            object["metadata"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        );
    }
    let mut paths = 0;
    for (file, object) in &kustomizations {
        let spec = &object["spec"];
        let path = [&spec["path"], &spec["source"]["path"]];
        if let Some(path) = path.into_iter().find_map(Value::as_str) {
            let inside = path.trim_start_matches("./").strip_prefix("clusters/");
            let inside = inside.unwrap_or_else(|| panic!("{file}: {path}"));
            let there = root().join(EXAMPLES).join(inside).is_dir();
            assert!(there, "{file}: {path}");
            paths += 1;
        }
        for needed in spec["dependsOn"].as_array().into_iter().flatten() {
            let name = needed["name"].as_str().unwrap_or_default();
            assert!(names.iter().any(|known| known == name), "{file}: {name}");
        }
    }
    assert_eq!(paths, 5, "{names:?}");
}

/// What `link-gen` prints for the cluster of the examples.
fn printed() -> LinkObjects {
    let selector = |text| parse_selector(text).expect("a selector");
    let target = LinkTarget {
        uid: None,
        name: "east".parse().expect("a name"),
        config: LinkerdConfig {
            cluster_domain: "cluster.local".to_owned(),
            identity_trust_domain: "cluster.local".to_owned(),
            ..LinkerdConfig::default()
        },
        linkerd_namespace: labels::LINKERD_NAMESPACE.to_owned(),
        api_server: ApiServerAccess::Direct(kubeconfig::Secret::new("apiVersion: v1\n")),
        gateway: Some(RemoteGateway {
            addresses: vec!["gateway.east.example.com".to_owned()],
            port: 4143,
            identity:
                "linkerd-gateway.linkerd-multicluster.serviceaccount.identity.linkerd.cluster.local"
                    .to_owned(),
            probe_path: "/ready".to_owned(),
            probe_port: 4191,
            probe_period: "3s".to_owned(),
        }),
    };
    let options = LinkOptions {
        selector: selector("mirror.linkerd.io/exported=true"),
        remote_discovery_selector: selector("mirror.linkerd.io/exported=remote-discovery"),
        federated_service_selector: selector(labels::FEDERATED_MEMBERS),
        excluded_annotations: Vec::new(),
        excluded_labels: Vec::new(),
        copied_annotations: Vec::new(),
        copied_labels: Vec::new(),
        copy: Copied::All,
        gateway_networks: Vec::new(),
        enable_headless_services: None,
        allowed_namespaces: None,
        federation: Federation::default(),
        federated_through: FederatedThrough::default(),
    };
    link(&target, "linkerd-multicluster", &options)
}

/// The objects of an example.
pub(crate) fn objects(file: &str) -> Vec<Value> {
    let text = read(Path::new(EXAMPLES).join(file));
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}
