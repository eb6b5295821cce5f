//! The Helm chart, with the real Helm: it renders the objects that `install` prints, and is installed, upgraded and
//! uninstalled.

mod cases;
mod release;

use std::{collections::BTreeMap, fs, path::Path};

use control_plane::Helm;
use linkerd_mc::manifests::{values::VERSION, yaml};
use serde_json::{Value, json};

use self::cases::{BAD, LINKERDS, VALUES};
use crate::support::{
    installation::{NAMESPACE, VARIANTS},
    program::run,
};

/// The chart.
const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/linkerd-mc");

/// Examples that install the chart with GitOps tools, and where its values are in them.
const GITOPS: [(&str, &str); 2] = [
    ("west/linkerd-mc/chart.yaml", "/spec/values"),
    (
        "argocd/linkerd-mc-chart.yaml",
        "/spec/source/helm/valuesObject",
    ),
];

/// Helm. Its first build takes a while.
async fn helm() -> Helm {
    tokio::task::spawn_blocking(Helm::locate)
        .await
        .unwrap()
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
    let args = [&["install", "--ignore-cluster"], args].concat();
    let outcome = run("/dev/null".as_ref(), &args);
    assert_eq!(outcome.code, 0, "{args:?}: {}", outcome.stderr);
    let printed = outcome
        .stdout
        .replace("linkerd-mc/cli ", "linkerd-mc/helm ");
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

#[tokio::test]
async fn chart_renders_what_install_prints() {
    let helm = helm().await;
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

#[tokio::test]
async fn chart_takes_the_values_of_linkerds_chart() {
    let helm = helm().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("values.yaml");
    fs::write(&file, LINKERDS).unwrap();
    let file = format!("--values={}", file.display());
    let found = rendered(&helm, std::slice::from_ref(&file)).unwrap();
    assert_eq!(found, expected(&[&file]));
    let controller = &found[&(
        "Deployment".into(),
        "linkerd-multicluster-controller".into(),
    )];
    let pod = &controller["spec"]["template"]["spec"];
    assert_eq!(pod["nodeSelector"], json!({ "disk": "ssd" }));
}

#[tokio::test]
async fn chart_takes_the_values_of_the_gitops_examples() {
    let helm = helm().await;
    let folder = tempfile::tempdir().unwrap();
    for (file, pointer) in GITOPS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("examples/gitops")
            .join(file);
        let documents = yaml::documents(&fs::read_to_string(path).unwrap()).unwrap();
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

#[tokio::test]
async fn chart_has_no_policies_where_the_api_server_does_not_know_them() {
    let helm = helm().await;
    let policies = |version: &str| {
        let found = rendered(&helm, &[format!("--kube-version={version}")]).unwrap();
        found
            .keys()
            .filter(|(kind, _)| kind == "ValidatingAdmissionPolicy")
            .count()
    };
    assert_eq!((policies("1.29.9"), policies("1.30.0")), (0, 5));
}

#[tokio::test]
async fn chart_refuses_bad_values_by_name() {
    let helm = helm().await;
    for (set, named) in BAD {
        let error = rendered(&helm, &[format!("--set={set}")])
            .expect_err(set)
            .to_string();
        assert!(
            error.contains("values don't meet the specifications of the schema"),
            "{error}"
        );
        assert!(error.contains(named), "{set}: {error}");
        let install = run(
            "/dev/null".as_ref(),
            &["install", "--ignore-cluster", "--set", set],
        );
        assert_eq!(install.code, 1, "{set}");
    }
}

#[tokio::test]
async fn chart_passes_helms_lint() {
    let helm = helm().await;
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
