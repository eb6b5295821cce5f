//! `gather`: writes what a colleague needs to look into a problem into one archive, without secrets.

mod archive;
mod diagnoses;
mod index;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anstream::adapter::strip_str;
use clap::{Args, ValueHint};
use client::{Cluster, timing};
use hints::hint::fail;
use jiff::Timestamp;
use observe::{
    check::{
        report::{self, Category},
        rules,
    },
    clusters::{
        bundle::{self, BundleContent, BundleFile, redaction::scrubbed},
        gather::{self, Gathering},
        kube_context::{KubeContext, side_by_side},
        snapshot::{ClusterSnapshot, FullSnapshot, Part},
        topology::Topology,
        workloads::ParseArgs,
    },
    diagnose::layer::Commands,
    timeline::{Happened, Timeline},
};

use self::{
    archive::Archive,
    diagnoses::diagnoses,
    index::{IndexEntry, index},
};
use super::common::{
    args::{Global, timeout},
    contexts::Contexts,
    output,
    wait::spin,
};

/// Most characters of a name in a path.
const NAME: usize = 200;

const EXAMPLES: &str = "\
Examples:
  # Gather what is known of the current context's cluster
  linkerd-mc gather

  # Gather both sides of a link into a file of this name
  linkerd-mc gather --context west,east incident.tar.gz";

/// Write what is needed to look into a problem into one archive
///
/// The archive has Links, mirrors, Pods, Events, logs, metrics and the output of check and diagnose, of each cluster. Its INDEX.md
/// begins with the problems, and says what could not be read. Its timeline.txt says what happened in all clusters, newest first.
/// It never has the content of a Secret.
#[derive(Clone, Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct GatherArgs {
    #[command(flatten)]
    contexts: Contexts,
    /// File to write, which must not exist [default: linkerd-mc-TIME.tar.gz]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    /// Timeout of each request to a cluster
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = timeout)]
    request_timeout: Duration,
}

/// What was gathered of a cluster.
struct Gathered {
    snapshot: ClusterSnapshot,
    /// The results of `check`.
    checks: Category,
    files: Vec<BundleFile>,
    /// What happened to the objects.
    history: Vec<Happened>,
}

/// Runs the command. Fails if no cluster answered.
pub async fn run(global: &Global, args: &GatherArgs, parse: ParseArgs) -> anyhow::Result<ExitCode> {
    let now = timing::now();
    let name = format!("linkerd-mc-{}", now.strftime("%Y%m%d-%H%M%S"));
    let path = args.file.clone();
    let path = path.unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
    let contexts = args.contexts.select(global, args.request_timeout).await?;
    let mut archive = Archive::new(&path, &name)?;
    let reading = contexts
        .iter()
        .map(|context| of_context(global, context, now, parse));
    let clusters = spin("gathering", side_by_side(reading)).await;
    let files = clusters.iter().flat_map(|cluster| &cluster.files);
    let failed: Option<Vec<_>> = files.map(|file| file.content.as_ref().err()).collect();
    if let Some([why, ..]) = failed.as_deref() {
        return Err(fail(
            format!("cannot read anything: {why}"),
            "check that the cluster is up and that you may read it",
        ));
    }
    let snapshots: Vec<_> = clusters
        .iter()
        .map(|cluster| cluster.snapshot.clone())
        .collect();
    let topology = output::json(&Topology::of(&snapshots))?;
    let (mut entries, mut checks) = (Vec::new(), Vec::new());
    entries.push(add(
        &mut archive,
        "graph.json",
        "clusters and the Links between them",
        &topology,
    )?);
    let mut timeline = Timeline::default();
    for (context, gathered) in contexts.iter().zip(&clusters) {
        timeline.add(&context.name, gathered.history.clone(), &[]);
    }
    let happened = timeline.happened.iter();
    let lines = happened.map(
        |Happened {
             at,
             cluster,
             about,
             what,
         }| { format!("{at:.0}  {cluster}  {about}: {what}\n") },
    );
    entries.push(add(
        &mut archive,
        "timeline.txt",
        "what happened in all clusters, newest first",
        &lines.collect::<String>(),
    )?);
    let folders = folders(contexts.iter().map(|context| context.name.as_str()));
    for (folder, gathered) in folders.into_iter().zip(clusters) {
        let categories = std::slice::from_ref(&gathered.checks);
        let text = report::rows(&gathered.checks) + &report::problems(categories);
        let path = |file: &str| format!("{folder}/{file}");
        entries.push(add(
            &mut archive,
            &path("check.txt"),
            "output of linkerd-mc check",
            &text,
        )?);
        let document = output::json(&report::document(categories))?;
        entries.push(add(
            &mut archive,
            &path("check.json"),
            "the same as JSON",
            &document,
        )?);
        for file in gathered.files {
            entries.push(add_file(&mut archive, &folder, file)?);
        }
        checks.push(gathered.checks);
    }
    let missing = entries.iter().filter(|entry| entry.is_missing()).count();
    let index = index(now, &checks, &entries);
    archive.add("INDEX.md", index.as_bytes())?;
    let size = archive.finish()?;
    output::data(&format!("{}\n", path.display()))?;
    let left = match missing {
        0 => String::new(),
        missing => format!("; {missing} things could not be read, see INDEX.md in it"),
    };
    output::note(&format!(
        "{} files, {} KiB{left}",
        entries.len() - missing + 1,
        size.div_ceil(1024)
    ));
    Ok(ExitCode::SUCCESS)
}

/// Reads all of one cluster.
async fn of_context(
    global: &Global,
    context: &KubeContext,
    now: Timestamp,
    parse: ParseArgs,
) -> Gathered {
    let category = |results| Category {
        name: context.name.clone(),
        results,
        cluster: Some(context.name.clone()),
    };
    let cluster = match &context.client {
        Ok(cluster) => cluster,
        Err(why) => {
            return Gathered {
                snapshot: ClusterSnapshot::unreachable(&context.name, why),
                checks: category(vec![rules::unreachable(why)]),
                files: vec![BundleFile {
                    path: "objects".to_owned(),
                    what: "everything".to_owned(),
                    content: Err(why.clone()),
                }],
                history: Vec::new(),
            };
        }
    };
    let snapshot = snapshot(cluster, now, parse).await;
    let evaluated = rules::evaluate(&snapshot, |_| true);
    let namespaces = match (
        &snapshot.extension_namespaces,
        gather::namespaces(&snapshot),
    ) {
        (Err(why), none) if none.is_empty() => Err(why.clone()),
        (_, known) => Ok(known),
    };
    let commands = Commands {
        source: context.flags.clone(),
        source_context: Some(context.name.clone()),
        both: global.access().common_flags(),
        ..Commands::default()
    };
    let mut files = diagnoses(cluster, &snapshot, &commands).await;
    let (read, mut history) = bundle::files(cluster, &namespaces).await;
    files.extend(read);
    let leaders = snapshot.cluster.leaders.values().flatten().flatten();
    history.extend(leaders.flat_map(|leader| leader.history.clone()));
    Gathered {
        files,
        history,
        checks: category(evaluated.results),
        snapshot: snapshot.cluster,
    }
}

async fn snapshot(cluster: &Cluster, now: Timestamp, parse: ParseArgs) -> FullSnapshot {
    let version = env!("CARGO_PKG_VERSION");
    let mut gathering = Gathering::start(cluster, now, version, parse, Part::ALL.into());
    while gathering.next().await.is_some() {}
    gathering.snapshot().clone()
}

/// A folder for each context.
fn folders<'c>(contexts: impl Iterator<Item = &'c str>) -> Vec<String> {
    let mut folders: Vec<String> = Vec::new();
    for context in contexts {
        let name = folder_of(context);
        let others = (2..).map(|number| format!("{name}-{number}"));
        let free = [name.clone()].into_iter().chain(others);
        folders.extend(free.into_iter().find(|folder| !folders.contains(folder)));
    }
    folders
}

/// The name of a context as the name of a folder.
fn folder_of(context: &str) -> String {
    let plain = |c: char| {
        if c.is_alphanumeric() || "-_.@".contains(c) {
            c
        } else {
            '_'
        }
    };
    let name: String = context.chars().map(plain).collect();
    match name.trim_start_matches('.') {
        "" => "cluster".to_owned(),
        name => name.to_owned(),
    }
}

fn add(archive: &mut Archive, path: &str, what: &str, text: &str) -> anyhow::Result<IndexEntry> {
    let plain = strip_str(text).to_string();
    let size = archive.add(path, scrubbed(&plain).as_bytes())?;
    Ok(IndexEntry {
        path: path.to_owned(),
        what: what.to_owned(),
        content: Ok(size),
    })
}

/// The path of a file without what leads out of its folder, which a hostile API server may give its objects as a name.
fn inside(path: &str) -> String {
    let plain = |c: char| match c {
        c if c.is_ascii_alphanumeric() || "-._".contains(c) => c,
        _ => '_',
    };
    let parts = path.split('/').map(|part| {
        let name: String = part.chars().map(plain).take(NAME).collect();
        if name.trim_matches('.').is_empty() {
            "_".to_owned()
        } else {
            name
        }
    });
    parts.collect::<Vec<_>>().join("/")
}

fn add_file(archive: &mut Archive, folder: &str, file: BundleFile) -> anyhow::Result<IndexEntry> {
    let path = format!("{folder}/{}", inside(&file.path));
    let what = |more: &str| format!("{}{more}", file.what);
    match file.content {
        Err(why) => Ok(IndexEntry {
            path,
            what: file.what,
            content: Err(why.to_string()),
        }),
        Ok(BundleContent::Text(text)) => add(archive, &path, &what(""), &text),
        Ok(BundleContent::Objects(objects, is_cut)) => {
            let number = objects.len();
            let more = if is_cut { "the first " } else { "" };
            let text = objects.iter().map(|object| {
                let yaml = output::yaml(object)?;
                anyhow::Ok(format!("---\n{yaml}"))
            });
            let text: String = text.collect::<anyhow::Result<_>>()?;
            add(archive, &path, &what(&format!(" ({more}{number})")), &text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_stay_in_their_folder() {
        for (path, expected) in [
            ("diagnose/shop-web.txt", "diagnose/shop-web.txt"),
            (
                "diagnose/a/../../../b-web.txt",
                "diagnose/a/_/_/_/b-web.txt",
            ),
            ("/etc/x\u{1b}[2K", "_/etc/x__2K"),
        ] {
            assert_eq!(inside(path), expected);
        }
        assert_eq!(inside(&"a".repeat(300)).len(), NAME);
    }

    #[test]
    fn folders_stay_in_the_archive() {
        for (context, folder) in [
            ("west", "west"),
            (
                "arn:aws:eks:eu-1:1:cluster/west",
                "arn_aws_eks_eu-1_1_cluster_west",
            ),
            ("../../etc", "_.._etc"),
            ("admin@west.example", "admin@west.example"),
            ("..", "cluster"),
            ("", "cluster"),
        ] {
            assert_eq!(folder_of(context), folder);
        }
        let several = ["a/b", "a_b", "a:b", "c"];
        assert_eq!(folders(several.into_iter()), ["a_b", "a_b-2", "a_b-3", "c"]);
    }
}
