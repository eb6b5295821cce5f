//! No command shows a text of an API server in a way that changes the terminal, or that forges a line of its own output.

use std::path::{Path, PathBuf};

use control_plane::{ControlPlane, Verdict};
use linkerd_mc::api::text::visible;
use serde_json::Value;

use crate::support::{
    controller::Controller,
    faults::refusal,
    links::{condition_is, mirror_is, own_link},
    objects::{export, member, namespace, service, web},
    planes::alone,
    program::run,
};

const NS: &str = "lies";
/// What hostile texts end with: it hides text, clears the screen, writes the clipboard, and begins a line.
const POISON: &str =
    "\u{1b}[8m\u{1b}[2J\u{9b}1m\u{1b}]52;c;eA==\u{7}\u{202e}\r\nFORGED: all is well\n";

/// All commands that show what API servers say, with each of their formats for people.
const COMMANDS: [&str; 29] = [
    "allow --service-account-name x",
    "attack",
    "check --wait 0s",
    "check --wait 0s -o short",
    "check --wait 0s --all-contexts",
    "diagnose",
    "diagnose lies/web-lies",
    "diagnose lies/web-federated",
    "drain lies --dry-run",
    "gateways",
    "hand-back --dry-run",
    "install",
    "link --target far --source source --cluster-name lies --dry-run",
    "plan",
    "plan lies",
    "rotate lies --dry-run",
    "status",
    "status --all-contexts",
    "status --all-contexts -o tree",
    "status --all-contexts -o mermaid",
    "status --all-contexts -o dot",
    "status -o wide --services",
    "status -o yaml --services",
    "take-over --dry-run",
    "traffic lies/web-federated",
    "uninstall",
    "unlink lies",
    "unlink lies --apply --dry-run",
    "version --all-contexts",
];

/// Poisons the texts in an answer for whose path, such as `["metadata", "name"]`, this holds.
fn poison(value: &mut Value, path: &mut Vec<String>, is_chosen: fn(&[String]) -> bool) {
    match value {
        Value::Object(entries) => {
            for (key, value) in entries {
                path.push(key.clone());
                poison(value, path, is_chosen);
                path.pop();
            }
        }
        Value::Array(values) => {
            for value in values {
                poison(value, path, is_chosen);
            }
        }
        Value::String(text) if is_chosen(path) => text.push_str(POISON),
        _ => {}
    }
}

type Change = fn(&mut Value);

/// What is poisoned at once. More would hide what depends on it: an object without its name is not looked for.
const POISONED: [(&str, Change); 7] = [
    ("names", |answer| {
        poison(answer, &mut Vec::new(), |path| {
            path.ends_with(&["metadata".to_owned(), "name".to_owned()])
        });
    }),
    ("namespaces", |answer| {
        poison(answer, &mut Vec::new(), |path| {
            path.ends_with(&["metadata".to_owned(), "namespace".to_owned()])
        });
    }),
    ("names of clusters, ports and others", |answer| {
        poison(answer, &mut Vec::new(), |path| {
            let last = path.last().map(String::as_str);
            let named = ["name", "targetClusterName", "clusterName", "gatewayAddress"];
            last.is_some_and(|last| named.contains(&last)) && path.iter().any(|key| key == "spec")
        });
    }),
    ("labels", |answer| {
        poison(answer, &mut Vec::new(), |path| {
            path.iter().any(|key| key == "labels")
        });
    }),
    ("annotations", |answer| {
        poison(answer, &mut Vec::new(), |path| {
            path.iter().any(|key| key == "annotations")
        });
    }),
    ("messages", |answer| {
        poison(answer, &mut Vec::new(), |path| {
            let last = path.last().map(String::as_str);
            last.is_some_and(|last| ["message", "reason", "gitVersion"].contains(&last))
        });
    }),
    ("statuses", |answer| {
        poison(answer, &mut Vec::new(), |path| {
            let last = path.last().map(String::as_str).unwrap_or_default();
            let is_time = last.ends_with("Time") || last.ends_with("At");
            path.iter().any(|key| key == "status") && !is_time
        });
    }),
];

/// A kubeconfig that leads through a proxy which poisons answers.
fn through(plane: &ControlPlane, change: Change) -> (PathBuf, control_plane::Interceptor) {
    let (user, groups) = ("admin", ["system:masters"]);
    let proxy = plane.intercept(Some((user, &groups))).unwrap();
    proxy.judge(move |asked| {
        let is_dry = asked
            .uri
            .query()
            .is_some_and(|query| query.contains("dryRun"));
        if asked.is_write() && !is_dry {
            return refusal(403, "Forbidden");
        }
        Verdict::Rewrite(change)
    });
    let path = plane.kubeconfig_through(&proxy.url(), user, &groups);
    (path.unwrap(), proxy)
}

/// What is wrong with what a command shows.
fn wrong(text: &str) -> Option<String> {
    let shown = visible(text);
    if shown != text || text.contains(POISON) {
        return Some(format!("control characters: {text:?}"));
    }
    let plain = text.replace("\u{1b}[", "");
    let mut lines = plain.lines().map(str::trim_start);
    let forged = lines.find(|line| line.starts_with("FORGED"))?;
    Some(format!("forged: {forged:?} in {text}"))
}

fn show(kubeconfig: &Path, what: &str, command: &str) -> Vec<String> {
    let args: Vec<&str> = command.split(' ').chain(["--color=always"]).collect();
    let outcome = run(kubeconfig, &args);
    let told = [outcome.stdout, outcome.stderr];
    assert!(told.iter().any(|text| !text.is_empty()), "{command}");
    assert!(!told[1].contains("panicked"), "{command}: {}", told[1]);
    let wrong = told.iter().filter_map(|text| wrong(text));
    wrong
        .map(|wrong| format!("{command}, {what}: {wrong}"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: just test-all"]
async fn no_command_shows_a_text_of_an_api_server_as_its_own() {
    let pair = alone().await;
    let (source, far) = (&pair.source, &pair.far);
    namespace(NS, &[source, far]).await;
    namespace("lies-elsewhere", &[far]).await;
    own_link(source, far, NS, &[]).await;
    let _controller = Controller::start(source, &[]);
    export(far, NS, &member("web", NS, NS)).await;
    export(far, NS, &web("other", NS)).await;
    export(far, "lies-elsewhere", &web("web", NS)).await;
    service(source, NS, "other-lies", |_| true).await;
    mirror_is(source, NS, "lies-elsewhere", "web", "MissingNamespace").await;
    condition_is(source, NS, "Ready", "True", "Mirroring").await;

    let kubeconfigs = POISONED.map(|(what, change)| {
        let (near, far) = (through(source, change), through(far, change));
        let paths = std::env::join_paths([&near.0, &far.0]).unwrap();
        (what, PathBuf::from(paths), near.1, far.1)
    });
    let found: Vec<String> = std::thread::scope(|scope| {
        // Most of a run is waiting.
        let runs = kubeconfigs.iter().flat_map(|(what, kubeconfig, ..)| {
            let halves = COMMANDS.chunks(COMMANDS.len() / 2);
            halves.map(move |commands| {
                scope.spawn(move || {
                    let shown = commands
                        .iter()
                        .map(|command| show(kubeconfig, what, command));
                    shown.flatten().collect::<Vec<_>>()
                })
            })
        });
        let runs: Vec<_> = runs.collect();
        runs.into_iter()
            .flat_map(|run| run.join().unwrap())
            .collect()
    });
    assert!(
        found.is_empty(),
        "{} of them:\n{}",
        found.len(),
        found.join("\n")
    );
}
