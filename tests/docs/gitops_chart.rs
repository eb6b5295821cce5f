//! The examples that install the Helm chart with GitOps tools: they name the chart that there is, and label the Namespace
//! as `install` does. `tests/packaging/chart.rs` renders their values with Helm.

use serde_json::Value;

use crate::{gitops::objects, read, reference::printed};

const FLUX: &str = "west/linkerd-mc/chart.yaml";
const ARGOCD: &str = "argocd/linkerd-mc-chart.yaml";

#[test]
fn gitops_examples_install_the_chart_that_there_is() {
    let chart: Value =
        serde_saphyr::from_str(&read("charts/linkerd-mc/Chart.yaml")).expect("the chart is YAML");
    let name = chart["name"].as_str().expect("it has a name");
    let registry = "registry.example.com/charts";

    let [source, release] = &objects(FLUX)[..] else {
        panic!("{FLUX} has a source and a release")
    };
    assert_eq!(source["spec"]["url"], format!("oci://{registry}/{name}"));
    assert_eq!(source["spec"]["ref"]["tag"], chart["version"]);
    let named = &release["spec"]["chartRef"];
    assert_eq!(named["kind"], source["kind"]);
    assert_eq!(named["name"], source["metadata"]["name"]);
    assert_eq!(source["metadata"], release["metadata"]);

    let application = &objects(ARGOCD)[0]["spec"];
    let source = &application["source"];
    assert_eq!(source["repoURL"], registry);
    assert_eq!(source["chart"], chart["name"]);
    assert_eq!(source["targetRevision"], chart["version"]);
    assert_eq!(source["helm"]["valuesObject"], release["spec"]["values"]);
    let namespace = &application["destination"]["namespace"];
    assert_eq!(*namespace, release["metadata"]["namespace"]);
}

#[test]
fn gitops_examples_label_the_namespace_as_install_does() {
    let text = printed(&["install", "--ignore-cluster"]);
    let installed: Vec<Value> = serde_saphyr::from_multiple(&text).expect("it prints YAML");
    let installed = installed
        .iter()
        .find(|object| object["kind"] == "Namespace")
        .expect("it prints the Namespace");
    let flux = &objects("west/linkerd-mc/namespace.yaml")[0]["metadata"];
    assert_eq!(flux["name"], installed["metadata"]["name"]);
    assert_eq!(flux["labels"], installed["metadata"]["labels"]);
    let argocd = &objects(ARGOCD)[0]["spec"];
    let labels = &argocd["syncPolicy"]["managedNamespaceMetadata"]["labels"];
    assert_eq!(*labels, installed["metadata"]["labels"]);
    assert_eq!(argocd["destination"]["namespace"], flux["name"]);
}
