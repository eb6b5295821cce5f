//! How the program is compiled: benchmarks measure it as it is shipped.

use crate::read;

#[test]
fn benchmarks_compile_our_crates_as_they_are_shipped() {
    let manifest = read("Cargo.toml");
    let dependencies = section(&manifest, "workspace.dependencies").unwrap();
    let ours: Vec<&str> = dependencies
        .lines()
        .filter(|line| line.contains("path = "))
        .filter_map(|line| {
            let (name, rest) = line.split_once(" = ")?;
            let package = rest.split_once("package = \"");
            Some(package.map_or(name, |(_, package)| {
                package.split('"').next().unwrap_or(name)
            }))
        })
        .chain(["linkerd-mc"])
        .collect();
    assert!(
        ours.len() > 1,
        "no crate of ours in [workspace.dependencies]"
    );
    for name in ours {
        let shipped = level(&manifest, "dist", name).unwrap();
        assert_eq!(level(&manifest, "bench", name), Some(shipped), "{name}");
    }
}

/// The level of optimization of a crate: its own in the profile, that of the profile, or that which the profile inherits.
/// As in cargo, a profile inherits from `release` unless it names another one.
fn level<'a>(manifest: &'a str, profile: &str, name: &str) -> Option<&'a str> {
    let own = format!("profile.{profile}");
    let level_of = |section: &str| value(manifest, section, "opt-level");
    if let Some(level) = level_of(&format!("{own}.package.{name}")).or_else(|| level_of(&own)) {
        return Some(level);
    }
    let parent = value(manifest, &own, "inherits").unwrap_or("release");
    (parent != profile).then(|| level(manifest, parent, name))?
}

/// A value in a section of a manifest, without quotes.
fn value<'a>(manifest: &'a str, section_name: &str, key: &str) -> Option<&'a str> {
    let mut lines = section(manifest, section_name)?.lines();
    let text = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))?;
    let text = text.split('#').next()?;
    Some(text.trim().trim_matches('"'))
}

/// A section of a manifest, up to the next one.
fn section<'a>(manifest: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = manifest.split_once(&format!("\n[{name}]\n"))?;
    rest.split("\n[").next()
}
