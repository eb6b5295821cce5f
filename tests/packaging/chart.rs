//! The Helm chart, rendered by the real Helm: it has the objects that `install` prints. `tests/it/chart.rs` installs it in
//! a cluster. That its files are those that `just chart` makes is held by the unit tests of `manifests::chart`.
//!
//! All of these are long tests, because they build Helm.

mod cases;
// Variants of `install`, whose objects a real API server accepts.
#[path = "../it/support/variants.rs"]
mod variants;

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Output},
};

use control_plane::Helm;
use linkerd_mc::{
    api::labels::MULTICLUSTER_NAMESPACE as NAMESPACE,
    manifests::{values::VERSION, yaml},
};
use serde_json::{Value, json};

use self::{
    cases::{BAD, VALUES},
    variants::VARIANTS,
};
use crate::{read, said};

/// The chart.
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/linkerd-mc");
/// All values of Linkerd's chart.
const LINKERDS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/packaging/chart/linkerd-values.yaml"
);

/// Examples that install the chart with GitOps tools, and where its values are in them.
const GITOPS: [(&str, &str); 2] = [
    ("west/linkerd-mc/chart.yaml", "/spec/values"),
    (
        "argocd/linkerd-mc-chart.yaml",
        "/spec/source/helm/valuesObject",
    ),
];

/// `install` without a cluster.
fn install(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(["install", "--ignore-cluster"])
        .args(args)
        .env("KUBECONFIG", "/dev/null")
        .env_remove("LINKERD_DOCKER_REGISTRY")
        .output()
        .unwrap()
}

/// Objects by kind and name.
type Objects = BTreeMap<(String, String), Value>;

fn objects(text: &str) -> Objects {
    let documents = yaml::documents(text).unwrap();
    let count = documents.len();
    let name = |object: &Value, pointer: &str| {
        object
            .pointer(pointer)
            .unwrap()
            .as_str()
            .unwrap()
            .to_owned()
    };
    let all: Objects = documents
        .into_iter()
        .map(|object| {
            (
                (name(&object, "/kind"), name(&object, "/metadata/name")),
                object,
            )
        })
        .collect();
    assert_eq!(all.len(), count, "an object is there twice");
    all
}

/// What `install` prints, as Helm should render it.
fn expected(args: &[&str]) -> Objects {
    let output = install(args);
    assert!(output.status.success(), "{args:?}: {}", said(&output));
    let printed = String::from_utf8(output.stdout).unwrap();
    let printed = printed.replace("linkerd-mc/cli ", "linkerd-mc/helm ");
    let mut all = objects(&printed);
    // The Namespace has to exist before Helm can install a release in it.
    all.remove(&("Namespace".into(), NAMESPACE.into())).unwrap();
    let crd = (
        "CustomResourceDefinition".into(),
        "links.multicluster.linkerd.io".into(),
    );
    all.get_mut(&crd).unwrap()["metadata"]["annotations"]["helm.sh/resource-policy"] =
        json!("keep");
    all
}

fn rendered(helm: &Helm, args: &[String]) -> anyhow::Result<Objects> {
    let fixed = ["template", "mc", CHART, "--namespace", NAMESPACE].map(str::to_owned);
    Ok(objects(&helm.run(&[&fixed[..], args].concat())?))
}

/// The flags of `install` as flags of Helm.
fn for_helm(args: &[&str]) -> Vec<String> {
    let mut flags = Vec::new();
    for arg in args {
        let (flag, value) = arg.split_once('=').unwrap_or((arg, ""));
        let key = match flag {
            "--gateway" => "gateway.enabled",
            "--gateway-service-type" => "gateway.serviceType",
            "--gateway-port" => "gateway.port",
            "--gateway-healthcheck-nodeport" => "gateway.healthCheckNodePort",
            "--service-mirror-credentials" => "remoteMirrorServiceAccount",
            "--ha" => {
                flags.push(format!("--values={CHART}/values-ha.yaml"));
                continue;
            }
            _ => {
                flags.push((*arg).to_owned());
                continue;
            }
        };
        flags.push(format!("--set={key}={value}"));
    }
    flags
}

#[test]
#[ignore = "long: just test-all"]
fn chart_renders_what_install_prints() {
    let helm = Helm::locate().unwrap();
    // The chart renders YAML; `install` prints the same as JSON.
    let variants = VARIANTS.into_iter().filter(|args| !args.contains(&"-o"));
    for args in variants.chain(VALUES) {
        let (wanted, found) = (expected(args), rendered(&helm, &for_helm(args)).unwrap());
        let names = |all: &Objects| all.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&wanted), "{args:?}");
        for (name, object) in &wanted {
            assert_eq!(found[name], *object, "{args:?}: {name:?}");
        }
    }
}

#[test]
#[ignore = "long: just test-all"]
fn chart_takes_the_values_of_linkerds_chart() {
    let helm = Helm::locate().unwrap();
    let file = format!("--values={LINKERDS}");
    let found = rendered(&helm, std::slice::from_ref(&file)).unwrap();
    assert_eq!(found, expected(&[&file]));
    let controller = &found[&(
        "Deployment".into(),
        "linkerd-multicluster-controller".into(),
    )];
    let pod = &controller["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({ "disk": "ssd" }));
}

#[test]
#[ignore = "long: just test-all"]
fn chart_takes_the_values_of_the_gitops_examples() {
    let helm = Helm::locate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (file, pointer) in GITOPS {
        let documents = yaml::documents(&read(&format!("examples/gitops/{file}"))).unwrap();
        let values = documents.iter().find_map(|object| object.pointer(pointer));
        let kept = folder.path().join("values.yaml");
        fs::write(&kept, values.expect(file).to_string()).unwrap();
        let flag = format!("--values={}", kept.display());
        let found = rendered(&helm, std::slice::from_ref(&flag)).unwrap();
        assert_eq!(found, expected(&[&flag]), "{file}");
        let controller = &found[&(
            "Deployment".into(),
            "linkerd-multicluster-controller".into(),
        )];
        let image = &controller["spec"]["template"]["spec"]["containers"][0]["image"];
        let wanted = format!("registry.example.com/linkerd-mc:{VERSION}");
        assert_eq!(*image, wanted, "{file}");
    }
}

#[test]
#[ignore = "long: just test-all"]
fn chart_passes_helms_strict_lint_and_refuses_old_clusters() {
    let helm = Helm::locate().unwrap();
    let ha = format!("--values={CHART}/values-ha.yaml");
    let openshift = "--set=gateway.UID=,gateway.GID=,controller.UID=,controller.GID=".to_owned();
    for args in [vec![], vec![ha], vec![openshift]] {
        let fixed = ["lint", CHART, "--strict", "--namespace", NAMESPACE].map(str::to_owned);
        helm.run(&[&fixed[..], &args].concat()).unwrap();
    }
    let with = |version: &str| rendered(&helm, &[format!("--kube-version={version}")]);
    let policies = with("1.30.0").unwrap().into_keys();
    let policies = policies.filter(|(kind, _)| kind == "ValidatingAdmissionPolicy");
    assert_eq!(policies.count(), 8);
    let error = format!("{:#}", with("1.29.9").unwrap_err());
    assert!(error.contains("1.30.0"), "{error}");
}

#[test]
#[ignore = "long: just test-all"]
fn chart_refuses_bad_values_by_name() {
    let helm = Helm::locate().unwrap();
    for (set, named) in BAD {
        let error = rendered(&helm, &[format!("--set={set}")])
            .expect_err(set)
            .to_string();
        assert!(
            error.contains("values don't meet the specifications of the schema"),
            "{error}"
        );
        assert!(error.contains(named), "{set}: {error}");
        assert_eq!(install(&["--set", set]).status.code(), Some(1), "{set}");
    }
}

#[test]
#[ignore = "long: just test-all"]
fn chart_passes_helms_lint() {
    let helm = Helm::locate().unwrap();
    for values in ["values.yaml", "values-ha.yaml"] {
        let values = format!("--values={CHART}/{values}");
        let said = helm.run(&["lint", "--strict", CHART, &values]).unwrap();
        assert!(
            said.contains("1 chart(s) linted, 0 chart(s) failed"),
            "{said}"
        );
        assert!(!said.contains("[WARNING]"), "{said}");
    }
    let metadata = helm.run(&["show", "chart", CHART]).unwrap();
    assert!(
        metadata.contains(&format!("appVersion: {VERSION}\n")),
        "{metadata}"
    );
}
