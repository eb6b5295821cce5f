//! The extension in the files of a fleet for Git.

use std::collections::BTreeMap;

use links::{
    extension::InstallFacts,
    fleet::{
        extension::{ExtensionFiles, extensions},
        layout::{FleetFiles, RenderedFleet, forget_version},
        loaded::LoadedFleet,
    },
};
use manifests::link::ClusterName;
use mirror_core::api::{labels, link::LinkerdConfig};
use observe::clusters::fixtures::route;
use serde_json::{Value, json};

use super::{
    planned::{loaded, name},
    rendered::{MESH, Targets, objects, render_with, targets},
};
use crate::cli::install::install_with;

type Installs = BTreeMap<ClusterName, Result<InstallFacts, String>>;

const NAMES: [&str; 3] = ["east", "north", "west"];

/// What a cluster with this trust domain says.
fn facts(trust_domain: &str) -> InstallFacts {
    InstallFacts {
        flags: hints::suggest::ClusterFlags::default(),
        config: LinkerdConfig {
            cluster_domain: "cluster.local".to_owned(),
            identity_trust_domain: trust_domain.to_owned(),
            ..LinkerdConfig::default()
        },
        has_policies: true,
        routes: Vec::new(),
    }
}

/// What the clusters of the mesh say. Each has another trust domain.
fn installs() -> Installs {
    let all = NAMES.map(|of| (name(of), Ok(facts(&format!("{of}.example")))));
    all.into()
}

fn written(loaded: &LoadedFleet, installs: Installs) -> ExtensionFiles {
    ExtensionFiles::Written(extensions(loaded, installs))
}

fn render(
    loaded: &LoadedFleet,
    targets: &Targets,
    extension: &ExtensionFiles,
    existing: &FleetFiles,
) -> RenderedFleet {
    render_with(loaded, targets, Some("vault"), extension, existing)
}

/// The file with the extension of a cluster.
fn path(cluster: &str) -> String {
    format!("{cluster}/extension/install.yaml")
}

/// The objects of a kind.
fn of_kind<'o>(objects: &'o [Value], kind: &str) -> Vec<&'o Value> {
    let found = objects.iter().filter(|object| object["kind"] == kind);
    found.collect()
}

#[test]
fn extension_of_each_cluster_is_what_install_prints_for_it() {
    // No link needs anything of north, which only gets the extension.
    let file = "name: f
install: {controller: {replicas: 2}}
clusters:
- name: east
  install: {gateway: {serviceType: NodePort}}
- name: north
- name: west
links: [{target: east, source: west}]
";
    let loaded = loaded(file);
    let known = targets(&["east"]);
    let mut read = installs();
    let mut north = facts("north.example");
    north.has_policies = false;
    north.config.cni_enabled = true;
    north.routes = vec![route("web-federated-80")];
    read.insert(name("north"), Ok(north));
    let extension = written(&loaded, read);
    let rendered = render(&loaded, &known, &extension, &FleetFiles::new());
    assert!(!rendered.has_problems(), "{:?}", rendered.warnings());
    let files = &rendered.files;
    for (cluster, own) in loaded.fleet.clusters.iter().zip(NAMES) {
        let found = objects(files, &path(own));
        // The cluster says its trust domain, and the file has the values.
        let gateways = of_kind(&found, "Service");
        let identity = gateways[0]["metadata"]["annotations"]
            .as_object()
            .unwrap()
            .values()
            .any(|value| {
                value
                    .as_str()
                    .unwrap()
                    .ends_with(&format!(".{own}.example"))
            });
        assert!(identity, "{gateways:?}");
        let is_node_port = gateways[0]["spec"]["type"] == "NodePort";
        assert_eq!(is_node_port, own == "east");
        let mut controllers = of_kind(&found, "Deployment").into_iter();
        assert!(controllers.any(|deployment| deployment["spec"]["replicas"] == 2));
        // What `install --file` prints, but the version that printed it.
        if own != "north" {
            let facts = facts(&format!("{own}.example"));
            let given = &cluster.install;
            let printed = install_with("linkerd", &loaded.namespace, given, Some(&facts)).unwrap();
            let mut printed = printed.manifest.into_objects().unwrap();
            printed.iter_mut().for_each(forget_version);
            assert_eq!(found, printed);
        }
        for object in &found {
            // It is nothing that `fleet apply` may take away, and no content of a Secret.
            assert_eq!(object["metadata"]["labels"][labels::FLEET], Value::Null);
            assert!(object.get("data").is_none() && object.get("stringData").is_none());
        }
        let whole = &objects(files, &format!("{own}/kustomization.yaml"))[0];
        assert_eq!(whole["resources"][0], "extension");
    }
    let north = objects(files, &path("north"));
    let policy = "ValidatingAdmissionPolicy";
    assert!(of_kind(&north, policy).is_empty());
    assert!(!of_kind(&objects(files, &path("east")), policy).is_empty());
    let namespace = &of_kind(&north, "Namespace")[0]["metadata"]["labels"];
    assert_eq!(
        namespace["pod-security.kubernetes.io/enforce"],
        "restricted"
    );
    // Warnings name the cluster.
    let warnings = extension.warnings();
    let said = |of: &str| {
        let count = warnings.iter().filter(|text| text.contains(of)).count();
        (
            count,
            warnings.iter().all(|text| text.starts_with("north: ")),
        )
    };
    assert_eq!(said("ValidatingAdmissionPolicy"), (1, true), "{warnings:?}");
    assert_eq!(said("web-federated-80"), (1, true), "{warnings:?}");
}

#[test]
fn extension_of_a_cluster_that_was_not_read_stays_as_it_is() {
    let loaded = loaded(MESH);
    let (mut known, none) = (targets(&NAMES), FleetFiles::new());
    let all = written(&loaded, installs());
    let mut before = render(&loaded, &known, &all, &none).files;
    for of in NAMES {
        let text = before.get_mut(&path(of)).unwrap();
        *text = text.replace("linkerd-multicluster-controller", "older");
    }
    let silent = |names: &[&str]| {
        let mut read = installs();
        for of in names {
            read.insert(name(of), Err("timed out".to_owned()));
        }
        written(&loaded, read)
    };
    // East does not answer at all; north answers, but not what `install` asks.
    known.insert(name("east"), Err("timed out".to_owned()));
    let after = render(&loaded, &known, &silent(&["east", "north"]), &before);
    assert_eq!(after.files[&path("east")], before[&path("east")]);
    assert_eq!(after.files[&path("north")], before[&path("north")]);
    assert_ne!(after.files[&path("west")], before[&path("west")]);
    assert!(after.has_problems());
    assert_eq!(
        after.warnings(),
        [
            "east: timed out; its extension and the files about links to it stay as they are",
            "north: timed out; its extension stays as it is"
        ]
    );
    // Without its file, there is none, and no kustomization.yaml names it.
    let after = render(&loaded, &known, &silent(&["east"]), &none).files;
    assert!(!after.keys().any(|path| path.starts_with("east/extension")));
    let whole = &objects(&after, "east/kustomization.yaml")[0];
    assert_eq!(
        whole["resources"],
        json!(["accounts", "credentials", "links"])
    );
}

#[test]
fn extension_stays_without_the_flag_and_goes_if_it_is_not_wanted() {
    let (loaded, known) = (loaded(MESH), targets(&NAMES));
    let none = FleetFiles::new();
    let all = written(&loaded, installs());
    let with = render(&loaded, &known, &all, &none).files;
    let again = render(&loaded, &known, &all, &with);
    assert_eq!(again.files, with);
    let kept = render(&loaded, &known, &ExtensionFiles::Kept, &with);
    assert_eq!(kept.files, with);
    assert!(!kept.has_problems());
    let without = render(&loaded, &known, &ExtensionFiles::Removed, &with).files;
    assert_eq!(
        without,
        render(&loaded, &known, &ExtensionFiles::Kept, &none).files
    );
    assert!(!without.keys().any(|path| path.contains("extension")));
}

#[test]
fn no_account_is_in_two_files() {
    let file = MESH.replace(
        "{name: east}",
        "{name: east, install: {remoteMirrorServiceAccountName: [west, other]}}",
    );
    let loaded = loaded(&file);
    let all = written(&loaded, installs());
    let rendered = render(&loaded, &targets(&NAMES), &all, &FleetFiles::new());
    let warnings = rendered.warnings();
    assert_eq!(
        warnings,
        [
            "east: its values make the ClusterRole west, which belongs to the link of west: take west out of \
             remoteMirrorServiceAccountName; its extension stays as it is"
        ]
    );
    assert!(!rendered.files.contains_key(&path("east")));
    assert!(rendered.files.contains_key(&path("north")));
}
