//! The documents as a book: `docs/SUMMARY.md` names each page once, links and their anchors lead somewhere, and each
//! shell block is run by a test or is marked.

use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

use crate::{
    markdown::{Block, Document},
    read, root,
};

/// Lists the pages whose blocks it runs, as `("docs/page.md", `.
const RUNS_PAGES: &str = "tests/it/examples.rs";
/// The page whose blocks the suite in `tests/mesh` runs.
const RUN_BY_MESH: &str = "docs/migrate.md";

/// All documents that people read, relative to the root.
pub(crate) fn documents() -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
        "GOVERNANCE.md",
        "MAINTAINERS.md",
        "ADOPTERS.md",
        "examples/gitops/README.md",
    ]
    .map(PathBuf::from)
    .into();
    found.extend(files_in("docs", "md"));
    found
}

/// The files with this extension in a folder, and in those in it.
pub(crate) fn files_in(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(folder)).expect("there are documents") {
        let name = entry.expect("it can be read").file_name();
        let path = Path::new(folder).join(&name);
        if root().join(&path).is_dir() {
            found.extend(files_in(&path.to_string_lossy(), extension));
        } else if path.extension().is_some_and(|kind| kind == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn summary_names_each_page_once() {
    let summary = Document::parse(&read("docs/SUMMARY.md"));
    let named: Vec<PathBuf> = summary
        .links
        .iter()
        .map(|link| Path::new("docs").join(link))
        .collect();
    let set: BTreeSet<PathBuf> = named.iter().cloned().collect();
    assert_eq!(set.len(), named.len(), "a page is named twice");
    let pages = files_in("docs", "md").into_iter();
    let pages: BTreeSet<PathBuf> = pages.filter(|page| !page.ends_with("SUMMARY.md")).collect();
    assert_eq!(set, pages);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let (mut broken, mut followed) = (Vec::new(), 0);
    for path in documents() {
        let document = Document::parse(&read(&path));
        for link in &document.links {
            if link.starts_with("https://") {
                continue;
            }
            followed += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() {
                path.clone()
            } else {
                resolve(path.parent().unwrap_or_else(|| Path::new("")), file)
            };
            let is_there = root().join(&target).exists();
            let known = || Document::parse(&read(&target)).anchors.contains(anchor);
            if !is_there || (!anchor.is_empty() && !known()) {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(followed > 300, "only {followed} links found");
    assert_eq!(broken, [""; 0]);
}

/// A path without `..`.
fn resolve(folder: &Path, link: &str) -> PathBuf {
    let mut found = PathBuf::new();
    for component in folder.join(link).components() {
        match component {
            Component::ParentDir => {
                found.pop();
            }
            component => found.push(component),
        }
    }
    found
}

#[test]
fn shell_blocks_are_run_or_marked() {
    let (mut loose, mut run) = (Vec::new(), 0);
    let listed = read(RUNS_PAGES);
    let ran = |path: &Path| {
        let entry = format!("(\"{}\", ", path.display());
        path == Path::new(RUN_BY_MESH) || listed.contains(&entry)
    };
    for path in documents() {
        let blocks = Document::parse(&read(&path)).blocks.into_iter();
        let unmarked = blocks
            .filter(|block| block.is_shell() && !block.is_marked())
            .count();
        if ran(&path) {
            assert!(unmarked > 0, "{}: nothing to run", path.display());
            run += unmarked;
        } else if unmarked > 0 {
            loose.push(path);
        }
    }
    assert!(run > 40, "only {run} blocks are run");
    assert!(
        loose.is_empty(),
        "have blocks that nothing runs, without `no-run`: {loose:?}"
    );
}

#[test]
fn console_blocks_and_marks_are_for_shells_only() {
    for path in documents() {
        for Block { info, .. } in Document::parse(&read(&path)).blocks {
            let known = ["", "sh", "sh no-run", "console", "yaml", "text", "mermaid"];
            assert!(
                known.contains(&info.as_str()),
                "{}: ```{info}",
                path.display()
            );
        }
    }
}

#[test]
fn blocks_of_yaml_can_be_read() {
    let (mut found, mut wrong) = (0, Vec::new());
    for path in documents() {
        for Block { info, text } in Document::parse(&read(&path)).blocks {
            for document in text.split("\n---\n").filter(|_| info == "yaml") {
                found += 1;
                if let Err(error) = serde_saphyr::from_str::<serde_json::Value>(document) {
                    wrong.push(format!("{}: {error}\n{document}", path.display()));
                }
            }
        }
    }
    assert!(found > 20, "only {found} found");
    assert_eq!(wrong, [""; 0]);
}

/// The suite in `tests/mesh` finds the steps of a move by these headings, and nothing else runs them.
#[test]
fn the_move_has_the_sections_whose_steps_the_mesh_runs() {
    let text = read(RUN_BY_MESH);
    for section in ["Take over", "Go back"] {
        let (_, rest) = text
            .split_once(&format!("\n## {section}\n"))
            .expect(section);
        let steps = rest.split("\n## ").next().unwrap_or(rest);
        let steps = Document::parse(steps).blocks.into_iter();
        let run = steps.filter(|block| block.is_shell() && !block.is_marked());
        assert!(run.count() > 4, "{section} has too few steps");
    }
}
