//! The name under which users call the program. Usage, examples and hints show that name.
//!
//! kubectl runs `kubectl-linkerd_mc` for `kubectl linkerd-mc`; then that is what people type. All other names, such as
//! `linkerd-multicluster`, are typed as they are, and clap takes them for usage lines by itself.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    path::Path,
};

use clap::Command;

/// The program's own name, which examples and hints have.
const OWN: &str = "linkerd-mc";
/// The executable that kubectl looks for, and how people call it.
const EXECUTABLE: &str = "kubectl-linkerd_mc";
const TYPED: &str = "kubectl linkerd-mc";

/// Whether a program was called as a plugin of kubectl.
fn is_plugin(program: Option<&OsString>) -> bool {
    program.map(Path::new).and_then(Path::file_stem) == Some(OsStr::new(EXECUTABLE))
}

/// The command for these arguments, of which the first is the program: a plugin has its name in the usage lines and
/// examples of all subcommands.
pub fn named(command: Command, args: &[OsString]) -> Command {
    if is_plugin(args.first()) {
        examples(command.bin_name(TYPED))
    } else {
        command
    }
}

/// A hint with its commands as people type them for this process.
pub fn as_typed(hint: &str) -> Cow<'_, str> {
    if is_plugin(std::env::args_os().next().as_ref()) {
        typed(hint).into()
    } else {
        hint.into()
    }
}

fn examples(command: Command) -> Command {
    let help = command.get_after_long_help().map(ToString::to_string);
    let command = match help {
        Some(help) => command.after_long_help(typed(&help)),
        None => command,
    };
    command.mut_subcommands(examples)
}

/// A text with `kubectl linkerd-mc` in place of `linkerd-mc`, wherever a command begins, such as at the start of a
/// line, in backticks, or after a pipe.
fn typed(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(OWN) {
        let (before, found) = rest.split_at(at);
        let after = &found[OWN.len()..];
        result.push_str(before);
        let begins = before.is_empty() && result.is_empty()
            || before.ends_with(['`', '(', '\n'])
            || before.ends_with("  ")
            || before.ends_with("| ")
            || before.ends_with("do ");
        result.push_str(if begins && after.starts_with(' ') {
            TYPED
        } else {
            OWN
        });
        rest = after;
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn only_the_executable_of_the_plugin_has_its_name() {
        for (program, expected) in [
            ("/usr/bin/kubectl-linkerd_mc", true),
            ("kubectl-linkerd_mc", true),
            ("kubectl-linkerd_mc.exe", true),
            ("linkerd-mc", false),
            ("linkerd-multicluster", false),
            ("/kubectl-linkerd_mc/linkerd-mc", false),
        ] {
            assert_eq!(is_plugin(Some(&program.into())), expected, "{program}");
        }
        assert!(!is_plugin(None));
    }

    #[test]
    fn commands_get_the_name_and_other_words_keep_theirs() {
        for (text, expected) in [
            ("linkerd-mc check", "kubectl linkerd-mc check"),
            (
                "see `linkerd-mc check`; also `linkerd-mc --context a status`",
                "see `kubectl linkerd-mc check`; also `kubectl linkerd-mc --context a status`",
            ),
            (
                "  linkerd-mc a \\\n    | linkerd-mc b\n  source <(linkerd-mc c)",
                "  kubectl linkerd-mc a \\\n    | kubectl linkerd-mc b\n  source <(kubectl linkerd-mc c)",
            ),
            ("kubectl linkerd-mc check", "kubectl linkerd-mc check"),
            (
                "> ~/x/linkerd-mc.fish, _linkerd-mc",
                "> ~/x/linkerd-mc.fish, _linkerd-mc",
            ),
        ] {
            assert_eq!(typed(text), expected);
        }
    }

    #[test]
    fn every_usage_line_and_example_has_the_name_of_the_plugin() {
        let mut root = named(crate::cli::Cli::command(), &[EXECUTABLE.into()]);
        root.build();
        let mut waiting: Vec<&mut Command> = root.get_subcommands_mut().collect();
        let mut seen = 0;
        while let Some(command) = waiting.pop() {
            let name = command.get_name().to_owned();
            let usage = command.render_usage().to_string();
            assert!(usage.starts_with("Usage: kubectl linkerd-mc "), "{usage}");
            let help = command.get_after_long_help().map(ToString::to_string);
            for line in help.iter().flat_map(|help| help.lines()) {
                let command = line.trim_start();
                let bare = command.starts_with("linkerd-mc ") || command.contains("| linkerd-mc ");
                assert!(!bare, "{name}: {line}");
                seen += usize::from(command.contains(TYPED));
            }
            waiting.extend(command.get_subcommands_mut());
        }
        assert!(seen > 30, "only {seen} examples found");
    }
}
