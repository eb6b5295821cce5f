//! The Helm chart in `charts/linkerd-mc`, generated from the templates and values of `install`. Only tests use this
//! module: one of them compares the files of the chart with those generated now, after it has written them if
//! `LINKERD_MC_CHART` is set.
//!
//! Two files are written by hand: `_context.tpl`, which corresponds to `install.rs`, and `NOTES.txt`.

mod files;
mod obsolete;
mod readme;
mod schema;
mod templates;

use std::{collections::BTreeMap, fs, path::Path};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/linkerd-mc");
const BY_HAND: [&str; 2] = ["templates/NOTES.txt", "templates/_context.tpl"];

#[test]
fn chart_matches_the_templates_and_values_of_install() {
    let files = files::all();
    if std::env::var_os("LINKERD_MC_CHART").is_some() {
        for (name, text) in &files {
            fs::write(Path::new(FOLDER).join(name), text).unwrap();
        }
    }
    let mut found = BTreeMap::new();
    for folder in ["", "templates/"] {
        for entry in fs::read_dir(Path::new(FOLDER).join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.file_name().unwrap().to_string_lossy();
                found.insert(
                    format!("{folder}{name}"),
                    fs::read_to_string(&path).unwrap(),
                );
            }
        }
    }
    found.retain(|name, _| !BY_HAND.contains(&name.as_str()));
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&files), "files of the chart");
    for (name, text) in &files {
        assert!(
            found[name] == *text,
            "charts/linkerd-mc/{name} is outdated: run `just chart`"
        );
    }
}
