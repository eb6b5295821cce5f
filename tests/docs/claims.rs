//! Tables of `status` that pages show have the columns that it prints.

use std::{fs, path::Path};

use crate::{book::documents, markdown::Document, read, root};

/// Tables that a page shows, by the names of their columns.
#[test]
fn tables_of_status_on_pages_have_its_columns() {
    let known: String = sources(Path::new("src/cli")).collect();
    let (mut found, mut wrong) = (0, Vec::new());
    for path in documents() {
        for block in Document::parse(&read(&path)).blocks {
            let head = block.text.lines().next().unwrap_or_default();
            if block.info != "text"
                || !["NAMESPACE ", "CLUSTER "]
                    .iter()
                    .any(|b| head.starts_with(b))
            {
                continue;
            }
            found += 1;
            let unknown = |column: &&str| !known.contains(&format!("(\"{column}\")"));
            wrong.extend(head.split_whitespace().filter(unknown).map(str::to_owned));
        }
    }
    assert!(found >= 2, "only {found} tables found");
    assert_eq!(wrong, [""; 0], "columns that no table has");
}

/// The texts of all sources in a folder.
fn sources(folder: &Path) -> std::vec::IntoIter<String> {
    let mut found = Vec::new();
    let entries = fs::read_dir(root().join(folder)).expect("there are sources");
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            found.push(read(&path));
        }
    }
    found.into_iter()
}
