//! The rules for one file, given as text, and samples on which each of them fails.

use std::{
    collections::BTreeSet,
    path::{Component, Path},
};

use crate::source::{Path as Names, Source};

/// Lines of a file. Most have under 400.
pub(crate) const MAX_LINES: usize = 600;

/// Each module with those that it may use besides itself. `src/lib.rs` says what they are for.
const MAY_USE: [(&str, &[&str]); 19] = [
    ("main", &["cli"]),
    ("lib", &["mirror", "api", "budget"]),
    (
        "cli",
        &[
            "controller",
            "check",
            "diagnose",
            "traffic",
            "fleet",
            "verify",
            "clusters",
            "client",
            "manifests",
            "mirror",
            "api",
            "timing",
            "hint",
            "suggest",
        ],
    ),
    (
        "controller",
        &["client", "mirror", "api", "budget", "timing", "hint"],
    ),
    ("check", &["clusters", "mirror", "api", "junit", "suggest"]),
    ("diagnose", &["clusters", "mirror", "api", "suggest"]),
    ("traffic", &["clusters", "api"]),
    ("fleet", &["manifests", "hint", "suggest"]),
    ("verify", &["mirror", "api", "junit"]),
    (
        "clusters",
        &["client", "manifests", "mirror", "api", "suggest"],
    ),
    (
        "client",
        &["mirror", "api", "budget", "timing", "hint", "suggest"],
    ),
    ("manifests", &["mirror", "api", "hint", "suggest"]),
    ("mirror", &["api", "budget"]),
    ("api", &[]),
    ("budget", &[]),
    ("timing", &[]),
    ("hint", &[]),
    ("suggest", &["api"]),
    ("junit", &["api"]),
];

/// Modules that only turn data into data.
const PURE: [&str; 3] = ["mirror", "api", "budget"];
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

/// What a file breaks; `file` is its path inside `src`.
pub(crate) fn breaches(file: &Path, source: &Source) -> Vec<String> {
    let names = names(file);
    let Some(module) = names.first() else {
        return vec!["is in no module".to_owned()];
    };
    let Some((_, right)) = MAY_USE.iter().find(|(name, _)| name == module) else {
        return vec![format!("module {module} has no place in the layering")];
    };
    let mut found = Vec::new();
    if PURE.contains(module) && source.is_async {
        found.push(format!("{module} may not have `async` code"));
    }
    for path in &source.paths {
        let used = top_level(path, names.len());
        let known = |used: &&str| MAY_USE.iter().any(|(name, _)| name == used);
        if let Some(used) = used.filter(known)
            && used != *module
            && !right.contains(&used)
        {
            found.push(format!(
                "{module} may not use {used}, as in `{}`",
                path.join("::")
            ));
        }
        if PURE.contains(module) && is_impure(path) {
            found.push(format!("{module} may not name `{}`", path.join("::")));
        }
    }
    found
}

/// The other modules that a file uses, each with its own; `file` is its path inside `src`.
pub(crate) fn uses<'a>(file: &'a Path, source: &'a Source) -> Vec<(&'a str, &'a str)> {
    let names = names(file);
    let used = |path: &'a Names| Some((*names.first()?, top_level(path, names.len())?));
    source.paths.iter().filter_map(used).collect()
}

/// Permissions of which none of `uses` makes use.
pub(crate) fn unused<'a>(uses: &BTreeSet<(&str, &str)>) -> Vec<(&'a str, &'a str)> {
    let pairs = MAY_USE
        .iter()
        .flat_map(|(module, right)| right.iter().map(|used| (*module, *used)));
    pairs.filter(|pair| !uses.contains(pair)).collect()
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
        .filter(|name| *name != "mod")
        .collect()
}

/// The module of this crate that a path leads to, seen from a file this many modules deep.
fn top_level(path: &Names, depth: usize) -> Option<&str> {
    let ups = path.iter().take_while(|name| *name == "super").count();
    let rest = match path.first()?.as_str() {
        "crate" | "linkerd_mc" | "mirror_core" => &path[1..],
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
    fn a_module_may_not_use_one_to_its_left() {
        for (file, text, breach) in [
            (
                "api/link.rs",
                "use crate::mirror::Key;",
                "api may not use mirror, as in `crate::mirror::Key`",
            ),
            (
                "api/mod.rs",
                "use super::mirror::Key;",
                "api may not use mirror, as in `super::mirror::Key`",
            ),
            (
                "mirror/mod.rs",
                "use crate::{api::k8s, client::build};",
                "mirror may not use client, as in `crate::client::build`",
            ),
            (
                "mirror/store.rs",
                "use super::super::check;",
                "mirror may not use check, as in `super::super::check`",
            ),
            (
                "manifests/link.rs",
                "fn x() { crate::client::build() }",
                "manifests may not use client, as in `crate::client::build`",
            ),
            (
                "client.rs",
                "use crate::controller::queue;",
                "client may not use controller, as in `crate::controller::queue`",
            ),
            (
                "check/a/b.rs",
                "use crate::controller::queue;",
                "check may not use controller, as in `crate::controller::queue`",
            ),
            (
                "controller/run.rs",
                "use crate::cli::output;",
                "controller may not use cli, as in `crate::cli::output`",
            ),
            (
                "controller/run.rs",
                "use crate::check::facts;",
                "controller may not use check, as in `crate::check::facts`",
            ),
            (
                "hint.rs",
                "use crate::api::labels;",
                "hint may not use api, as in `crate::api::labels`",
            ),
            (
                "main.rs",
                "fn main() { linkerd_mc::mirror::plan() }",
                "main may not use mirror, as in `linkerd_mc::mirror::plan`",
            ),
            ("extra.rs", "", "module extra has no place in the layering"),
        ] {
            assert_eq!(check(file, text), [breach], "{file}: {text}");
        }
    }

    #[test]
    fn a_module_may_use_itself_and_those_to_its_right() {
        for (file, text) in [
            (
                "cli/status.rs",
                "use super::{table, output}; use crate::{check::facts, hint::fail, cli::args};",
            ),
            ("cli/check.rs", "use super::check;"),
            (
                "controller/run.rs",
                "use crate::{client::build, mirror::plan, api::link};",
            ),
            (
                "mirror/status.rs",
                "use super::plan; use crate::api::labels; // crate::client is told of what it does",
            ),
            (
                "mirror/store.rs",
                "#[cfg(test)] mod tests { use crate::controller::queue; }",
            ),
            (
                "main.rs",
                "fn main() { linkerd_mc::cli::main(std::env::args_os()) }",
            ),
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
            for module in PURE {
                let found = check(&format!("{module}/x.rs"), text);
                assert_eq!(found, [format!("{module} may not name `{path}`")], "{text}");
            }
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
        assert_eq!(check("mirror/x.rs", text), [""; 0]);
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
