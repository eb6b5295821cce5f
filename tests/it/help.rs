//! Help: what it says, and that its examples are good usage.

use std::path::Path;

use assert_cmd::Command;

use crate::program::run;

fn help(command: &str) -> String {
    let args: Vec<&str> = command.split(' ').filter(|word| !word.is_empty()).collect();
    let output = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"))
        .args(args)
        .arg("--help")
        .env("COLUMNS", "100")
        .env_remove("LINKERD_DOCKER_REGISTRY")
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_commands_of_manifests_say_what_they_do() {
    for command in [
        "install",
        "link-gen",
        "allow",
        "revoke",
        "unlink",
        "uninstall",
        "completions",
        "man",
    ] {
        insta::assert_snapshot!(command, help(command));
    }
}

/// Each example runs up to the point where it would need a cluster: none is wrong usage, which ends with 2.
#[test]
fn every_command_has_examples_and_they_are_good_usage() {
    let commands: Vec<String> = help("")
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect();
    assert!(commands.len() >= 8, "{commands:?}");
    for command in commands {
        let help = help(&command);
        let (_, examples) = help
            .split_once("Examples:\n")
            .unwrap_or_else(|| panic!("{command} has no examples"));
        let mut count = 0;
        for line in examples.lines() {
            assert!(line.len() <= 80, "wrapped on a small terminal: {line}");
        }
        for line in examples.replace("\\\n", " ").lines() {
            let line = line.trim().replace("source <(", "").replace(')', "");
            let Some(args) = line.strip_prefix("linkerd-mc ") else {
                continue;
            };
            let args = args.split(['|', '>', '&']).next().unwrap_or_default();
            let mut args: Vec<&str> = args.split_whitespace().collect();
            // What writes to this machine or runs for ever is only parsed.
            if ["--directory", "run-controller"]
                .iter()
                .any(|arg| args.contains(arg))
            {
                args.push("--help");
            }
            let outcome = run(Path::new("/nonexistent"), &args);
            assert_ne!(outcome.code, 2, "{line}: {}", outcome.stderr);
            count += 1;
        }
        assert!(count > 0, "{command} has no examples");
    }
}
