//! `fleet credentials`: the credentials of one target cluster, for whoever takes them to the source clusters.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use clap::{Args, ValueHint};
use client::timing;
use hints::{
    hint::{fail, misuse},
    prose::counted,
    suggest::ClusterFlags,
};
use links::{
    files::{FileReaders, create_private, write_whole},
    fleet::{
        accounts::{LinkAccount, account_writes, token},
        apply::account_of,
        facts::AccountFacts,
        gather::{ReadTarget, accounts, read_target},
        hand_over::take,
        loaded::{LoadedFleet, LoadedLink},
        new_tokens::new_token,
        remaining::{RemainingStep, text},
    },
    link::remark::Remark,
    steps::labelled,
};
use manifests::{link::ClusterName, render::Manifest};
use serde_json::{Value, json};

use super::source::FleetSource;
use crate::cli::common::{
    args::{Global, ManifestOutput},
    output,
    terminal::Terminal,
    wait::spin,
};

/// Print the Secrets with which source clusters reach a target cluster
///
/// Only the target cluster is used: by whoever has its context, for the owners of the source clusters, or for a store of
/// secrets. An account is created for each source cluster that has none; otherwise its token is used again. The output is
/// that of `link-gen`, without the Link.
///
/// The Secrets of all source clusters have the same names. So the output has one of them, or one file for each, which
/// `link --from-file` takes in the source cluster.
///
/// With --new-tokens, this is the first step of a rotation without access to the source clusters. If the newest token of a
/// source cluster is less than an hour old, and not its only one, it is used again.
#[derive(Debug, Args)]
pub struct FleetCredentialsArgs {
    #[command(flatten)]
    source_file: FleetSource,
    /// The target cluster
    #[arg(long, value_name = "NAME")]
    target: ClusterName,
    /// The source clusters, comma-separated [default: all that the file links to the target cluster]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    source: Vec<ClusterName>,
    /// Write a file for each source cluster, DIR/SOURCE/TARGET.yaml, that only you can read
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    output_dir: Option<PathBuf>,
    /// Print the Link too, after its Secrets
    #[arg(long)]
    with_link: bool,
    /// Make a new token for each source cluster that has one already, to replace it. Old tokens stay valid
    #[arg(long)]
    new_tokens: bool,
    #[command(flatten)]
    output: ManifestOutput,
}

/// Runs the command.
pub async fn run(global: &Global, args: &FleetCredentialsArgs) -> anyhow::Result<ExitCode> {
    let loaded = args.source_file.load(global).await?;
    let links = chosen(&loaded, args)?;
    let [first, ..] = links.as_slice() else {
        return Err(fail(
            format!("the file links no cluster to {}", args.target),
            "add a link to it, or name another cluster with --target",
        ));
    };
    let reading = async {
        let target = read_target(&global.access(), &loaded, first).await?;
        let accounts = accounts(&loaded, &target.cluster, &args.target);
        let accounts = Box::pin(accounts).await?;
        anyhow::Ok((target, accounts))
    };
    let reading = args.source_file.in_time(&args.target, Box::pin(reading));
    let (target, accounts) = spin("reading the cluster", reading).await?;
    let mut remarks = BTreeSet::new();
    let mut made = Vec::new();
    for link in &links {
        let objects = objects_of(&loaded, link, &target, &accounts, args);
        let (objects, own) = Box::pin(objects)
            .await
            .with_context(|| format!("cannot make the credentials of {}", link.ends.source))?;
        remarks.extend(own);
        made.push((&link.ends.source, Manifest::from_objects(objects)?));
    }
    for remark in &remarks {
        remark.say_of(&Terminal, &args.target.to_string());
    }
    match (&args.output_dir, made.as_slice()) {
        (Some(folder), made) => {
            write_files(folder, args, made)?;
            output::data(&text(&remaining(&loaded, folder, args, &links)))?;
        }
        (None, made) => {
            for (_, manifest) in made {
                output::data(&args.output.format(manifest)?)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The links whose credentials are wanted.
fn chosen<'l>(
    loaded: &'l LoadedFleet,
    args: &FleetCredentialsArgs,
) -> anyhow::Result<Vec<&'l LoadedLink>> {
    let target = &args.target;
    let all = loaded
        .links
        .iter()
        .filter(|link| link.ends.target == *target);
    let all: Vec<&LoadedLink> = all.collect();
    let is_linked = |source: &&ClusterName| all.iter().any(|link| link.ends.source == **source);
    if let Some(unknown) = args.source.iter().find(|source| !is_linked(source)) {
        return Err(fail(
            format!("the file does not link {unknown} to {target}"),
            "correct --source or --target, or add the link to the file",
        ));
    }
    let is_wanted =
        |link: &&LoadedLink| args.source.is_empty() || args.source.contains(&link.ends.source);
    let chosen: Vec<&LoadedLink> = all.iter().copied().filter(is_wanted).collect();
    if args.output_dir.is_none() && chosen.len() > 1 {
        let sources = chosen.iter().map(|link| link.ends.source.to_string());
        let sources: Vec<String> = sources.collect();
        return Err(misuse(
            format!(
                "the Secrets of {} source clusters have the same names: {}",
                sources.len(),
                sources.join(", ")
            ),
            "choose one with --source, or write a file for each with --output-dir",
        ));
    }
    Ok(chosen)
}

/// The Secrets of one link, with a token of its account, which is made if it is missing.
async fn objects_of(
    loaded: &LoadedFleet,
    link: &LoadedLink,
    target: &ReadTarget,
    accounts: &AccountFacts,
    args: &FleetCredentialsArgs,
) -> anyhow::Result<(Vec<Value>, Vec<Remark>)> {
    let mut account = LinkAccount::named(loaded, &link.ends.source);
    account.access = link.access();
    let source = &account.name;
    let now = timing::now();
    let mut own = token(accounts, source, None, now);
    let missing = account_writes(loaded, &args.target, &account, accounts, own.is_some());
    for step in missing.map_err(|why| anyhow::anyhow!(why))? {
        step.run(&target.cluster).await?;
    }
    if accounts.has_token(source) && args.new_tokens {
        own = Some(new_token(loaded, &target.cluster, &link.ends.source).await?);
    }
    if own.is_none() {
        let made = account_of(&target.cluster, loaded, source, accounts).await?;
        own = token(&made, source, None, now);
    }
    let token = own.with_context(|| format!("the account {source} has no token that works"))?;
    let mut remarks = Vec::new();
    let made = link.objects(loaded, &target.side, Some(&token), &mut remarks)?;
    link.check_way(&target.side, &token, &Terminal).await?;
    let link = args.with_link.then(|| json!(made.link));
    let objects = made.secrets().map(|secret| json!(secret)).chain(link);
    let objects = objects
        .map(|object| labelled(object, &loaded.fleet.name))
        .collect();
    Ok((objects, remarks))
}

/// What the owners of the source clusters do with the files.
fn remaining(
    loaded: &LoadedFleet,
    folder: &Path,
    args: &FleetCredentialsArgs,
    links: &[&LoadedLink],
) -> Vec<RemainingStep> {
    let mut steps = Vec::new();
    for link in links {
        let source = link.ends.source.to_string();
        let path = folder.join(&source).join(format!("{}.yaml", args.target));
        steps.push(take(loaded, &link.ends.source, &path.to_string_lossy()));
        if args.new_tokens {
            let values = [loaded.name.as_str(), &source];
            let rotate = ClusterFlags::default().mc("rotate --file {} --only {}", &values);
            steps.push(RemainingStep::of(&source, &rotate));
        }
    }
    steps
}

/// Writes a file for each source cluster.
fn write_files(
    folder: &Path,
    args: &FleetCredentialsArgs,
    made: &[(&ClusterName, Manifest)],
) -> anyhow::Result<()> {
    for (source, manifest) in made {
        let own = folder.join(source.to_string());
        let path = own.join(format!("{}.yaml", args.target));
        let text = args.output.format(manifest)?;
        create_private(&own)
            .and_then(|()| write_whole(&path, text.as_bytes(), FileReaders::Owner))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    output::note(&format!("{} written", counted(made.len(), "file")));
    Ok(())
}
