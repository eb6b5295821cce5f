//! Takes programs out of images as `just linkerd` does. Stand-ins for skopeo and curl copy images and a file from a folder.
//!
//! Nothing that a test runs was written by it: while another test starts a process, Linux may refuse to run such a file.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use container_image::{File, Files, Platform, archive, write};
use serde_json::json;
use tempfile::TempDir;

use crate::{installed, root, said};

const VERSION: &str = "edge-1.2.3";
const PROXY: &str = "usr/lib/linkerd/linkerd2-proxy";

fn files(list: &[(&str, &str)]) -> Files {
    let file = |text: &str| File {
        mode: 0o644,
        data: text.as_bytes().to_vec(),
    };
    list.iter()
        .map(|(path, text)| ((*path).to_owned(), file(text)))
        .collect()
}

/// Writes the layout of an image with these layers, the lowest first. Nothing here reads digests but as names.
fn layered(layout: &Path, layers: &[&[(&str, &str)]]) {
    let blobs = layout.join("blobs/sha256");
    fs::create_dir_all(&blobs).unwrap();
    let mut descriptors = Vec::new();
    for (number, layer) in layers.iter().enumerate() {
        let name = format!("layer{number}");
        fs::write(blobs.join(&name), archive(&files(layer)).unwrap()).unwrap();
        descriptors.push(json!({ "digest": format!("sha256:{name}") }));
    }
    let manifest = json!({ "layers": descriptors });
    fs::write(blobs.join("manifest"), manifest.to_string()).unwrap();
    let index = json!({ "manifests": [{ "digest": "sha256:manifest" }] });
    fs::write(layout.join("index.json"), index.to_string()).unwrap();
}

/// A registry and a release, and the folder for the programs.
struct Release(TempDir);

impl Release {
    /// The images of the controller, as our own program writes images, and of the proxy.
    fn new(controller: &[(&str, &str)], proxy: &[&[(&str, &str)]]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let platform = Platform {
            architecture: "amd64",
            files: files(controller),
        };
        let layout = folder.path().join("controller");
        write(&layout, "controller", VERSION, &[platform]).unwrap();
        layered(&folder.path().join("proxy"), proxy);
        for machine in ["amd64", "arm64"] {
            let name = format!("linkerd2-cli-{VERSION}-linux-{machine}");
            fs::write(folder.path().join(name), "cli").unwrap();
        }
        Self(folder)
    }

    fn programs(&self) -> PathBuf {
        self.0.path().join("programs")
    }

    /// Runs a copy of the script, with these sums beside it.
    fn take(&self, sums: &str) -> Output {
        let script = self.0.path().join("script");
        fs::copy(root().join("tests/mesh/linkerd-programs"), &script).unwrap();
        fs::write(self.0.path().join("linkerd.sha256"), sums).unwrap();
        let stand_ins = root().join("tests/stand-ins");
        let path = std::env::var("PATH").unwrap();
        Command::new("python3")
            .arg(script)
            .arg(VERSION)
            .arg(self.programs())
            .env("PATH", format!("{}:{path}", stand_ins.display()))
            .env("STORE", self.0.path())
            .env("LINKERD_REGISTRY", "registry.example.com/linkerd")
            .output()
            .unwrap()
    }
}

const CONTROLLER: [(&str, &str); 3] = [
    ("controller", "controller"),
    ("etc/ssl/certs/ca-certificates.crt", "x"),
    ("linkerd-policy-controller", "policy"),
];

#[test]
fn programs_are_those_of_the_topmost_layer_and_their_sums_are_compared() {
    if !installed(&["python3"], "Linkerd's programs are taken out of images") {
        return;
    }
    let (old, new) = ([("bin/sleep", "x"), (PROXY, "old")], [(PROXY, "new")]);
    let hidden = [
        ("usr/lib/.wh.linkerd", ""),
        ("usr/lib/linkerd2/.wh..wh..opq", ""),
    ];
    let release = Release::new(&CONTROLLER, &[&old, &hidden, &new]);
    let output = release.take("");
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains("no sums of edge-1.2.3"),
        "{}",
        said(&output)
    );
    for (name, text) in [
        ("linkerd", "cli"),
        ("controller", "controller"),
        ("linkerd-policy-controller", "policy"),
        ("linkerd2-proxy", "new"),
    ] {
        let file = release.programs().join(name);
        assert_eq!(fs::read_to_string(&file).unwrap(), text, "{name}");
        let mode = file.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755, "{name}");
    }

    let sums = String::from_utf8(output.stdout).unwrap();
    assert!(sums.starts_with("# edge-1.2.3 linux-a"), "{sums}");
    let output = release.take(&format!("# edge-1.2.2 linux-amd64\nx\n{sums}"));
    assert!(output.status.success(), "{}", said(&output));
    assert!(!said(&output).contains("note: "), "{}", said(&output));
    let output = release.take(&sums.replace("  controller", "0  controller"));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("these are not the sums"),
        "{}",
        said(&output)
    );
}

#[test]
fn file_that_a_layer_deletes_or_no_layer_has_is_an_error() {
    if !installed(&["python3"], "a file is missing in an image") {
        return;
    }
    let old = [(PROXY, "old")];
    for hidden in [
        "usr/lib/linkerd/.wh.linkerd2-proxy",
        "usr/lib/.wh.linkerd",
        "usr/.wh..wh..opq",
    ] {
        let release = Release::new(&CONTROLLER, &[&old, &[(hidden, "")]]);
        let output = release.take("");
        assert_eq!(output.status.code(), Some(1), "{hidden}");
        let expected = format!("error: the image proxy has no file {PROXY}\n");
        assert!(said(&output).ends_with(&expected), "{}", said(&output));
    }
    let release = Release::new(&CONTROLLER[..2], &[&old]);
    let expected = "error: the image controller has no file linkerd-policy-controller\n";
    assert!(said(&release.take("")).ends_with(expected));
}
