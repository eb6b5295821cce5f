//! The files of a fleet for Git, and the folder that has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use links::{
    extension::ExtensionObjects,
    fleet::{
        extension::ExtensionFiles,
        facts::TargetSide,
        folder::{FileChanges, FleetFolder},
        layout::{FleetFiles, FleetLayout, RenderedFleet},
        loaded::LoadedFleet,
    },
};
use manifests::{link::ClusterName, render::Manifest, yaml::documents};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::planned::{installed, loaded, name};
use crate::cli::fleet::render::refuse_loss;

pub type Targets = BTreeMap<ClusterName, Result<TargetSide, String>>;

pub const MESH: &str =
    "name: f\nclusters: [{name: east}, {name: north}, {name: west}]\nlinks: [{mesh: all}]\n";

/// What is known of clusters with these names.
pub fn targets(names: &[&str]) -> Targets {
    let targets = names.iter().zip(1_u8..).map(|(of, n)| {
        let facts = installed(of, &format!("192.0.2.{n}"));
        (name(of), facts.target.unwrap())
    });
    targets.collect()
}

fn render(
    loaded: &LoadedFleet,
    targets: &Targets,
    store: Option<&str>,
    existing: &FleetFiles,
) -> RenderedFleet {
    render_with(loaded, targets, store, &ExtensionFiles::Kept, existing)
}

pub fn render_with(
    loaded: &LoadedFleet,
    targets: &Targets,
    store: Option<&str>,
    extension: &ExtensionFiles,
    existing: &FleetFiles,
) -> RenderedFleet {
    let layout = FleetLayout {
        loaded,
        file: "fleet.yaml",
        store,
        targets,
        extension,
        existing,
    };
    layout.render().unwrap()
}

/// A small extension for each of these clusters.
fn extension(names: &[&str]) -> ExtensionFiles {
    let made = names.iter().map(|of| {
        let objects = vec![json!({ "kind": "Namespace", "metadata": { "name": "x" } })];
        let made = ExtensionObjects {
            manifest: Manifest::from_objects(objects).unwrap(),
            warnings: Vec::new(),
        };
        (name(of), Ok(made))
    });
    ExtensionFiles::Written(made.collect())
}

/// The objects of a file.
pub fn objects(files: &FleetFiles, path: &str) -> Vec<Value> {
    documents(&files[path]).unwrap()
}

#[test]
fn each_cluster_has_a_folder_with_its_links_accounts_and_credentials() {
    let file = "name: f\nclusters: [{name: east}, {name: west, apiServerThroughGateway: true, apiServerAddress: \
                https://west.example}]\nlinks: [{mesh: all, settings: {federation: none}}]\n";
    let (loaded, targets) = (loaded(file), targets(&["east", "west"]));
    let none = FleetFiles::new();
    let files = render(&loaded, &targets, Some("vault"), &none).files;
    let whole = files.iter();
    let whole = whole.map(|(path, text)| format!("=== {path}\n{text}"));
    insta::assert_snapshot!("rendered", whole.collect::<String>());
    // The controller of east goes through the gateway, and Linkerd does not.
    let remote = objects(&files, "east/credentials/west.yaml");
    let of = |at: usize| {
        let remote = remote[at].pointer("/spec/data/0/remoteRef").unwrap();
        format!("{} {}", remote["key"], remote["property"])
    };
    assert_eq!(of(0), r#""linkerd-mc/east/west" "kubeconfig""#);
    assert_eq!(of(1), r#""linkerd-mc/east/west" "linkerdKubeconfig""#);
    // The account is what `allow` makes, and its Secret is empty.
    let account = objects(&files, "east/accounts/west.yaml");
    let kinds: Vec<_> = account.iter().map(|object| &object["kind"]).collect();
    assert_eq!(
        kinds,
        [
            "ClusterRole",
            "ServiceAccount",
            "Secret",
            "ClusterRoleBinding"
        ]
    );
    for object in &account {
        assert_eq!(
            object["metadata"]["labels"]["multicluster.linkerd.io/fleet"],
            "f"
        );
        assert!(object.get("data").is_none() && object.get("stringData").is_none());
    }

    let without_store = render(&loaded, &targets, None, &none).files;
    assert!(
        !without_store
            .keys()
            .any(|path| path.contains("/credentials/"))
    );
    let note = &without_store["west/credentials.md"];
    assert!(!note.contains("store"), "{note}");
    assert!(
        note.contains("fleet credentials --file fleet.yaml --target east --source west"),
        "{note}"
    );
}

#[test]
fn external_secrets_do_not_go_because_a_flag_is_missing() {
    let (loaded, targets) = (loaded(MESH), targets(&["east", "north", "west"]));
    let files = |store| render(&loaded, &targets, store, &FleetFiles::new()).files;
    let refused = refuse_loss(&files(Some("vault"))).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "east/credentials/north.yaml has ExternalSecrets, which would be removed without --secret-store"
    );
    assert!(refuse_loss(&files(None)).is_ok());
}

#[test]
fn files_about_a_cluster_that_was_not_read_stay_as_they_are() {
    let loaded = loaded(MESH);
    let mut known = targets(&["east", "north", "west"]);
    let none = FleetFiles::new();
    let mut before = render(&loaded, &known, Some("vault"), &none).files;
    let link = before.get_mut("west/links/east.yaml").unwrap();
    *link = link.replace("192.0.2.1", "192.0.2.99");
    known.insert(name("east"), Err("timed out".to_owned()));
    let after = render(&loaded, &known, Some("vault"), &before);
    assert_eq!(after.files, before);
    assert_eq!(
        after.problems,
        [(name("east"), "timed out".to_owned())].into()
    );

    // Without those files, there are none; the accounts in east need nothing of it.
    let after = render(&loaded, &known, Some("vault"), &none).files;
    assert!(!after.contains_key("west/links/east.yaml"));
    assert_eq!(
        after["west/links/kustomization.yaml"].matches("- ").count(),
        1
    );
    assert!(after.contains_key("east/accounts/west.yaml"));
    assert!(!after["west/credentials.md"].contains("| east"));
}

#[test]
fn folder_has_what_was_rendered_and_files_of_others_stay() {
    let none = FleetFiles::new();
    let known = targets(&["east", "north", "west"]);
    let extension = extension(&["east", "north", "west"]);
    let mesh = render_with(&loaded(MESH), &known, Some("vault"), &extension, &none).files;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("clusters");
    let read = || FleetFolder::read(&path, "f").unwrap();
    let apply = |wanted: &FleetFiles| {
        let folder = read();
        let changes = folder.changes(wanted).unwrap();
        folder.apply(&changes, wanted).unwrap();
        assert_eq!(read().own, *wanted);
        assert_eq!(read().changes(wanted).unwrap(), FileChanges::default());
        changes
    };
    assert_eq!(apply(&mesh).added.len(), mesh.len());

    // Somebody has changed a file, and others have added some.
    let edited = path.join("west/links/east.yaml");
    let text = fs::read_to_string(&edited).unwrap() + "# mine\n";
    fs::write(&edited, &text).unwrap();
    for (name, text) in [
        ("west/links/south.yaml", "kind: Link\n"),
        (
            "north/links/notes.yaml",
            "# linkerd-mc fleet g: of another fleet\n",
        ),
        (
            "north/other/kustomization.yaml",
            "# linkerd-mc fleet f: in a folder of others\n",
        ),
        ("README.md", "<!-- linkerd-mc fleet f: at the top -->\n"),
    ] {
        let path = path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::write(path.join("west/links/binary.yaml"), [0xff]).unwrap();
    assert_eq!(
        apply(&mesh).changed,
        BTreeSet::from(["west/links/east.yaml".to_owned()])
    );

    // North leaves the fleet.
    let rest = loaded(&MESH.replace(", {name: north}", ""));
    let rest = render(&rest, &known, Some("vault"), &mesh).files;
    let changes = apply(&rest);
    assert!(changes.added.is_empty());
    assert!(changes.removed.contains("north/extension/install.yaml"));
    assert!(rest.contains_key("east/extension/install.yaml"));
    assert_eq!(changes.removed.len(), mesh.len() - rest.len());
    assert!(path.join("north/links/notes.yaml").exists());
    assert!(path.join("north/other/kustomization.yaml").exists());
    assert!(!path.join("north/accounts").exists());
    assert!(path.join("west/links/south.yaml").exists());
    assert!(path.join("west/links/binary.yaml").exists());
    assert!(path.join("README.md").exists());

    // The file of another stands where one of the fleet should be: nothing is written.
    let again = read().changes(&mesh).unwrap();
    assert_eq!(again.added.len(), mesh.len() - rest.len());
    fs::write(path.join("north/kustomization.yaml"), "resources: []\n").unwrap();
    let refused = read().changes(&mesh).unwrap_err().to_string();
    assert!(
        refused.ends_with("north/kustomization.yaml is not a file of this fleet"),
        "{refused}"
    );
}

#[test]
fn examples_for_argocd_and_flux_name_folders_that_are_rendered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/fleet");
    let example = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    let loaded = loaded(&example("fleet.yaml"));
    let all = ["eu-1", "eu-2", "hub", "us-1", "us-2"];
    let known = targets(&all);
    let (none, extension) = (FleetFiles::new(), extension(&all));
    let files = render_with(&loaded, &known, Some("vault"), &extension, &none).files;
    let folder = |path: &str| {
        let inside = path.trim_start_matches("./").strip_prefix("clusters/");
        format!("{}/kustomization.yaml", inside.unwrap())
    };
    let flux = documents(&example("flux/eu-1.yaml")).unwrap();
    let named = flux
        .iter()
        .map(|object| folder(object["spec"]["path"].as_str().unwrap()));
    let of_cluster = files.keys().filter(|path| {
        path.starts_with("eu-1/")
            && path.matches('/').count() == 2
            && path.ends_with("/kustomization.yaml")
    });
    assert_eq!(
        named.collect::<BTreeSet<_>>(),
        of_cluster.cloned().collect::<BTreeSet<_>>()
    );
    let argocd = documents(&example("argocd/clusters.yaml")).unwrap();
    let spec = &argocd[0]["spec"];
    assert_eq!(
        spec["generators"][0]["git"]["directories"][0]["path"],
        "clusters/*"
    );
    // Otherwise Argo CD deletes all objects in a cluster as soon as its folder is gone.
    assert_eq!(spec["syncPolicy"]["preserveResourcesOnDeletion"], true);
    for cluster in &loaded.fleet.clusters {
        assert!(files.contains_key(&folder(&format!("clusters/{}", cluster.name))));
    }
}

/// Names of clusters, and which of them link to which.
fn fleets() -> impl Strategy<Value = Vec<(usize, usize)>> {
    prop::collection::vec((0_usize..4, 0_usize..4), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn kustomizations_name_exactly_the_files_that_there_are(links in fleets(), stored in any::<bool>(), extended in any::<bool>()) {
        let names = ["east", "north", "on", "west"];
        let clusters = names.map(|name| format!("- name: \"{name}\"\n")).concat();
        let links = links.iter().filter(|(source, target)| source != target).map(|(source, target)| {
            format!("- {{source: \"{}\", target: \"{}\"}}\n", names[*source], names[*target])
        });
        let links: String = links.collect();
        let links = if links.is_empty() { " []\n".to_owned() } else { format!("\n{links}") };
        let loaded = loaded(&format!("name: f\nclusters:\n{clusters}links:{links}"));
        let store = stored.then_some("vault");
        let extension = if extended { extension(&names) } else { ExtensionFiles::Removed };
        let files = render_with(&loaded, &targets(&names), store, &extension, &FleetFiles::new()).files;
        let mut named = BTreeSet::new();
        for path in files.keys().filter(|path| path.ends_with("/kustomization.yaml")) {
            let folder = path.trim_end_matches("kustomization.yaml");
            for resource in objects(&files, path)[0]["resources"].as_array().unwrap() {
                let resource = resource.as_str().unwrap();
                let file = if resource.contains('.') { resource.to_owned() } else { format!("{resource}/kustomization.yaml") };
                named.insert(format!("{folder}{file}"));
            }
        }
        let is_top = |path: &&String| path.matches('/').count() == 1;
        let there: BTreeSet<String> = files.keys().filter(|path| !is_top(path)).cloned().collect();
        prop_assert_eq!(named, there);
        let link_files = files.keys().filter(|path| path.contains("/links/") && !path.ends_with("/kustomization.yaml"));
        prop_assert_eq!(link_files.count(), loaded.links.len());
        let installs = files.keys().filter(|path| path.ends_with("/extension/install.yaml"));
        prop_assert_eq!(installs.count(), if extended { names.len() } else { 0 });
    }
}
