//! The rules for one file, given as text, and samples on which each of them fails.

use std::{
    collections::BTreeSet,
    path::{Component, Path},
};

use crate::source::{Path as Names, Source};

/// Lines of a file. Most have under 400.
pub(crate) const MAX_LINES: usize = 600;

/// Modules of a crate, each with its neighbours that it may use. Cargo.toml says which crate uses which.
const MAY_USE: [(&str, &str, &[&str]); 12] = [
    ("observe", "check", &["clusters", "finding", "junit"]),
    (
        "observe",
        "diagnose",
        &["clusters", "finding", "timeline", "traffic"],
    ),
    ("observe", "traffic", &["clusters"]),
    ("observe", "verify", &["junit"]),
    ("observe", "clusters", &["finding", "timeline"]),
    ("observe", "finding", &[]),
    ("observe", "timeline", &[]),
    ("observe", "junit", &[]),
    ("mirror_core", "mirror", &["api", "budget"]),
    ("mirror_core", "api", &[]),
    ("mirror_core", "budget", &[]),
    ("hints", "suggest", &[]),
];

/// The crate that only turns data into data.
const PURE: &str = "mirror_core";
/// What they may not name of the standard library: the outer world and clocks. Their crate depends on nothing else that
/// has such things.
const IMPURE: [&[&str]; 6] = [
    &["std", "fs"],
    &["std", "net"],
    &["std", "env"],
    &["std", "process"],
    &["std", "time", "SystemTime"],
    &["std", "time", "Instant"],
];
/// Of `std::net` they may name addresses, which are data.
const ADDRESSES: [&str; 3] = ["IpAddr", "Ipv4Addr", "Ipv6Addr"];

/// The module of `tests/it` that its tests share.
const SUPPORT: &str = "support";

/// What a file breaks; `file` is its crate, and its path inside of this.
pub(crate) fn breaches(file: &Path, source: &Source) -> Vec<String> {
    let names = names(file);
    let [krate, inside @ ..] = names.as_slice() else {
        return vec!["is in no crate".to_owned()];
    };
    let mut found = Vec::new();
    if *krate == PURE {
        if source.is_async {
            found.push(format!("{PURE} may not have `async` code"));
        }
        let impure = source.paths.iter().filter(|path| is_impure(path));
        found.extend(impure.map(|path| format!("{PURE} may not name `{}`", path.join("::"))));
    }
    let rule = |wanted: &str| {
        let mut rules = MAY_USE.iter();
        rules.find(|(of, module, _)| of == krate && *module == wanted)
    };
    let Some((_, module, right)) = inside.first().and_then(|module| rule(module)) else {
        return found;
    };
    for path in &source.paths {
        if let Some(used) = top_level(path, inside.len())
            && rule(used).is_some()
            && used != *module
            && !right.contains(&used)
        {
            found.push(format!(
                "{module} may not use {used}, as in `{}`",
                path.join("::")
            ));
        }
    }
    found
}

/// The neighbours that a file's module uses, each with its crate and the module; `file` as in [`breaches`].
pub(crate) fn uses<'a>(file: &'a Path, source: &'a Source) -> Vec<(&'a str, &'a str, &'a str)> {
    let names = names(file);
    let used = |path: &'a Names| {
        let [krate, module, ..] = names.as_slice() else {
            return None;
        };
        Some((*krate, *module, top_level(path, names.len() - 1)?))
    };
    source.paths.iter().filter_map(used).collect()
}

/// Permissions of which none of `uses` makes use.
pub(crate) fn unused<'a>(uses: &BTreeSet<(&str, &str, &str)>) -> Vec<(&'a str, &'a str, &'a str)> {
    let all = MAY_USE
        .iter()
        .flat_map(|(krate, module, right)| right.iter().map(|used| (*krate, *module, *used)));
    all.filter(|permitted| !uses.contains(permitted)).collect()
}

/// What a file names of tests that are not its own; `file` is its path inside `tests/it`.
pub(crate) fn foreign_tests(file: &Path, source: &Source) -> Vec<String> {
    let names = names(file);
    let Some(module) = names.first() else {
        return vec!["is in no module".to_owned()];
    };
    let inside = |path: &&Names| path.first().is_some_and(|first| first != "linkerd_mc");
    let foreign = source.paths.iter().filter(inside).filter_map(|path| {
        let used = top_level(path, names.len())?;
        let may = used == SUPPORT || used == *module;
        (!may).then(|| format!("{module} may not use {used}, as in `{}`", path.join("::")))
    });
    foreign.collect()
}

/// The modules that a file declares without a line above that says what they hold.
pub(crate) fn unexplained(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let pairs = lines.windows(2);
    pairs
        .filter(|pair| pair[1].starts_with("mod ") && !pair[0].starts_with("// "))
        .map(|pair| pair[1])
        .collect()
}

/// The tests of a file that `cargo test` leaves out in a way that no recipe of the justfile knows. Long tests run with
/// `just test-all`, which leaves out those whose names contain `minutes`: they only run on demand.
pub(crate) fn left_out(text: &str) -> Vec<&str> {
    let mut lines = text.lines().map(str::trim);
    let mut found = Vec::new();
    while let Some(line) = lines.find(|line| line.starts_with("#[ignore")) {
        let test = lines.find(|line| line.contains("fn ")).unwrap_or_default();
        let on_demand = line.starts_with("#[ignore = \"on demand: just ");
        let known = on_demand || line == "#[ignore = \"long: just test-all\"]";
        if !known || test.contains("minutes") != on_demand {
            found.push(test);
        }
    }
    found
}

/// The names of a file's module and of those around it.
fn names(file: &Path) -> Vec<&str> {
    debug_assert!(
        file.components()
            .all(|part| matches!(part, Component::Normal(_)))
    );
    file.iter()
        .filter_map(|name| name.to_str())
        .map(|name| name.trim_end_matches(".rs"))
        .filter(|name| !["lib", "mod"].contains(name))
        .collect()
}

/// The module of this crate that a path leads to, seen from a file this many modules deep.
fn top_level(path: &Names, depth: usize) -> Option<&str> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let rest = match path.first()?.as_str() {
        "crate" | "linkerd_mc" => &path[1..],
        "super" if ups >= depth => &path[ups..],
        _ => return None,
    };
    rest.first().map(String::as_str)
}

fn is_impure(path: &Names) -> bool {
    let begins =
        |with: &&[&str]| path.len() >= with.len() && path.iter().zip(*with).all(|(a, b)| a == b);
    let is_address = path.iter().any(|name| ADDRESSES.contains(&name.as_str()));
    let asks_a_clock = path.len() > 1 && path.last().is_some_and(|name| name == "now");
    asks_a_clock || (IMPURE.iter().any(begins) && !is_address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::source;

    fn check(file: &str, text: &str) -> Vec<String> {
        breaches(Path::new(file), &source(text).unwrap())
    }

    #[test]
    fn a_module_may_only_use_the_neighbours_that_are_listed() {
        for (file, text, breach) in [
            (
                "mirror_core/api/link.rs",
                "use crate::mirror::Key;",
                "api may not use mirror, as in `crate::mirror::Key`",
            ),
            (
                "mirror_core/api/mod.rs",
                "use super::mirror::Key;",
                "api may not use mirror, as in `super::mirror::Key`",
            ),
            (
                "observe/clusters/store.rs",
                "use super::super::check;",
                "clusters may not use check, as in `super::super::check`",
            ),
            (
                "observe/check/a/b.rs",
                "fn x() { crate::diagnose::layer() }",
                "check may not use diagnose, as in `crate::diagnose::layer`",
            ),
        ] {
            assert_eq!(check(file, text), [breach], "{file}: {text}");
        }
        for (file, text) in [
            (
                "observe/clusters/status.rs",
                "use super::{table, output}; use crate::clusters::keys; use links::check;",
            ),
            ("observe/check/links.rs", "use super::diagnose;"),
            (
                "mirror_core/mirror/status.rs",
                "use super::plan; use crate::api::labels; // crate::client is told of what it does",
            ),
            (
                "mirror_core/api/store.rs",
                "#[cfg(test)] mod tests { use crate::mirror::queue; }",
            ),
            ("controller/run.rs", "use crate::queue;"),
        ] {
            assert_eq!(check(file, text), [""; 0], "{file}: {text}");
        }
    }

    #[test]
    fn the_core_may_not_touch_the_world() {
        for (text, path) in [
            (
                "use std::{collections::BTreeMap, fs::File};",
                "std::fs::File",
            ),
            ("use std::net::{IpAddr, TcpStream};", "std::net::TcpStream"),
            ("use std::net;", "std::net"),
            ("fn x() { std::env::var(\"X\") }", "std::env::var"),
            ("use std::process;", "std::process"),
            ("use std::time::{Duration, Instant};", "std::time::Instant"),
            (
                "use std::time::SystemTime as Time;",
                "std::time::SystemTime",
            ),
            ("fn x() { Timestamp::now() }", "Timestamp::now"),
        ] {
            let found = check("mirror_core/mirror/x.rs", text);
            assert_eq!(found, [format!("{PURE} may not name `{path}`")], "{text}");
            assert_eq!(check("controller/x.rs", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn the_core_may_handle_data() {
        let text = "
            //! No std::env::var here.
            use std::{net::{IpAddr, Ipv4Addr}, time::Duration};
            use kube_core::{ObjectMeta, ResourceExt as _};
            fn x(now: Timestamp) { let y = now; }
            #[cfg(test)] mod properties;
            #[cfg(test)]
            mod tests { use std::env; }
        ";
        assert_eq!(check("mirror_core/mirror/x.rs", text), [""; 0]);
    }

    #[test]
    fn a_test_may_not_use_another_test() {
        let found = |file: &str, text: &str| foreign_tests(Path::new(file), &source(text).unwrap());
        for (file, text, breach) in [
            (
                "drain.rs",
                "use crate::{support::SOON, outages::through};",
                "drain may not use outages, as in `crate::outages::through`",
            ),
            (
                "drain.rs",
                "use super::outages::through;",
                "drain may not use outages, as in `super::outages::through`",
            ),
            (
                "drain/steps.rs",
                "fn x() { super::super::outages::through() }",
                "drain may not use outages, as in `super::super::outages::through`",
            ),
            (
                "support/links.rs",
                "fn x() { crate::drain::until() }",
                "support may not use drain, as in `crate::drain::until`",
            ),
        ] {
            assert_eq!(found(file, text), [breach], "{file}: {text}");
        }
        for (file, text) in [
            ("main.rs", "mod drain; mod support;"),
            (
                "drain.rs",
                "mod steps; use crate::{drain::steps::begin, support::SOON}; use linkerd_mc::api;",
            ),
            (
                "drain/steps.rs",
                "use super::{NAMESPACE, outages}; use crate::drain;",
            ),
            ("support/links.rs", "use super::SOON; use crate::support;"),
        ] {
            assert_eq!(found(file, text), [""; 0], "{file}: {text}");
        }
    }

    #[test]
    fn a_test_is_only_left_out_for_known_reasons() {
        let text = "
            #[ignore = \"long: just test-all\"]
            fn long() {}
            #[ignore = \"on demand: just soak\"]
            async fn minutes_of_it() {}
            #[ignore = \"it fails\"]
            fn failing() {}
            #[test]
            #[ignore]
            fn unexplained() {}
            #[ignore = \"long: just test-all\"]
            fn long_minutes() {}
            #[ignore = \"on demand: just soak\"]
            fn soak() {}
        ";
        let found = ["failing", "unexplained", "long_minutes", "soak"];
        assert_eq!(
            left_out(text),
            found.map(|name| format!("fn {name}() {{}}"))
        );
    }

    #[test]
    fn a_module_of_tests_needs_a_line_that_says_what_it_holds() {
        let text = "\n// Drained clusters.\nmod drain;\nmod faults;\n\nmod limit;\n";
        assert_eq!(unexplained(text), ["mod faults;", "mod limit;"]);
    }
}
