//! The Helm chart in `charts/linkerd-mc`, made from what `install` renders. Only tests use it: one of them compares the
//! files of the chart, and writes them if `LINKERD_MC_CHART` is set.
//!
//! Written by hand are `_context.tpl`, the counterpart of `install.rs`, and `NOTES.txt`.

mod files;
mod obsolete;
mod schema;
mod templates;

use std::{collections::BTreeMap, fs, path::Path};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/linkerd-mc");
const BY_HAND: [&str; 2] = ["templates/NOTES.txt", "templates/_context.tpl"];

#[test]
fn chart_is_what_install_renders() {
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
