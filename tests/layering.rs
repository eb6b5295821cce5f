//! Holds the structure of the code: which module may use which, what the pure core may not use, that each file belongs to
//! a module, and that none is too long. It reads the sources; it needs no cluster.
//!
//! Cargo keeps the crates apart, and clients, runtimes and logs out of the core; these tests keep out what the standard
//! library offers. Files do not use each other in a circle, so a file can be
//! understood with those below it. Code under `#[cfg(test)]` may use what it likes. A module of `tests/it` uses `support`,
//! and none of its neighbours. Each rule is shown to fail on a sample in `layering/rules.rs`.

#![expect(clippy::panic, reason = "a test says why it failed")]

#[path = "layering/calls.rs"]
mod calls;
#[path = "layering/drawing.rs"]
mod drawing;
#[path = "layering/graph.rs"]
mod graph;
#[path = "layering/rules.rs"]
mod rules;
#[path = "layering/source.rs"]
mod source;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use graph::Graph;
use rules::{MAX_LINES, breaches, foreign_tests, left_out, unexplained, unused, uses};
use source::{Source, modules_of};

/// Folders with sources, and in each package the files that a target begins with.
const PACKAGES: [(&str, &[&str]); 7] = [
    (
        "",
        &[
            "src/lib.rs",
            "src/main.rs",
            "build.rs",
            "tests/it/main.rs",
            "tests/hostile_input/main.rs",
            "tests/kubeconfig/main.rs",
            "tests/mesh/main.rs",
            "tests/packaging/main.rs",
            "tests/docs/main.rs",
            "tests/layering.rs",
            "examples/*/main.rs",
            "benches/*/main.rs",
        ],
    ),
    (
        "tests/control-plane",
        &["src/lib.rs", "tests/main.rs", "examples/*.rs"],
    ),
    ("", &["crates/*/src/lib.rs"]),
    (
        "tests/programs",
        &["src/lib.rs", "src/main.rs", "examples/*.rs"],
    ),
    ("tests/browser", &["src/lib.rs"]),
    ("tests/requirements", &["src/lib.rs"]),
    ("packaging/image", &["src/lib.rs", "src/main.rs"]),
];

/// All that the core may depend on: types, parsers, hashes.
const CORE_DEPENDENCIES: [&str; 9] = [
    "ipnet",
    "k8s-openapi",
    "kube-core",
    "kube-derive",
    "serde",
    "serde_json",
    "serde_path_to_error",
    "siphasher",
    "thiserror",
];

/// Files that are over the limit and wait to be split. A file that is not over it may not be listed.
const TOO_LONG: [&str; 0] = [];

/// Names of types that stand several times and wait for another name.
const SHARED_NAMES: [&str; 1] = ["Failure"];

/// A file, and whether only tests have it in their build.
struct File {
    path: PathBuf,
    test: bool,
}

/// The files of the library that not only tests have, by their paths.
static SOURCES: LazyLock<BTreeMap<PathBuf, Source>> = LazyLock::new(|| {
    let files = reachable().into_iter().filter(|file| !file.test);
    let paths = files.map(|file| file.path);
    let paths = paths.filter(|path| inside(path).is_some());
    paths.map(|path| (path.clone(), source(&path))).collect()
});

#[test]
fn modules_use_the_neighbours_that_are_listed_and_the_core_is_pure() {
    assert!(SOURCES.len() > 50, "only {} files found", SOURCES.len());
    let sources = SOURCES.iter().map(|(path, source)| (inside(path), source));
    let sources: Vec<(PathBuf, &Source)> = sources
        .filter_map(|(file, source)| Some((file?, source)))
        .collect();
    let found = sources.iter().flat_map(|(file, source)| {
        let found = breaches(file, source).into_iter();
        found.map(|breach| format!("{}: {breach}", file.display()))
    });
    let found: Vec<_> = found.collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
    let uses = sources.iter().flat_map(|(file, source)| uses(file, source));
    let unused = unused(&uses.collect());
    assert!(unused.is_empty(), "permitted, and not used: {unused:?}");
}

/// The compiler keeps out of the core what the core does not depend on.
#[test]
fn the_core_depends_on_types_and_parsers_alone() {
    let manifest = read(Path::new("crates/mirror-core/Cargo.toml"));
    let lines = manifest.lines();
    let lines = lines.skip_while(|line| *line != "[dependencies]").skip(1);
    let names = lines
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name));
    let names: Vec<&str> = names.collect();
    assert_eq!(names, CORE_DEPENDENCIES);
}

#[test]
fn tests_use_helpers_and_not_each_other() {
    let mut found = Vec::new();
    for path in all() {
        if let Ok(inside) = path.strip_prefix("tests/it") {
            let foreign = foreign_tests(inside, &source(&path)).into_iter();
            found.extend(foreign.map(|breach| format!("{}: {breach}", path.display())));
        }
    }
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn each_module_of_tests_says_what_it_holds() {
    let main = read(Path::new("tests/it/main.rs"));
    assert_eq!(unexplained(&main), [""; 0], "no line above them");
}

#[test]
fn tests_are_only_left_out_for_known_reasons() {
    let mut found = Vec::new();
    for path in all() {
        // The samples there have other reasons.
        if path != Path::new("tests/layering/rules.rs") {
            let text = read(&path);
            let tests = left_out(&text).into_iter();
            found.extend(tests.map(|test| format!("{}: {test}", path.display())));
        }
    }
    assert_eq!(found, [""; 0], "\n{}", found.join("\n"));
}

#[test]
fn no_files_use_each_other_in_a_circle() {
    let circles = library().circles();
    let told: Vec<String> = circles.iter().map(|circle| circle.join(", ")).collect();
    assert!(
        told.is_empty(),
        "these files use each other:\n{}",
        told.join("\n")
    );
}

/// An event changes the state, a key is planned, writes go out, and answers come back as events: no file of the engine
/// calls one that calls it back.
#[test]
fn no_files_of_the_engine_call_each_other_in_a_circle() {
    let engine = Path::new("crates/controller/src/engine");
    let files = reachable().into_iter().filter(|file| {
        let is_inside = file.path.starts_with(engine) || file.path == engine.with_extension("rs");
        is_inside && !file.test
    });
    let sources: Vec<_> = files
        .map(|file| (file.path.display().to_string(), read(&file.path)))
        .collect();
    assert!(sources.len() > 10, "only {} files found", sources.len());
    let circles = calls::circles(&sources).unwrap_or_else(|error| panic!("{error}"));
    let told: Vec<String> = circles.iter().map(|circle| circle.join(", ")).collect();
    assert!(
        told.is_empty(),
        "these files call each other:\n{}",
        told.join("\n")
    );
}

/// `docs/architecture.md` draws which crate uses which, as their manifests say.
#[test]
fn drawing_of_the_crates_is_current() {
    let page = read(Path::new("docs/architecture.md"));
    let drawn: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("  ") && line.contains(" --> "))
        .map(str::trim)
        .collect();
    let manifests = crates().into_iter().map(|(name, folder)| {
        let manifest = folder
            .parent()
            .unwrap_or_else(|| Path::new(""))
            .join("Cargo.toml");
        (name, read(&manifest))
    });
    let arrows = drawing::reduced(&drawing::arrows(&manifests.collect()));
    let wanted: BTreeSet<&str> = arrows.iter().map(String::as_str).collect();
    assert_eq!(drawn, wanted, "docs/architecture.md, under \"Crates\"");
}

/// One name, one thing: whoever searches for a type finds one definition.
#[test]
fn each_name_of_a_type_stands_once() {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, source) in &*SOURCES {
        for name in &source.types {
            let of = files.entry(name.clone()).or_default();
            of.push(path.display().to_string());
        }
    }
    files.retain(|_, files| files.len() > 1);
    let shared = SHARED_NAMES.map(str::to_owned).into();
    let twice: BTreeSet<String> = files.keys().cloned().collect();
    let listed = |name: &String| {
        files
            .get(name)
            .map(|of| format!("{name}: {}", of.join(", ")))
    };
    let found: Vec<String> = twice.difference(&shared).filter_map(listed).collect();
    assert!(found.is_empty(), "types of one name:\n{}", found.join("\n"));
    let gone: Vec<&String> = shared.difference(&twice).collect();
    assert!(gone.is_empty(), "stand only once by now: {gone:?}");
}

#[test]
fn each_file_belongs_to_a_module() {
    let reached: BTreeSet<PathBuf> = reachable().into_iter().map(|file| file.path).collect();
    let orphans: Vec<PathBuf> = all()
        .into_iter()
        .filter(|path| !reached.contains(path))
        .collect();
    assert!(orphans.is_empty(), "in no `mod`: {orphans:?}");
}

#[test]
fn no_file_is_too_long_and_each_says_what_it_is() {
    for path in all() {
        let text = read(&path);
        let name = path.display().to_string();
        let (lines, listed) = (text.lines().count(), TOO_LONG.contains(&name.as_str()));
        assert_eq!(
            lines > MAX_LINES,
            listed,
            "{name} has {lines} lines; the limit is {MAX_LINES}"
        );
        assert!(
            text.starts_with("//! "),
            "{name} does not begin with what it is, after `//! `"
        );
    }
}

/// The files of the crates, by the module that each is.
fn library() -> Graph {
    let sources = SOURCES.iter().filter_map(|(path, source)| {
        let inside = inside(path)?.with_extension("");
        let names = inside
            .iter()
            .map(|name| name.to_string_lossy().into_owned());
        let module = names.filter(|name| !["lib", "mod"].contains(&name.as_str()));
        Some((module.collect(), source.clone()))
    });
    Graph::new(sources.collect())
}

/// The crates of the program, each with the folder of its sources.
fn crates() -> Vec<(String, PathBuf)> {
    let folders = fs::read_dir(root().join("crates")).into_iter().flatten();
    let named = folders.flatten().map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let folder = Path::new("crates").join(&name).join("src");
        (name.replace('-', "_"), folder)
    });
    let mut found: Vec<_> = named.collect();
    found.push(("linkerd_mc".to_owned(), "src".into()));
    found
}

/// The path of a file inside of its crate, below the crate's name.
fn inside(path: &Path) -> Option<PathBuf> {
    static CRATES: LazyLock<Vec<(String, PathBuf)>> = LazyLock::new(crates);
    CRATES.iter().find_map(|(name, folder)| {
        let inside = path.strip_prefix(folder).ok()?;
        Some(Path::new(name).join(inside))
    })
}

/// All sources of the workspace, relative to its root.
fn all() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["src", "crates", "tests", "examples", "benches"] {
        collect(Path::new(folder), &mut found);
    }
    found.push("build.rs".into());
    found
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root().join(folder))
        .into_iter()
        .flatten()
        .flatten()
    {
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The files that some target is built from, found by following `mod` from its first file.
fn reachable() -> Vec<File> {
    let mut found = Vec::new();
    for path in all() {
        let is_first = PACKAGES.iter().any(|(package, firsts)| {
            let inside = path.strip_prefix(package).ok();
            inside.is_some_and(|inside| firsts.iter().any(|first| matches(first, inside)))
        });
        if is_first {
            follow(path, false, &mut found);
        }
    }
    found
}

fn follow(path: PathBuf, test: bool, found: &mut Vec<File>) {
    // The folder of a file's modules: its own, for the first file of a target and `mod.rs`.
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().unwrap_or_else(|| Path::new(""));
    let folder = if ["lib", "main", "mod"].iter().any(|name| stem == *name) {
        folder.to_path_buf()
    } else {
        folder.join(stem)
    };
    let modules = modules_of(&read(&path));
    for module in modules.unwrap_or_else(|error| panic!("{}: {error}", path.display())) {
        let flat = folder.join(format!("{}.rs", module.name));
        let nested = folder.join(&module.name).join("mod.rs");
        let next = [flat, nested]
            .into_iter()
            .find(|file| root().join(file).is_file());
        // None: a `#[path]` leads to a file of another target, which is followed from there.
        if let Some(next) = next {
            follow(next, test || module.test, found);
        }
    }
    found.push(File { path, test });
}

/// Whether a path is the pattern; `*` stands for one name or, before `.rs`, for its stem.
fn matches(pattern: &str, path: &Path) -> bool {
    let (pattern, path) = (Path::new(pattern), path);
    pattern.components().count() == path.components().count()
        && pattern.iter().zip(path).all(|(wanted, name)| {
            wanted == "*"
                || wanted == name
                || (wanted == "*.rs" && Path::new(name).extension().is_some())
        })
}

fn source(path: &Path) -> Source {
    source::source(&read(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path))
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}
