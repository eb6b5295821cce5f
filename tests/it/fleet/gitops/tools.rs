//! Checks the objects of Argo CD and Flux in the examples with the CRDs of these tools. Then does what the tools do
//! with the objects.

use std::{collections::BTreeSet, fs, path::Path};

use control_plane::{ControlPlane, eventually, gitops_crds};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::ListParams};
use serde_json::Value;

use super::kubectl_apply;
use crate::support::{SOON, objects::namespace};

/// Folders and files in `examples` whose objects a cluster has to accept as they are.
const EXAMPLES: [&str; 6] = [
    "fleet/argocd",
    "fleet/flux",
    "gitops/argocd",
    "gitops/flux",
    "gitops/west/east/external-secrets",
    "gitops/west/east/sealed-secrets",
];
/// Arguments of kubectl. The API server checks the objects, refuses unknown fields, and stores nothing.
const CHECK: [&str; 4] = [
    "apply",
    "--server-side",
    "--dry-run=server",
    "--validate=strict",
];

/// The path of an example.
fn example(name: &str) -> String {
    format!("{}/examples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Puts the CRDs of Argo CD, Flux, External Secrets and Sealed Secrets on a control plane.
pub(super) async fn install(plane: &ControlPlane) {
    let crds = tokio::task::spawn_blocking(gitops_crds)
        .await
        .unwrap()
        .unwrap();
    // A client-side apply would fail: these CRDs are too long for the annotation in which kubectl keeps them.
    let apply = ["apply", "--server-side", "-f", crds.to_str().unwrap()];
    plane.kubectl(&apply).await.unwrap();
    let crds = Api::<CustomResourceDefinition>::all(plane.client());
    eventually("the CRDs to be served", SOON, async || {
        let all = crds.list(&ListParams::default()).await?.items;
        Ok(all.iter().all(is_established).then_some(()))
    })
    .await
    .unwrap();
    for name in ["argocd", "flux-system"] {
        namespace(name, &[plane]).await;
    }
}

fn is_established(crd: &CustomResourceDefinition) -> bool {
    let conditions = crd
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut conditions = conditions.filter(|condition| condition.type_ == "Established");
    conditions.any(|condition| condition.status == "True")
}

/// The API server accepts all examples. It refuses an example with an unknown field.
pub(super) async fn examples_are_valid(plane: &ControlPlane) {
    let paths = EXAMPLES.map(|name| format!("--filename={}", example(name)));
    let args: Vec<&str> = CHECK
        .into_iter()
        .chain(paths.iter().map(String::as_str))
        .collect();
    let said = plane.kubectl(&args).await.unwrap();
    for (kind, count) in [
        ("applicationset.argoproj.io/", 1),
        ("application.argoproj.io/", 3),
        ("kustomization.kustomize.toolkit.fluxcd.io/", 7),
        ("externalsecret.external-secrets.io/", 2),
        ("sealedsecret.bitnami.com/", 2),
    ] {
        assert_eq!(said.matches(kind).count(), count, "{said}");
    }
    for (file, known) in [
        ("fleet/argocd/clusters.yaml", "goTemplate:"),
        ("fleet/flux/eu-1.yaml", "prune:"),
    ] {
        let strange = fs::read_to_string(example(file))
            .unwrap()
            .replace(known, "unknown:");
        let args = [&CHECK[..], &["-f", "-"]].concat();
        let refused = plane.kubectl_stdin(&args, &strange).await.unwrap_err();
        let why = format!("{refused:#}");
        assert!(
            why.contains(".unknown: field not declared in schema"),
            "{why}"
        );
    }
}

/// Does what Flux does with the Kustomizations of the example: applies the path of each one after those of the
/// Kustomizations that it depends on.
pub(super) async fn as_flux(plane: &ControlPlane, repository: &Path) {
    let text = fs::read_to_string(example("fleet/flux/eu-1.yaml")).unwrap();
    plane
        .apply(&text.replace("eu-1", plane.name()))
        .await
        .unwrap();
    let get = ["-n", "flux-system", "get", "kustomizations", "-o", "json"];
    let found: Value = serde_json::from_str(&plane.kubectl(&get).await.unwrap()).unwrap();
    let mut waiting = found["items"].as_array().unwrap().clone();
    assert_eq!(waiting.len(), 4);
    let mut done = BTreeSet::<String>::new();
    while !waiting.is_empty() {
        let next = waiting.iter().position(|one| {
            let mut needed = one["spec"]["dependsOn"].as_array().into_iter().flatten();
            needed.all(|needed| done.contains(needed["name"].as_str().unwrap()))
        });
        let next = waiting.remove(next.unwrap());
        let path = repository.join(next["spec"]["path"].as_str().unwrap());
        kubectl_apply(plane, "-k", &path).await;
        done.insert(next["metadata"]["name"].as_str().unwrap().to_owned());
    }
}

/// Does what Argo CD does with the `ApplicationSet` of the example: applies the folder that has the name of the
/// cluster.
pub(super) async fn as_argo_cd(plane: &ControlPlane, repository: &Path) {
    let path = example("fleet/argocd/clusters.yaml");
    kubectl_apply(plane, "-f", Path::new(&path)).await;
    let get = [
        "-n",
        "argocd",
        "get",
        "applicationsets",
        "fleet",
        "-o",
        "json",
    ];
    let set: Value = serde_json::from_str(&plane.kubectl(&get).await.unwrap()).unwrap();
    let folders = &set["spec"]["generators"][0]["git"]["directories"][0]["path"];
    let folders = folders.as_str().unwrap().strip_suffix("/*").unwrap();
    let spec = &set["spec"]["template"]["spec"];
    assert_eq!(spec["source"]["path"], "{{.path.path}}");
    assert_eq!(spec["destination"]["name"], "{{.path.basename}}");
    let folders = fs::read_dir(repository.join(folders)).unwrap();
    let mut folders = folders.map(|folder| folder.unwrap().path());
    let own = folders.find(|folder| folder.ends_with(plane.name()));
    kubectl_apply(plane, "-k", &own.unwrap()).await;
}
