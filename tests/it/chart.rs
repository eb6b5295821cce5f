//! A release of the Helm chart on a real API server. The test installs, upgrades, rolls back and uninstalls it, and
//! lets Helm adopt the objects that `install` printed. Then it applies the chart as Argo CD does.
//!
//! `tests/packaging/chart.rs` compares what the chart renders with what `install` prints.

use std::{fs, path::Path};

use control_plane::{ControlPlane, Helm, LinkerdOptions};
use kube::{ResourceExt as _, api::PostParams};
use linkerd_mc::{
    api::link::{Link, LinkSpec},
    manifests::values::VERSION,
};

use crate::support::{installation::NAMESPACE, links::links, planes::bare, program::run};

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/linkerd-mc");
/// All values of Linkerd's chart.
const LINKERDS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/packaging/chart/linkerd-values.yaml"
);

/// A version before this one.
const OLDER: &str = "0.0.9";
/// A column of `kubectl get links` that the older version does not have.
const COLUMN: &str = "Unhealthy";
/// The Secret in which Kubernetes stores a token of the account.
const STORED: &str = "linkerd-service-mirror-remote-access-default-token";
const CRD: &str = "links.multicluster.linkerd.io";

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn release_is_upgraded_with_its_crd_and_leaves_links_alone() {
    // The first call builds Helm, which takes a while.
    let helm = tokio::task::spawn_blocking(Helm::locate)
        .await
        .unwrap()
        .unwrap();
    let plane = bare("chart").await;
    plane.linkerd(&LinkerdOptions::default()).await.unwrap();
    plane
        .kubectl(&["create", "namespace", NAMESPACE])
        .await
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let older = folder.path().join("older");
    write_older(&older);

    let said = release(&helm, &plane, &["install", "mc", older.to_str().unwrap()]).unwrap();
    let label = format!("kubectl label namespace {NAMESPACE} linkerd.io/extension=multicluster");
    assert!(said.contains(&label), "{said}");
    assert_eq!(state(&plane).await, (false, OLDER.to_owned()));
    let link = Link::new("east", LinkSpec::default());
    let link = links(&plane)
        .create(&PostParams::default(), &link)
        .await
        .unwrap();

    // Runs the command that the notes of the chart print.
    let label: Vec<&str> = label.split(' ').skip(1).collect();
    plane.kubectl(&label).await.unwrap();
    let upgrade = ["upgrade", "mc", CHART, "--values", LINKERDS];
    let said = release(&helm, &plane, &upgrade).unwrap();
    assert!(!said.contains("kubectl label"), "{said}");
    for warning in [
        "warning: controllerDefaults.logLevel is deprecated: use controller.logLevel\n",
        "warning: controllers has no effect: one controller serves all Links: use controller.resources, ",
    ] {
        assert!(said.contains(warning), "{said}");
    }
    assert_eq!(state(&plane).await, (true, VERSION.to_owned()));

    // A stored token stays until somebody revokes it, because links of other clusters may use it.
    let stores = ["--set", "remoteMirrorServiceAccountToken=true"];
    release(&helm, &plane, &[&upgrade[..], &stores].concat()).unwrap();
    assert!(has_stored_token(&plane).await);
    release(&helm, &plane, &upgrade).unwrap();
    assert!(has_stored_token(&plane).await);
    let revoke = ["delete", "--namespace", NAMESPACE, "secret", STORED];
    plane.kubectl(&revoke).await.unwrap();
    release(&helm, &plane, &upgrade).unwrap();
    assert!(!has_stored_token(&plane).await);

    release(&helm, &plane, &["rollback", "mc", "1"]).unwrap();
    assert_eq!(state(&plane).await, (false, OLDER.to_owned()));

    let said = release(&helm, &plane, &["uninstall", "mc"]).unwrap();
    assert!(said.contains(CRD), "{said}");
    let left = links(&plane).get("east").await.unwrap();
    assert_eq!((left.uid(), &left.spec), (link.uid(), &link.spec));
    assert_eq!(deployments(&plane).await, "");

    // Helm adopts the objects that `install` printed only with a flag.
    plane
        .apply(&run(plane.kubeconfig(), &["install"]).data())
        .await
        .unwrap();
    let install = ["install", "mc", CHART];
    let refused = release(&helm, &plane, &install).unwrap_err().to_string();
    assert!(refused.contains("invalid ownership metadata"), "{refused}");
    release(
        &helm,
        &plane,
        &[&install[..], &["--take-ownership"]].concat(),
    )
    .unwrap();
    assert_eq!(state(&plane).await, (true, VERSION.to_owned()));
    assert_eq!(links(&plane).get("east").await.unwrap().uid(), link.uid());

    // Argo CD renders the chart, and applies the objects with its own field manager. Afterwards nothing differs, so its
    // users need no rules that ignore differences.
    let manifests = folder.path().join("manifests.yaml");
    let manifests = manifests.to_str().unwrap();
    for (chart, expected) in [
        (older.to_str().unwrap(), (false, OLDER)),
        (CHART, (true, VERSION)),
    ] {
        let template = ["template", "mc", chart, "--namespace", NAMESPACE];
        fs::write(manifests, helm.run(&template).unwrap()).unwrap();
        server_side(&plane, "apply", manifests).await;
        let (column, version) = expected;
        assert_eq!(state(&plane).await, (column, version.to_owned()));
    }
    assert_eq!(server_side(&plane, "diff", manifests).await, "");
    assert_eq!(links(&plane).get("east").await.unwrap().uid(), link.uid());
}

/// Runs `kubectl apply` or `kubectl diff` as Argo CD's controller would.
async fn server_side(plane: &ControlPlane, verb: &str, manifests: &str) -> String {
    let flags = [
        "--server-side",
        "--force-conflicts",
        "--field-manager=argocd-controller",
    ];
    let arguments = [&[verb, "--filename", manifests][..], &flags[..]].concat();
    plane.kubectl(&arguments).await.unwrap()
}

/// Writes the chart as an older version could look: with another version, and a CRD without [`COLUMN`].
fn write_older(folder: &Path) {
    fs::create_dir_all(folder.join("templates")).unwrap();
    for part in ["", "templates"] {
        for entry in fs::read_dir(Path::new(CHART).join(part)).unwrap().flatten() {
            if entry.path().is_file() {
                let text = fs::read_to_string(entry.path()).unwrap();
                let [new, old] = [VERSION, OLDER].map(|version| format!("\"{version}\""));
                let text = text.replace(&new, &old);
                fs::write(folder.join(part).join(entry.file_name()), text).unwrap();
            }
        }
    }
    let crd = folder.join("templates/link-crd.yaml");
    let text = fs::read_to_string(&crd).unwrap();
    let (before, column) = text.split_once(&format!("    - name: {COLUMN}\n")).unwrap();
    let (_, after) = column.split_once("    - name: ").unwrap();
    fs::write(&crd, format!("{before}    - name: {after}")).unwrap();
}

fn release(helm: &Helm, plane: &ControlPlane, args: &[&str]) -> anyhow::Result<String> {
    helm.run_in(plane, &[args, &["--namespace", NAMESPACE]].concat())
}

async fn has_stored_token(plane: &ControlPlane) -> bool {
    let get = [
        "get",
        "secret",
        STORED,
        "--ignore-not-found",
        "--namespace",
        NAMESPACE,
    ];
    !plane.kubectl(&get).await.unwrap().is_empty()
}

/// Whether the CRD has the new column, and the tag of the controller's image.
async fn state(plane: &ControlPlane) -> (bool, String) {
    let columns = "jsonpath={.spec.versions[*].additionalPrinterColumns[*].name}";
    let columns = plane
        .kubectl(&["get", "crd", CRD, "-o", columns])
        .await
        .unwrap();
    let images = deployments(plane).await;
    let tag = images
        .split_whitespace()
        .find_map(|image| image.strip_prefix("linkerd-mc:"));
    (columns.contains(COLUMN), tag.unwrap().to_owned())
}

/// The images of all Deployments of the extension.
async fn deployments(plane: &ControlPlane) -> String {
    let images = "jsonpath={.items[*].spec.template.spec.containers[*].image}";
    let get = ["get", "deployments", "--namespace", NAMESPACE, "-o", images];
    plane.kubectl(&get).await.unwrap()
}
