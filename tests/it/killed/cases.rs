//! The commands that are killed, and what is there before.

use std::{fs, path::PathBuf};

use super::Stage;

/// A command that is killed.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The commands that prepare the clusters.
    pub(super) before: fn(&Stage) -> Vec<Vec<String>>,
    pub(super) command: fn(&Stage) -> Vec<String>,
    /// The command when all is done: it writes nothing.
    pub(super) again: Option<fn(&Stage) -> Vec<String>>,
    /// Whether this is also the one that continues after a kill.
    pub(super) resumes: bool,
    /// The number of mirrors and federated Services in both clusters.
    pub(super) mirrors_before: usize,
    pub(super) mirrors_after: usize,
    /// How many of those before are still there.
    pub(super) mirrors_kept: usize,
}

pub(super) const CASES: [Case; 10] = [
    Case {
        name: "link",
        before: |_| vec![],
        command: |stage| link(stage, &[]),
        again: Some(|stage| link(stage, &[])),
        resumes: false,
        mirrors_before: 2,
        mirrors_after: 3,
        mirrors_kept: 2,
    },
    Case {
        name: "link, other settings",
        before: |stage| vec![link(stage, &[])],
        command: |stage| link(stage, &["--excluded-labels=secret"]),
        again: Some(|stage| link(stage, &["--excluded-labels=secret"])),
        resumes: false,
        mirrors_before: 3,
        mirrors_after: 3,
        mirrors_kept: 3,
    },
    Case {
        name: "link, both directions",
        before: |_| vec![],
        command: mutual,
        again: Some(mutual),
        resumes: false,
        mirrors_before: 2,
        mirrors_after: 4,
        mirrors_kept: 2,
    },
    Case {
        name: "unlink",
        before: |stage| vec![mutual(stage)],
        command: unlink,
        again: None,
        resumes: false,
        mirrors_before: 4,
        mirrors_after: 3,
        mirrors_kept: 3,
    },
    Case {
        name: "rotate",
        before: |stage| vec![mutual(stage), rotate(stage, &[])],
        command: |stage| rotate(stage, &[]),
        again: Some(|stage| rotate(stage, &["--older-than=1h"])),
        resumes: true,
        mirrors_before: 4,
        mirrors_after: 4,
        mirrors_kept: 4,
    },
    Case {
        name: "fleet apply",
        before: |_| vec![],
        command: |stage| apply(stage, "all", ""),
        again: Some(|stage| apply(stage, "all", "")),
        resumes: false,
        mirrors_before: 2,
        mirrors_after: 4,
        mirrors_kept: 2,
    },
    Case {
        name: "fleet apply, other settings",
        before: |stage| vec![apply(stage, "all", "")],
        command: |stage| apply(stage, "all", "{excludedLabels: [secret]}"),
        again: Some(|stage| apply(stage, "all", "{excludedLabels: [secret]}")),
        resumes: false,
        mirrors_before: 4,
        mirrors_after: 4,
        mirrors_kept: 4,
    },
    Case {
        name: "fleet apply, links of others",
        before: |stage| vec![mutual(stage)],
        command: |stage| apply(stage, "all", "{excludedLabels: [secret]}"),
        again: Some(|stage| apply(stage, "all", "{excludedLabels: [secret]}")),
        resumes: false,
        mirrors_before: 4,
        mirrors_after: 4,
        mirrors_kept: 4,
    },
    Case {
        name: "fleet apply, a new name",
        before: |stage| vec![apply(stage, "all", "")],
        command: |stage| apply(stage, "renamed", ""),
        again: Some(|stage| apply(stage, "renamed", "")),
        resumes: false,
        mirrors_before: 4,
        mirrors_after: 4,
        mirrors_kept: 3,
    },
    Case {
        name: "fleet apply, a link less",
        before: |stage| vec![apply(stage, "all", "")],
        command: |stage| apply(stage, "one", ""),
        again: Some(|stage| apply(stage, "one", "")),
        resumes: false,
        mirrors_before: 4,
        mirrors_after: 3,
        mirrors_kept: 3,
    },
];

fn words(args: &[&str]) -> Vec<String> {
    args.iter().map(|&arg| arg.to_owned()).collect()
}

fn link(stage: &Stage, more: &[&str]) -> Vec<String> {
    let [source, far] = stage.both();
    let mut args = words(&[
        "link",
        "--yes",
        "--source",
        source.name(),
        "--target",
        far.name(),
    ]);
    args.push(format!("--api-server-address={}", far.url()));
    args.extend(words(more));
    args
}

fn mutual(stage: &Stage) -> Vec<String> {
    let [source, _] = stage.both();
    let own = format!("--source-api-server-address={}", source.url());
    link(stage, &["--mutual", &own])
}

fn unlink(stage: &Stage) -> Vec<String> {
    let [source, far] = stage.both();
    words(&[
        "unlink",
        "--apply",
        "--yes",
        "--context",
        source.name(),
        "--cluster-name",
        far.name(),
    ])
}

fn rotate(stage: &Stage, more: &[&str]) -> Vec<String> {
    let [source, far] = stage.both();
    let mut args = words(&["rotate", far.name(), "--source", source.name()]);
    args.extend(words(&["--target", far.name()]));
    args.extend(words(more));
    args
}

/// `fleet apply` with one of the files: `all`, `renamed` or `one`.
fn apply(stage: &Stage, which: &str, settings: &str) -> Vec<String> {
    let file = file(stage, which, settings);
    let file = file.to_str().unwrap();
    words(&[
        "fleet",
        "apply",
        "--yes",
        "--prune",
        "--take-over",
        "--file",
        file,
    ])
}

fn file(stage: &Stage, which: &str, settings: &str) -> PathBuf {
    let [source, far] = stage.both();
    let new = if which == "renamed" {
        "new"
    } else {
        far.name()
    };
    let clusters = [(source.name(), source), (new, far)];
    let clusters = clusters.map(|(name, plane)| {
        let (context, url) = (plane.name(), plane.url());
        format!("- {{name: {name}, context: {context}, apiServerAddress: {url}}}\n")
    });
    let links = match which {
        "one" => format!("- {{target: {new}, source: {}}}\n", source.name()),
        _ if settings.is_empty() => "- {mesh: all}\n".to_owned(),
        _ => format!("- {{mesh: all, settings: {settings}}}\n"),
    };
    let text = format!(
        "name: k\nid: t\nclusters:\n{}links:\n{links}",
        clusters.concat()
    );
    let file = stage.folder.path().join("fleet.yaml");
    fs::write(&file, text).unwrap();
    file
}
