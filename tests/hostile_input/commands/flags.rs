//! Each flag of each command, with values that make no sense.

use std::time::Duration;

use clap::{Arg, ArgAction, Command, error::ErrorKind};
use futures::{StreamExt as _, stream};

use super::program::{Limits, Place, nothing};

/// Values of all kinds, most of which no flag can take.
fn values() -> [String; 16] {
    [
        "",
        " ",
        "-1",
        "0",
        "99999999999999999999",
        "NaN",
        "true",
        "a,,b",
        "=",
        "a=b=c",
        "../../x",
        "\n",
        "\u{1b}[2J",
        "é\u{202e}",
        "https://me:pw@host:0/?q#f",
        "LONG",
    ]
    .map(|text| match text {
        "LONG" => "x".repeat(5_000),
        text => text.to_owned(),
    })
}

/// Flags that take any text: names of contexts, users and files, what `--set` parses, and what Linkerd's commands accept
/// and this program ignores.
const FREE: [&str; 40] = [
    "as_groups",
    "as_user",
    "clusterprofile_provider_file",
    "context",
    "directory",
    "file",
    "from_existing",
    "from_file",
    "kubeconfig",
    "link_file",
    "output_dir",
    "set",
    "set_file",
    "set_string",
    "source",
    "target",
    "values",
    "anchor",
    "anchor_key",
    "trust anchor name",
    "trust issuer name",
    "check namespace",
    "fleet apply only",
    "fleet plan only",
    "gateways output",
    "plan excluded_annotations",
    "plan excluded_labels",
    "rotate only",
    "run-controller excluded_annotations",
    "run-controller excluded_labels",
    "run-controller endpoint_refresh_period",
    "run-controller enable_pprof",
    "run-controller event_requeue_limit",
    "run-controller identity",
    "run-controller link",
    "run-controller local_mirror",
    "run-controller metrics_addr",
    "run-controller probe_address",
    "run-controller probe_service",
    "verify junit",
];

/// All commands with their flags that take a value, global flags included.
fn commands() -> Vec<(String, Vec<Arg>)> {
    let mut root = linkerd_mc::cli::command();
    root.build();
    let mut commands = Vec::new();
    let mut waiting: Vec<_> = root
        .get_subcommands()
        .map(|command| (String::new(), command))
        .collect();
    while let Some((parent, command)) = waiting.pop() {
        // Nobody types a hidden command.
        if command.get_name() == "help" || command.is_hide_set() {
            continue;
        }
        let name = format!("{parent}{}", command.get_name());
        let inner = command
            .get_subcommands()
            .map(|inner| (format!("{name} "), inner));
        waiting.extend(inner);
        if command.has_subcommands() {
            continue; // it has only the flags that all commands have
        }
        let args = command.get_arguments();
        let args =
            args.filter(|arg| matches!(arg.get_action(), ArgAction::Set | ArgAction::Append));
        commands.push((name, args.cloned().collect()));
    }
    commands
}

/// The command line with this value.
fn line(command: &str, arg: &Arg, value: &str) -> Vec<String> {
    let mut line: Vec<String> = command.split(' ').map(str::to_owned).collect();
    match arg.get_long() {
        Some(long) => line.push(format!("--{long}={value}")),
        None => line.extend(["--".to_owned(), value.to_owned()]),
    }
    line
}

/// Whether clap accepts the value, whatever else is wrong with the command line. `Err` if it refuses the value in another
/// way than is documented.
fn is_taken(parser: &mut Command, line: &[String]) -> Result<bool, String> {
    let program = std::iter::once("linkerd-mc".to_owned());
    let parsed = parser.try_get_matches_from_mut(program.chain(line.iter().cloned()));
    let Err(error) = parsed else {
        return Ok(true);
    };
    match error.kind() {
        ErrorKind::MissingRequiredArgument | ErrorKind::ArgumentConflict => Ok(true),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::NoEquals => {
            let text = error.to_string();
            let shown = anstream::adapter::strip_str(&text).to_string();
            let is_plain = !shown.chars().any(|c| c.is_control() && c != '\n');
            if error.exit_code() == 2 && text.starts_with("error: ") && is_plain {
                Ok(false)
            } else {
                Err(format!("exit code {}: {text:?}", error.exit_code()))
            }
        }
        kind => Err(format!("{kind:?}: {error}")),
    }
}

/// Whether only a flag that takes any text may accept a value.
fn is_odd(value: &str) -> bool {
    value.chars().any(|c| c.is_control() && c != '\n') || value.contains(['\u{202e}', '@'])
}

#[test]
fn flags_refuse_bad_values_unless_they_take_any_text() {
    let parser = &mut linkerd_mc::cli::command();
    let (mut wrong, mut unused) = (Vec::new(), FREE.to_vec());
    for (name, args) in commands() {
        for arg in args {
            let whole = format!("{name} {}", arg.get_id());
            let is_free = |free: &&str| *free == arg.get_id().as_str() || *free == whole;
            for value in values() {
                match is_taken(parser, &line(&name, &arg, &value)) {
                    Ok(true) if is_odd(&value) => {
                        unused.retain(|free| !is_free(free));
                        if !FREE.iter().any(&is_free) {
                            wrong.push(format!("{whole} takes {value:?}"));
                        }
                    }
                    Ok(_) => {}
                    Err(why) => wrong.push(format!("{whole}: {why}")),
                }
            }
        }
    }
    nothing(&wrong);
    assert_eq!(
        unused, [""; 0],
        "these refuse bad values, and need no exception"
    );
}

/// Arguments that a command needs besides the flag, or that keep it from waiting.
const NEEDED: [(&str, &str); 20] = [
    ("allow", "--service-account-name=x"),
    ("check", "--wait=0s --timeout=5s"),
    ("completions", "bash"),
    ("diagnose", "default/x"),
    ("drain", "x"),
    ("fleet apply", "--file=../fleet.yaml"),
    ("fleet credentials", "--file=../fleet.yaml --target=x"),
    ("fleet import", "--all-contexts --request-timeout=1s"),
    ("fleet plan", "--file=../fleet.yaml"),
    (
        "fleet render",
        "--file=../fleet.yaml --output-dir=missing --dry-run",
    ),
    ("install", "--ignore-cluster"),
    ("link", "--target=x --source=y"),
    ("link-gen", "--cluster-name=x"),
    ("plan", "x"),
    ("rotate", "x"),
    ("traffic", "--interval=1s"),
    ("trust anchor", "x"),
    ("trust issuer", "x --trust-domain=x.example"),
    ("unlink", "--cluster-name=x"),
    ("verify", "--target=x --source=y --timeout=30s"),
];
/// Commands whose flags are not tried on a running program: the controller and the page never end, and `man` and `trust`
/// write files.
const LEFT_OUT: [&str; 5] = [
    "dashboard",
    "man",
    "run-controller",
    "trust anchor",
    "trust issuer",
];

/// The command lines with a flag that are run: all values that clap accepts, and one that it refuses, because refusals end
/// before the command begins. Of a global flag, each command tries one accepted value, and the next command tries another
/// one. `turn` counts the command lines so far.
fn tried(parser: &mut Command, command: &str, arg: &Arg, turn: usize) -> Vec<Vec<String>> {
    let given = arg.get_long().map(|long| format!("--{long}="));
    let is_tried = |needed: &&str| match &given {
        Some(given) => needed.starts_with(given),
        None => !needed.starts_with('-'),
    };
    let needed: Vec<&str> = needed(command).filter(|needed| !is_tried(needed)).collect();
    let command = [&[command], &needed[..]].concat().join(" ");
    let lines = values().map(|value| line(&command, arg, &value));
    let (mut tried, refused): (Vec<_>, Vec<_>) = lines
        .into_iter()
        .partition(|line| is_taken(parser, line) == Ok(true));
    if arg.is_global_set() {
        tried = tried.into_iter().cycle().nth(turn).into_iter().collect();
    }
    tried.extend(refused.into_iter().cycle().nth(turn));
    tried
}

/// What a command needs, one argument each.
fn needed(command: &str) -> impl Iterator<Item = &'static str> + use<> {
    let found = NEEDED.iter().find(|(name, _)| *name == command);
    found
        .into_iter()
        .flat_map(|(_, args)| args.split_whitespace())
}

/// The commands whose flags are tried on a running program.
fn started() -> impl Iterator<Item = (String, Vec<Arg>)> {
    let commands = commands().into_iter();
    commands.filter(|(name, _)| !LEFT_OUT.contains(&name.as_str()))
}

#[test]
fn commands_run_with_what_they_need() {
    let mut parser = linkerd_mc::cli::command();
    for (name, _) in started() {
        let needed: Vec<&str> = needed(&name).collect();
        let line = [
            &["linkerd-mc"],
            &name.split(' ').collect::<Vec<_>>()[..],
            &needed,
        ]
        .concat();
        if let Err(error) = parser.try_get_matches_from_mut(&line) {
            panic!("{line:?}: {error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: just test-all"]
async fn commands_with_bad_values_end_as_documented() {
    let parser = &mut linkerd_mc::cli::command();
    let mut lines = Vec::new();
    for (name, args) in started() {
        for arg in args {
            // The report is written to any path, whatever the result is.
            if format!("{name} {}", arg.get_id()) != "verify junit" {
                lines.extend(tried(parser, &name, &arg, lines.len()));
            }
        }
    }
    println!("{} command lines", lines.len());
    let place = &Place::with(NOBODY);
    place.write("fleet.yaml", FLEET);
    let limits = &Limits {
        codes: &[0, 1, 2],
        ends_within: Duration::from_secs(20),
    };
    let runs = stream::iter(&lines).map(async |line| place.run(line, limits).await);
    nothing(&runs.buffer_unordered(8).concat().await);
}

/// A fleet of the clusters in [`NOBODY`].
const FLEET: &str = "\
name: fleet
clusters: [{name: x}, {name: y}]
links: [{mesh: all}]
";
/// A kubeconfig of API servers that are not there: nobody listens on this port, so each request is refused at once.
const NOBODY: &str = "\
apiVersion: v1
kind: Config
current-context: x
clusters: [{name: x, cluster: {server: 'http://127.0.0.1:1'}}]
contexts: [{name: x, context: {cluster: x, user: x}}, {name: y, context: {cluster: x, user: x}}]
users: [{name: x, user: {}}]
";
