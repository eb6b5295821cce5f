//! How the program is compiled: benchmarks measure it as it is shipped.

use crate::read;

#[test]
fn benchmarks_compile_our_crates_as_they_are_shipped() {
    let manifest = read("Cargo.toml");
    let shipped = level(&manifest, "profile.dist").unwrap();
    let dependencies = section(&manifest, "dependencies").unwrap();
    let ours: Vec<&str> = dependencies
        .lines()
        .filter(|line| line.contains("path = "))
        .filter_map(|line| line.split_once(" = "))
        .map(|(name, _)| name)
        .chain(["linkerd-mc"])
        .collect();
    assert!(ours.len() > 1, "no crate of ours in [dependencies]");
    for name in ours {
        let profile = format!("profile.bench.package.{name}");
        assert_eq!(level(&manifest, &profile), Some(shipped), "[{profile}]");
    }
}

/// The level of optimization that a profile sets.
fn level<'a>(manifest: &'a str, profile: &str) -> Option<&'a str> {
    let mut lines = section(manifest, profile)?.lines();
    lines.find_map(|line| line.strip_prefix("opt-level = "))
}

/// A section of a manifest, up to the next one.
fn section<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = manifest.split_once(&format!("\n[{name}]\n"))?;
    rest.split("\n[").next()
}
