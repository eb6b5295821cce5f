//! The commands that are killed, and what is there before.

use std::{fs, path::PathBuf};

use super::Stage;

/// A command that is killed.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// The commands that prepare the clusters.
    pub(super) before: fn(&Stage) -> Vec<Vec<String>>,
    pub(super) command: fn(&Stage) -> Vec<String>,
    pub(super) again: Again,
    pub(super) mirrors: MirrorCounts,
}

/// The command that writes nothing when all is done.
pub(super) enum Again {
    /// It is the same one.
    Same,
    /// It is this one, which also continues after a kill.
    Resumed(fn(&Stage) -> Vec<String>),
    /// There is none: it says that there is nothing to do.
    Never,
}

/// The number of mirrors and federated Services in both clusters.
pub(super) struct MirrorCounts {
    pub(super) before: usize,
    pub(super) after: usize,
    /// How many of those before are still there.
    pub(super) kept: usize,
}

impl Case {
    /// A command that can be run again as it is.
    const fn new(
        name: &'static str,
        before: fn(&Stage) -> Vec<Vec<String>>,
        command: fn(&Stage) -> Vec<String>,
        [before_it, after, kept]: [usize; 3],
    ) -> Self {
        Self {
            name,
            before,
            command,
            again: Again::Same,
            mirrors: MirrorCounts {
                before: before_it,
                after,
                kept,
            },
        }
    }

    const fn again(self, again: Again) -> Self {
        Self { again, ..self }
    }

    /// The command that writes nothing when all is done, if there is one.
    pub(super) fn idle(&self, stage: &Stage) -> Option<Vec<String>> {
        match self.again {
            Again::Same => Some((self.command)(stage)),
            Again::Resumed(again) => Some(again(stage)),
            Again::Never => None,
        }
    }

    /// The command that continues after a kill.
    pub(super) fn resume(&self, stage: &Stage) -> Vec<String> {
        match self.again {
            Again::Resumed(again) => again(stage),
            Again::Same | Again::Never => (self.command)(stage),
        }
    }
}

/// Each with the mirrors before, after, and those of before that are kept.
pub(super) const CASES: [Case; 10] = [
    Case::new("link", |_| vec![], |stage| link(stage, &[]), [2, 3, 2]),
    Case::new(
        "link, other settings",
        |stage| vec![link(stage, &[])],
        |stage| link(stage, &["--excluded-labels=secret"]),
        [3, 3, 3],
    ),
    Case::new("link, both directions", |_| vec![], mutual, [2, 4, 2]),
    Case::new("unlink", |stage| vec![mutual(stage)], unlink, [4, 3, 3]).again(Again::Never),
    Case::new(
        "rotate",
        |stage| vec![mutual(stage), rotate(stage, &[])],
        |stage| rotate(stage, &[]),
        [4, 4, 4],
    )
    .again(Again::Resumed(|stage| rotate(stage, &["--older-than=1h"]))),
    Case::new("fleet apply", |_| vec![], all, [2, 4, 2]),
    Case::new(
        "fleet apply, other settings",
        |stage| vec![all(stage)],
        with_settings,
        [4, 4, 4],
    ),
    Case::new(
        "fleet apply, links of others",
        |stage| vec![mutual(stage)],
        with_settings,
        [4, 4, 4],
    ),
    Case::new(
        "fleet apply, a new name",
        |stage| vec![all(stage)],
        |stage| apply(stage, "renamed", ""),
        [4, 4, 3],
    ),
    Case::new(
        "fleet apply, a link less",
        |stage| vec![all(stage)],
        |stage| apply(stage, "one", ""),
        [4, 3, 3],
    ),
];

/// A fleet of both clusters, which link to each other.
fn all(stage: &Stage) -> Vec<String> {
    apply(stage, "all", "")
}

fn with_settings(stage: &Stage) -> Vec<String> {
    apply(stage, "all", "{excludedLabels: [secret]}")
}

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
