//! The list of commands in the help, in groups, and the global flags that mean nothing to a command.

use anstyle::{Effects, Style};
use clap::{Arg, Command};
use hints::prose::wrapped;

/// The commands of a first look, in groups. The help lists the others by name below them.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Set up", &["install", "link", "unlink", "fleet"]),
    (
        "Look",
        &[
            "status",
            "dashboard",
            "check",
            "diagnose",
            "traffic",
            "plan",
            "gather",
        ],
    ),
    ("Maintain", &["rotate", "drain"]),
];
/// Width of the list of names, so that it fits a terminal of 80 columns.
const NAMES_WIDTH: usize = 76;

/// The global flags that are about clusters and requests to them.
const ALL: &[&str] = &[
    "kubeconfig",
    "context",
    "as_user",
    "as_groups",
    "api_addr",
    "linkerd_namespace",
    "verbose",
];
/// Commands, with the global flags that they ignore or refuse. Help does not show them.
const IDLE: [(&str, &[&str]); 9] = [
    ("completions", ALL),
    ("drain", &["linkerd_namespace"]),
    ("fleet", &["api_addr", "context"]),
    ("hand-back", &["linkerd_namespace"]),
    ("link", &["api_addr", "context"]),
    ("man", ALL),
    ("rotate", &["api_addr"]),
    (
        "trust",
        &[
            "kubeconfig",
            "context",
            "as_user",
            "as_groups",
            "api_addr",
            "verbose",
        ],
    ),
    ("verify", &["api_addr", "context"]),
];

/// Hides global flags in the help of commands to which they mean nothing. They are still accepted there.
pub fn without_idle_flags(mut command: Command) -> Command {
    let global: Vec<Arg> = command
        .get_arguments()
        .filter(|arg| arg.is_global_set())
        .cloned()
        .collect();
    for (name, idle) in IDLE {
        let hidden = global
            .iter()
            .filter(|arg| idle.contains(&arg.get_id().as_str()));
        let hidden: Vec<Arg> = hidden.map(|arg| arg.clone().hide(true)).collect();
        command = command.mut_subcommand(name, |sub| sub.args(hidden));
    }
    with_contexts_of_import(command, &global)
}

/// Shows `--context` in the help of `fleet import`, the only command of `fleet` that takes it.
fn with_contexts_of_import(command: Command, global: &[Arg]) -> Command {
    let contexts = global
        .iter()
        .filter(|arg| arg.get_id() == "context")
        .map(|arg| {
            arg.clone()
                .value_name("NAMES")
                .help("Contexts of the clusters, comma-separated; `*` stands for any text")
                .help_heading(None::<&str>)
        });
    let contexts: Vec<Arg> = contexts.collect();
    command.mut_subcommand("fleet", |fleet| {
        fleet.mut_subcommand("import", |import| import.args(contexts))
    })
}

/// Lists the commands: those of a first look in groups, with what they do, and the names of the others. `--help` says of
/// these too what they do, after the flags.
pub fn grouped(command: Command) -> Command {
    let (header, literal) = (
        Style::new().effects(Effects::BOLD | Effects::UNDERLINE),
        Style::new().bold(),
    );
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let shown: Vec<(&str, String)> = shown
        .map(|sub| {
            let about = sub.get_about().map(ToString::to_string);
            (sub.get_name(), about.unwrap_or_default())
        })
        .collect();
    let width = shown.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, about): &(&str, String)| {
        let gap = " ".repeat(width - name.len() + 2);
        format!("  {literal}{name}{literal:#}{gap}{about}\n")
    };
    let groups = GROUPS.iter().map(|(title, names)| {
        let own = names
            .iter()
            .filter_map(|name| shown.iter().find(|(known, _)| known == name));
        let lines: String = own.map(line).collect();
        format!("{header}{title}:{header:#}\n{lines}\n")
    });
    let groups: String = groups.collect();
    let is_grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let mut others: Vec<_> = shown.iter().filter(|(name, _)| !is_grouped(name)).collect();
    others.sort_unstable();
    let names: Vec<&str> = others.iter().map(|(name, _)| *name).collect();
    let names = wrapped(&format!("  {}", names.join(", ")), Some(NAMES_WIDTH), 0);
    let described: String = others.into_iter().map(line).collect();
    let template = format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\
         {header}More commands:{header:#}\n{names}\n\n{header}Global options:{header:#}\n\
         {{options}}{{after-help}}"
    );
    let more = format!("{header}What the other commands do:{header:#}\n{described}");
    command
        .help_template(template)
        .after_help("After the name of a command, --help shows examples.")
        .after_long_help(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_explains_some_commands_and_then_the_others() {
        let mut command = crate::cli::command();
        let help = command.render_long_help().to_string();
        let groups: Vec<&str> = help
            .lines()
            .filter(|line| line.ends_with(':') && !line.starts_with(' '))
            .collect();
        let titles = [
            "Set up:",
            "Look:",
            "Maintain:",
            "More commands:",
            "Global options:",
            "What the other commands do:",
        ];
        assert_eq!(groups, titles);
        let first = GROUPS.iter().flat_map(|(_, names)| *names).count();
        assert_eq!(first, 13);
        for sub in crate::cli::command().get_subcommands() {
            let name = format!("  {} ", sub.get_name());
            let listed = help.lines().filter(|line| line.starts_with(&name)).count();
            assert_eq!(listed, usize::from(!sub.is_hide_set()), "{name}");
        }
        for name in GROUPS.iter().flat_map(|(_, names)| *names) {
            let known = crate::cli::command().find_subcommand(name).is_some();
            assert!(known, "{name}");
        }
        assert!(!help.contains('\x1b'), "{help}");
        assert!(help.contains("--context <NAME>"), "{help}");
    }

    #[test]
    fn help_of_fleet_import_has_the_contexts() {
        let mut all = crate::cli::command();
        all.build();
        for (name, is_shown) in [("import", true), ("plan", false)] {
            let fleet = all.find_subcommand("fleet").unwrap();
            let mut sub = fleet.find_subcommand(name).unwrap().clone();
            let help = sub.render_long_help().to_string();
            assert_eq!(help.contains("--context <NAMES>"), is_shown, "{help}");
        }
    }

    #[test]
    fn help_of_a_command_has_no_flags_that_mean_nothing_there() {
        let all = crate::cli::command();
        for (name, idle) in IDLE {
            let mut whole = all.clone();
            whole.build();
            let sub = whole.find_subcommand(name).unwrap();
            for flag in idle {
                let mut known = sub.get_arguments();
                let arg = known.find(|arg| arg.get_id() == *flag).unwrap();
                assert!(arg.is_hide_set() && arg.is_global_set(), "{name} {flag}");
            }
        }
        // They are still accepted, as scripts pass them to all commands.
        let line = ["linkerd-mc", "drain", "-L", "mesh", "east"];
        let matches = crate::cli::command().try_get_matches_from(line).unwrap();
        let namespace = matches.get_one::<String>("linkerd_namespace");
        assert_eq!(namespace.map(String::as_str), Some("mesh"));
    }
}
