//! Publishes images and charts to a registry that is a folder, with stand-ins for skopeo and Helm. The digests to sign must
//! be those of what was pushed, and not what the registry says afterwards.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use container_image::{File, Files, Platform, write};
use serde_json::Value;
use tempfile::TempDir;

use crate::{installed, root, said, succeed};

/// Copies a layout to the folder `$STORE`, and does nothing else.
const SKOPEO: &str = r#"#!/bin/sh
set -eu
[ "$1 $2 $3" = "copy --all --preserve-digests" ]
[ "$5" = docker://registry.example.com/linkerd-mc:1.2.3 ]
cp -R "${4#oci:}" "$STORE"
"#;
/// Says what Helm says after a push.
const HELM: &str = r#"#!/bin/sh
set -eu
[ "$1 $2 $3" = "push target/chart/linkerd-mc-1.2.3.tgz oci://registry.example.com/charts" ]
echo "Pushed: registry.example.com/charts/linkerd-mc:1.2.3" >&2
echo "$SAYS" >&2
"#;

/// Layouts for two architectures, programs that stand in for others, and a registry.
struct Registry(TempDir);

impl Registry {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for (name, script) in [("skopeo", SKOPEO), ("helm", HELM)] {
            let file = folder.path().join(name);
            fs::write(&file, script).unwrap();
            fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
        }
        for architecture in ["amd64", "arm64"] {
            let data = architecture.as_bytes().to_vec();
            let files = Files::from([("linkerd-mc".to_owned(), File { mode: 0o755, data })]);
            let platform = Platform {
                architecture,
                files,
            };
            let layout = folder.path().join(format!("image-{architecture}"));
            write(&layout, "linkerd-mc", "1.2.3", &[platform]).unwrap();
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs a script of `packaging` with the stand-ins first on the path.
    fn run(&self, script: &str, args: &[&str], says: &str) -> Output {
        let path = format!(
            "{}:{}",
            self.0.path().display(),
            std::env::var("PATH").unwrap()
        );
        Command::new(root().join("packaging").join(script))
            .args(args)
            .current_dir(self.0.path())
            .env("PATH", path)
            .env("STORE", self.path("store"))
            .env("SAYS", says)
            .output()
            .unwrap()
    }

    fn publish_image(&self, layouts: &[&str]) -> Output {
        let reference = "registry.example.com/linkerd-mc:1.2.3";
        self.run("publish-image", &[&[reference], layouts].concat(), "")
    }
}

fn json(file: &Path) -> Value {
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.trim_end().to_owned()
}

#[test]
fn image_is_pushed_whole_and_its_digest_is_that_of_the_files() {
    if !installed(&["python3"], "images are put together") {
        return;
    }
    let registry = Registry::new();
    let digest = printed(&registry.publish_image(&["image-arm64", "image-amd64"]));
    let store = registry.path("store");
    let blob = |digest: &str| store.join("blobs").join(digest.replace(':', "/"));
    let sums = succeed(Command::new("sha256sum").arg(blob(&digest)));
    assert_eq!(format!("sha256:{}", &sums[..64]), digest);

    let index = json(&blob(&digest));
    let images = index["manifests"].as_array().unwrap();
    let architectures = images
        .iter()
        .map(|image| &image["platform"]["architecture"]);
    assert_eq!(architectures.collect::<Vec<_>>(), ["amd64", "arm64"]);
    for image in images {
        let manifest = json(&blob(image["digest"].as_str().unwrap()));
        for part in [&manifest["config"], &manifest["layers"][0]] {
            let data = fs::metadata(blob(part["digest"].as_str().unwrap())).unwrap();
            assert_eq!(part["size"], data.len());
        }
    }
    // What others wrote reads it, and finds the same digest.
    if installed(
        &["skopeo"],
        "another program reads the layout of both images",
    ) {
        let layout = format!("oci:{}", store.display());
        let raw = Command::new("skopeo")
            .args(["inspect", "--raw", &layout])
            .output();
        assert_eq!(raw.unwrap().stdout, fs::read(blob(&digest)).unwrap());
        let copied = registry.path("copied");
        let to = format!("dir:{}", copied.display());
        succeed(Command::new("skopeo").args(["copy", "--insecure-policy", "--all", &layout, &to]));
    }
}

#[test]
fn image_that_was_changed_on_the_way_is_not_pushed() {
    if !installed(&["python3"], "images are put together") {
        return;
    }
    let registry = Registry::new();
    let blobs = registry.path("image-arm64/blobs/sha256");
    let blob = fs::read_dir(&blobs)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = fs::read(&blob).unwrap();
    fs::write(&blob, b"changed").unwrap();
    let output = registry.publish_image(&["image-amd64", "image-arm64"]);
    assert!(!output.status.success());
    assert!(said(&output).contains("has another content than its name says"));
    fs::write(&blob, whole).unwrap();
    let twice = registry.publish_image(&["image-amd64", "image-amd64"]);
    assert!(said(&twice).contains("is a second image for linux/amd64"));
    assert!(!registry.path("store").exists(), "nothing was pushed");
}

#[test]
fn digest_of_the_chart_is_what_helm_pushed() {
    let registry = Registry::new();
    let digest = format!("sha256:{}", "0a".repeat(32));
    let publish = |says: &str| {
        let args = ["oci://registry.example.com/charts", "1.2.3"];
        registry.run("publish-chart", &args, says)
    };
    assert_eq!(printed(&publish(&format!("Digest: {digest}"))), digest);
    let output = publish("Digest: none");
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(
        said(&output).contains("did not print the digest"),
        "{}",
        said(&output)
    );
}
