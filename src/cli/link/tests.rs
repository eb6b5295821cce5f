//! Tests of which command lines `link` refuses, and of when a Link is ready.

use clap::Parser as _;
use client::Access;
use hints::hint::is_misuse;

use super::*;
use crate::cli::{Cli, Command};

#[test]
fn link_is_ready_when_it_uses_the_credentials_that_were_applied() {
    let live = |observed: i64, ready: &str, message: &str, credentials: Option<&str>| {
        let condition = |type_: &str, status: &str, reason: &str| {
            serde_json::json!({
                "type": type_, "status": status, "reason": reason, "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            })
        };
        let conditions = [
            condition("Ready", ready, "Why"),
            condition("CredentialsValid", "True", "Valid"),
        ];
        serde_json::from_value::<link::Link>(serde_json::json!({
            "apiVersion": "multicluster.linkerd.io/v1alpha3",
            "kind": "Link",
            "metadata": { "name": "east", "generation": 2 },
            "spec": { "targetClusterName": "east" },
            "status": {
                "observedGeneration": observed, "conditions": conditions,
                "credentialsFingerprint": credentials,
            },
        }))
        .unwrap()
    };
    let waits = |why: &str| Err(Some(why.to_owned()));
    for (live, expected) in [
        (live(2, "True", "", Some("new")), Ok(())),
        (
            live(2, "True", "", Some("old")),
            waits("the new credentials are not in use"),
        ),
        (
            live(2, "True", "timed out", Some("old")),
            waits("the new credentials are not in use: timed out"),
        ),
        (
            live(2, "True", "", None),
            waits("the new credentials are not in use"),
        ),
        (live(2, "False", "", Some("new")), waits("Why")),
        (
            live(2, "False", "refused", Some("old")),
            waits("Why: refused"),
        ),
        (live(1, "True", "", Some("new")), Err(None)),
    ] {
        assert_eq!(is_ready(&live, "new"), expected);
    }
}

#[test]
fn command_lines_without_both_contexts_are_misuse() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, "contexts: [{name: a}, {name: b}]").unwrap();
    for line in ["--source b", "--target a", "", "--target a --source a"] {
        let args = ["linkerd-mc", "link"].into_iter();
        let args = args.chain(line.split_whitespace());
        let cli = Cli::try_parse_from(args).unwrap();
        let Command::Link(args) = &cli.command else {
            panic!("not the link command");
        };
        let access = Access {
            kubeconfig: Some(kubeconfig.clone()),
            ..Access::default()
        };
        let error = contexts::contexts(&access, args, false).unwrap_err();
        assert!(is_misuse(&error), "{line}: {error:#}");
    }
    for line in [
        "link --context a --target a --source b",
        "--context a link --target a --source b",
        "rotate --context a --source b --yes",
        "link --target a --source b --api-addr 192.0.2.1:6443",
        "rotate --source b --yes --api-addr 192.0.2.1:6443",
        "link --target a --source b --gateway=false --gateway-addresses 192.0.2.1",
        "link --target a --source b --gateway=false --gateway-port 4143",
        "link --target a --source b --gateway=false --selector a=b",
        "link-gen --cluster-name a --gateway=false --gateway-networks 192.0.2.0/24",
    ] {
        let args = std::iter::once("linkerd-mc").chain(line.split(' '));
        let cli = Cli::try_parse_from(args).unwrap();
        let error = crate::cli::run(&cli, &clap::ArgMatches::default()).unwrap_err();
        assert!(is_misuse(&error), "{line}: {error:#}");
    }
}

#[test]
fn names_of_flags_that_linkerd_has_are_accepted_and_hidden() {
    for (old, new) in [(
        "link-gen --cluster-name a --exclude-labels b --exclude-annotations c",
        "link-gen --cluster-name a --excluded-labels b --excluded-annotations c",
    )] {
        let parsed = |line: &str| {
            let line = std::iter::once("linkerd-mc").chain(line.split(' '));
            format!("{:?}", Cli::try_parse_from(line).unwrap().command)
        };
        assert_eq!(parsed(old), parsed(new), "{old}");
        let mut all = crate::cli::command();
        all.build();
        let (command, flags) = old.split_once(' ').unwrap();
        let help = all
            .find_subcommand(command)
            .unwrap()
            .clone()
            .render_long_help();
        let help = help.to_string();
        let old = flags.split(' ').filter(|word| word.starts_with("--"));
        for flag in old.filter(|flag| !new.contains(*flag)) {
            assert!(!help.contains(&format!("{flag} <")), "{command} {flag}");
        }
    }
}

#[test]
fn flags_of_the_other_direction_need_mutual() {
    let parses = |line: &str| {
        let line = std::iter::once("linkerd-mc").chain(line.split(' '));
        Cli::try_parse_from(line).is_ok()
    };
    let both = "link --target a --source b --source-cluster-name c --source-api-server-address d";
    assert!(!parses(both));
    assert!(parses(&format!("{both} --api-server-address e --mutual")));
    assert!(!parses("link --target a --source b -o yaml"));
    assert!(parses("link --target a --source b --dry-run -o yaml"));
}
