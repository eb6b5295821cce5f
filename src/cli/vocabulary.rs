//! One vocabulary of flags: a flag has the same short name and takes the same kind of value in every command that has it,
//! and a short name is the same flag everywhere.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command};

/// Flags that are something else in a command: the command, the flag, and why.
const OTHERWISE: [(&str, &str, &str); 10] = [
    (
        "check",
        "timeout",
        "linkerd check calls the timeout of a request so",
    ),
    (
        "gateways",
        "wait",
        "linkerd multicluster gateways calls the timeout of a request so, also as -w",
    ),
    ("install", "file", "-f is --values there, as in Helm"),
    ("install", "values", "-f, as in Helm"),
    ("fleet credentials", "source", "a cluster of the file"),
    ("fleet credentials", "target", "a cluster of the file"),
    ("fleet plan", "replace", "the file has several clusters"),
    ("fleet apply", "replace", "the file has several clusters"),
    ("fleet import", "context", "several contexts"),
    ("verify", "timeout", "limits the whole run, as a test's"),
];

/// The flags of Services' namespaces have a short name. Those of the namespace of Links are without, as those of
/// `linkerd multicluster`.
const OF_SERVICES: [&str; 3] = ["status", "traffic", "verify"];

/// All flags of all commands: the command, and the flag.
fn flags() -> Vec<(String, Arg)> {
    fn gather(of: &Command, path: &str, found: &mut Vec<(String, Arg)>) {
        for sub in of.get_subcommands() {
            let path = format!("{path} {}", sub.get_name()).trim().to_owned();
            gather(sub, &path, found);
            let shown = sub.get_arguments().filter(|arg| !arg.is_hide_set());
            let named = shown.filter(|arg| arg.get_long().is_some());
            found.extend(named.map(|arg| (path.clone(), arg.clone())));
        }
    }
    let mut found = Vec::new();
    gather(&crate::cli::command(), "", &mut found);
    found
}

/// The short name of a flag, and what it takes.
fn form(arg: &Arg) -> String {
    let takes = match arg.get_value_names() {
        Some(names) if arg.get_action().takes_values() => names.join(" "),
        _ => String::new(),
    };
    let short = arg.get_short().map(|short| format!("-{short} "));
    format!("{}{takes}", short.unwrap_or_default())
}

#[test]
fn a_flag_is_the_same_in_every_command() {
    let mut forms: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    let mut used = BTreeSet::new();
    for (command, arg) in flags() {
        let long = arg.get_long().unwrap_or_default().to_owned();
        let other = OTHERWISE
            .iter()
            .find(|(c, flag, _)| *c == command && *flag == long);
        if let Some((command, flag, _)) = other {
            used.insert((*command, *flag));
            continue;
        }
        let name = match long.as_str() {
            "namespace" if OF_SERVICES.contains(&&*command) => "namespace of Services".to_owned(),
            _ => long,
        };
        let of = forms.entry(name).or_default();
        of.entry(form(&arg)).or_default().push(command);
    }
    let differing: Vec<_> = forms.iter().filter(|(_, forms)| forms.len() > 1).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    assert!(!forms.contains_key("timeout"), "call it --request-timeout");
    assert_eq!(
        used.len(),
        OTHERWISE.len(),
        "unneeded: only {used:?} differ"
    );
}

#[test]
fn a_short_name_is_one_flag() {
    let mut longs: BTreeMap<char, BTreeSet<String>> = BTreeMap::new();
    for (command, arg) in flags() {
        let long = arg.get_long().unwrap_or_default();
        let is_other = OTHERWISE
            .iter()
            .any(|(c, flag, _)| *c == command && *flag == long);
        if let Some(short) = arg.get_short().filter(|_| !is_other) {
            longs.entry(short).or_default().insert(long.to_owned());
        }
    }
    let several: Vec<_> = longs.iter().filter(|(_, longs)| longs.len() > 1).collect();
    assert!(several.is_empty(), "{several:?}");
}
