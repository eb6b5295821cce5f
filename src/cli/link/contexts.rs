//! The two clusters of a link: which contexts, which names, and which way.

use std::{io::IsTerminal as _, path::Path};

use anyhow::Context as _;
use client::{Access, Cluster};
use hints::{hint::misuse, suggest::ClusterFlags};
use links::{
    cluster_name::cluster_name,
    given::Given,
    link::{
        direction::{Direction, LinkedTarget, TargetContext},
        flags::LinkArgs,
        generate::entry,
        handed::{HandedLink, HandedNamespaces},
    },
};
use manifests::link::ClusterName;

use super::args::Link;
use crate::cli::common::{args::Global, output, prompt};

/// One context, and the name of its cluster.
struct Side {
    context: String,
    name: ClusterName,
}

/// The directions to link, each with the flags that are given for it.
pub async fn directions(
    global: &Global,
    args: &Link,
    given: &Given,
) -> anyhow::Result<Vec<(Direction, Given)>> {
    let access = global.access();
    let (target, source) = contexts(&access, args, prompt::can_ask())?;
    let target = Side {
        name: name(&target, args.cluster_name.as_ref(), "--cluster-name")?,
        context: target,
    };
    let there = direction(&access, &target, &source, args.generated.clone()).await?;
    refuse_itself(&there, &target.context, &access.with_context(&source)).await?;
    let mut directions = vec![(there, given.clone())];
    if args.mutual {
        let own = args.source_cluster_name.as_ref();
        let source = Side {
            name: name(&source, own, "--source-cluster-name")?,
            context: source,
        };
        if source.name == target.name {
            return Err(misuse(
                format!("both clusters would be called {}", source.name),
                "pass --cluster-name for the target cluster, and --source-cluster-name for the source cluster",
            ));
        }
        let mut back = args.generated.clone();
        back.api_server_address
            .clone_from(&args.source_api_server_address);
        let back = direction(&access, &source, &target.context, back).await?;
        let given = given.renamed("source_api_server_address", "api_server_address");
        directions.push((back, given));
    }
    Ok(directions)
}

/// The link in a file. Its objects alone say which cluster it leads to.
pub fn handed(global: &Global, args: &Link, file: &Path) -> anyhow::Result<Direction> {
    let context = args.source.clone().ok_or_else(|| {
        misuse(
            "missing --source",
            "pass the context of the cluster that takes the link",
        )
    })?;
    let shown = file.display().to_string();
    let text = if shown == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    let text = text.with_context(|| format!("cannot read {shown}"))?;
    let namespaces = HandedNamespaces {
        links: &args.generated.namespace,
        linkerd: &global.linkerd_namespace,
    };
    let handed = HandedLink::read(&shown, &text, &namespaces)?;
    Ok(Direction {
        name: handed.name.clone(),
        target: LinkedTarget::Handed(Box::new(handed)),
        access: global.access().with_context(&context),
        context,
        args: args.generated.clone(),
    })
}

/// The contexts of the target and of the source cluster. Prompts for missing ones if it `can_ask`.
pub fn contexts(access: &Access, args: &Link, can_ask: bool) -> anyhow::Result<(String, String)> {
    let contexts = access.kubeconfig()?.contexts.into_iter();
    let known: Vec<String> = contexts.map(|context| context.name).collect();
    if args.target.is_none() && args.source.is_none() && !std::io::stdout().is_terminal() {
        // As in `linkerd multicluster link --cluster-name east | kubectl apply -f -`.
        let name = args.cluster_name.as_ref().map(ToString::to_string);
        let print = ClusterFlags::default().mc(
            "link-gen --cluster-name {}",
            &[name.as_deref().unwrap_or("east")],
        );
        return Err(misuse(
            "missing --target and --source",
            format!(
                "link applies what it makes; to print it instead, run {print} with the context of the target cluster"
            ),
        ));
    }
    let choose = |given: &Option<String>, flag: &str, question: &str, other: Option<&str>| {
        if let Some(given) = given {
            return Ok(given.clone());
        }
        let choices = known.iter().map(String::as_str);
        let choices: Vec<&str> = choices.filter(|name| Some(*name) != other).collect();
        if !can_ask {
            return Err(misuse(
                format!("missing {flag}"),
                format!(
                    "pass {flag} with a context of the kubeconfig: {}",
                    choices.join(", ")
                ),
            ));
        }
        let chosen = prompt::chosen(question, &choices)?;
        Ok(choices[chosen.context("canceled: no context was chosen")?].to_owned())
    };
    let target = choose(
        &args.target,
        "--target",
        "Mirror Services of which cluster?",
        args.source.as_deref(),
    )?;
    let source = choose(
        &args.source,
        "--source",
        "Into which cluster?",
        Some(&target),
    )?;
    if target == source {
        return Err(misuse(
            format!("--target and --source are both {target:?}"),
            "choose two different contexts",
        ));
    }
    Ok((target, source))
}

/// The name of a cluster: the given one, or one that is derived from its context and shown.
fn name(context: &str, given: Option<&ClusterName>, flag: &str) -> anyhow::Result<ClusterName> {
    if let Some(given) = given {
        return Ok(given.clone());
    }
    let derived = cluster_name(context).ok_or_else(|| {
        misuse(
            format!("the context {context:?} has no name for its cluster"),
            format!("pass one with {flag}"),
        )
    })?;
    if derived.to_string() != context {
        output::note(&format!(
            "the cluster of the context {context} is called {derived}; pass {flag} to choose another name"
        ));
    }
    Ok(derived)
}

/// Fails if both contexts lead to one cluster.
async fn refuse_itself(
    direction: &Direction,
    context: &str,
    source: &Access,
) -> anyhow::Result<()> {
    let LinkedTarget::Context(target) = &direction.target else {
        return Ok(());
    };
    let source = Cluster::connect(source).await?;
    let (target, source) = futures::join!(target.cluster.identify(), source.identify());
    if target.may_be(&source) {
        return Err(misuse(
            format!(
                "the contexts {context} and {} lead to the same cluster",
                direction.context
            ),
            "choose contexts of two clusters; a cluster cannot be linked to itself",
        ));
    }
    Ok(())
}

async fn direction(
    access: &Access,
    target: &Side,
    source: &str,
    args: LinkArgs,
) -> anyhow::Result<Direction> {
    let from = access.with_context(&target.context);
    let why = || format!("cannot generate the link to {}", target.context);
    let side = TargetContext {
        entry: entry(&from).with_context(why)?.cluster,
        cluster: Cluster::connect(&from).await.with_context(why)?,
        access: from,
        context: target.context.clone(),
    };
    Ok(Direction {
        target: LinkedTarget::Context(Box::new(side)),
        access: access.with_context(source),
        context: source.to_owned(),
        name: target.name.clone(),
        args,
    })
}
