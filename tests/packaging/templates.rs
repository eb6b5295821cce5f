//! Fills in the templates as a release does, from the checksums of its archives.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;

use crate::{installed, root, said, succeed};

const PLATFORMS: [&str; 5] = [
    "darwin-amd64",
    "darwin-arm64",
    "linux-amd64",
    "linux-arm64",
    "windows-amd64",
];
const VERSION: &str = "1.2.3";
const RELEASE: &str = "https://github.com/somebody/linkerd-mc/releases/download/v1.2.3/";

fn archive(platform: &str) -> String {
    format!("linkerd-mc-{VERSION}-{platform}.tar.gz")
}

/// A checksum that is different for each platform, and of the right length.
fn checksum(platform: &str) -> String {
    let digits = platform.bytes().cycle().take(64);
    digits
        .map(|byte| char::from(b"0123456789abcdef"[usize::from(byte % 16)]))
        .collect()
}

fn fill(template: &str, sums: &Path) -> Command {
    let mut command = Command::new(root().join("packaging/fill"));
    command
        .arg(root().join("packaging").join(template))
        .args([VERSION, "somebody/linkerd-mc"])
        .arg(sums);
    command
}

/// A template with the values of a release that has these archives.
fn filled(template: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let sums = folder.path().join("SHA256SUMS");
    let lines =
        PLATFORMS.map(|platform| format!("{}  {}\n", checksum(platform), archive(platform)));
    fs::write(&sums, lines.concat()).unwrap();
    succeed(&mut fill(template, &sums))
}

#[test]
fn krew_manifest_names_each_archive_with_its_checksum() {
    if !installed(&["python3"], "the krew manifest is filled in") {
        return;
    }
    let manifest: Value = serde_saphyr::from_str(&filled("krew.yaml.in")).unwrap();
    assert_eq!(
        manifest["apiVersion"],
        "krew.googlecontainertools.github.com/v1alpha2"
    );
    assert_eq!(manifest["kind"], "Plugin");
    assert_eq!(manifest["metadata"]["name"], "linkerd-mc");
    let spec = &manifest["spec"];
    assert_eq!(spec["version"], format!("v{VERSION}"));
    // krew refuses longer ones.
    assert!(spec["shortDescription"].as_str().unwrap().len() <= 50);
    let mut found = Vec::new();
    for platform in spec["platforms"].as_array().unwrap() {
        let labels = &platform["selector"]["matchLabels"];
        let name = [&labels["os"], &labels["arch"]]
            .map(|label| label.as_str().unwrap())
            .join("-");
        assert_eq!(platform["uri"], format!("{RELEASE}{}", archive(&name)));
        assert_eq!(platform["sha256"], checksum(&name));
        let program = if name.starts_with("windows-") {
            "linkerd-mc.exe"
        } else {
            "linkerd-mc"
        };
        assert_eq!(platform["bin"], program);
        let files: Vec<_> = platform["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| &file["from"])
            .collect();
        let inside = format!("linkerd-mc-{VERSION}-{name}");
        assert_eq!(
            files,
            [
                &*format!("{inside}/{program}"),
                &*format!("{inside}/LICENSE")
            ]
        );
        found.push(name);
    }
    found.sort();
    assert_eq!(found, PLATFORMS);
}

#[test]
fn formula_names_each_archive_with_its_checksum() {
    if !installed(&["python3"], "the Homebrew formula is filled in") {
        return;
    }
    let formula = filled("homebrew.rb.in");
    let quoted = |key: &str| -> Vec<String> {
        let lines = formula
            .lines()
            .filter_map(|line| line.trim().strip_prefix(key));
        lines
            .map(|value| value.trim().trim_matches('"').to_owned())
            .collect()
    };
    let found: BTreeMap<String, String> =
        quoted("url ").into_iter().zip(quoted("sha256 ")).collect();
    let expected = PLATFORMS.into_iter();
    let expected = expected.filter(|name| !name.starts_with("windows-")); // Homebrew has none
    let expected = expected.map(|name| (format!("{RELEASE}{}", archive(name)), checksum(name)));
    assert_eq!(found, expected.collect());
    assert_eq!(quoted("version "), [VERSION]);
    assert!(!formula.contains('@'), "a placeholder is left: {formula}");
    if installed(&["ruby"], "Ruby parses the Homebrew formula") {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("linkerd-mc.rb");
        fs::write(&file, formula).unwrap();
        assert_eq!(
            succeed(Command::new("ruby").arg("-c").arg(file)),
            "Syntax OK\n"
        );
    }
}

#[test]
fn template_without_a_checksum_is_refused() {
    if !installed(&["python3"], "a template without a checksum is refused") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sums = folder.path().join("SHA256SUMS");
    fs::write(
        &sums,
        format!("{}  {}\n", checksum("x"), archive("linux-amd64")),
    )
    .unwrap();
    let output = fill("krew.yaml.in", &sums).output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(1), &[] as &[u8])
    );
    let expected = format!("has no {}\nhint: ", archive("linux-arm64"));
    assert!(said(&output).contains(&expected), "{}", said(&output));
}
