//! Compares the table in docs/ci.md with the program, as far as no cluster is needed. That `check` and `plan` tell errors
//! and changes of real clusters by their codes is held in `tests/it`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    process::{Command, Output},
};

use crate::{NOBODY, read, said};

const OTHERS: &str = "All others";

/// Commands that read a cluster first of all, and what they need for it.
const READERS: [&str; 13] = [
    "allow --service-account-name x",
    "attack",
    "check --wait 0s",
    "diagnose shop/web-east",
    "drain x",
    "gateways",
    "link --target x --source y",
    "plan x",
    "rotate --yes",
    "status",
    "unlink x",
    "verify --source x --target y",
    "version",
];

/// What the codes 0, 1 and 2 of each command mean, as the document says.
fn documented() -> BTreeMap<String, [String; 3]> {
    let text = read("docs/ci.md");
    let (_, section) = text.split_once("\n## Exit codes\n").unwrap();
    let rows = section
        .lines()
        .skip_while(|line| !line.starts_with("| ---"))
        .skip(1);
    rows.take_while(|line| line.starts_with('|'))
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
            let [command, meanings @ ..] = cells.as_slice() else {
                unreachable!("a row has cells")
            };
            let meanings = meanings
                .iter()
                .map(|&meaning| meaning.to_owned())
                .collect::<Vec<_>>();
            (
                command.trim_matches('`').to_owned(),
                meanings.try_into().unwrap(),
            )
        })
        .collect()
}

fn run(args: &[&str]) -> Output {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    fs::write(&kubeconfig, NOBODY).unwrap();
    Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(args)
        .env_clear()
        .env("KUBECONFIG", &kubeconfig)
        .output()
        .unwrap()
}

fn help(args: &[&str]) -> String {
    let output = run(&[args, &["--help"]].concat());
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that the help explains.
fn commands() -> BTreeSet<String> {
    crate::explained(&help(&[])).into_iter().collect()
}

#[test]
fn table_names_commands_that_exist_and_all_that_say_codes_of_their_own() {
    let (documented, commands) = (documented(), commands());
    assert!(documented.contains_key(OTHERS));
    for command in documented.keys().filter(|command| *command != OTHERS) {
        assert!(commands.contains(command), "{command} is no command");
    }
    for command in &commands {
        let help = help(&[command]);
        if help.contains("Exit codes:") || help.contains("Exits with") {
            assert!(
                documented.contains_key(command),
                "docs/ci.md lacks {command}"
            );
        }
    }
    // Pipelines rely on this code.
    let plan = help(&["plan"]);
    assert!(
        plan.contains("Exit codes: 0 no changes, 1 failed, 2 changes (or invalid usage)."),
        "{plan}"
    );
    assert!(documented["plan"][2].starts_with("Changes. Also an invalid command line; "));
}

#[test]
fn invalid_command_line_is_2_and_prints_no_data() {
    let documented = documented();
    for command in commands() {
        let meanings = documented
            .get(&command)
            .unwrap_or_else(|| &documented[OTHERS]);
        assert!(
            meanings[2].to_lowercase().contains("invalid command line"),
            "{command}"
        );
        let output = run(&[&command, "--no-such-flag"]);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{command}: {}",
            said(&output)
        );
        assert_eq!(output.stdout, b"", "{command}");
    }
    // Errors that the command finds, not clap.
    for line in [
        "link --source x",
        "link --target x --source x",
        "link --context x --target x --source y",
        "rotate --context x --source y --yes",
        "plan x --federated-service-selector a,,",
        "install --ignore-cluster --namespace linkerd",
    ] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(2), "{line}: {}", said(&output));
        assert_eq!(output.stdout, b"", "{line}");
    }
}

#[test]
fn cluster_that_does_not_respond_is_1() {
    let (documented, mut tried) = (documented(), BTreeSet::new());
    for line in READERS {
        let args: Vec<&str> = line.split(' ').collect();
        let output = run(&args);
        assert_eq!(output.status.code(), Some(1), "{line}: {}", said(&output));
        tried.insert(args[0].to_owned());
    }
    let missing: Vec<_> = documented
        .keys()
        .filter(|command| {
            !tried.contains(*command) && !["run-controller", OTHERS].contains(&command.as_str())
        })
        .collect();
    assert_eq!(missing, [""; 0], "documented, and not tried");
}

#[test]
fn commands_that_need_no_cluster_are_0() {
    for line in [
        "--version",
        "--help",
        "completions bash",
        "man",
        "install --print-values",
    ] {
        let output = run(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{line}: {}", said(&output));
        assert_ne!(output.stdout, b"", "{line}");
    }
}
