//! `linkerd-mc unlink`: prints or deletes the objects that link a cluster to this one.

mod revocation;
mod words;

use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCompleter;
use client::Cluster;
use hints::hint::{HintExt as _, fail, misuse};
use kube::ResourceExt;
use links::linked::{LinkedObjects, PROPAGATION, known_clusters, links};
use manifests::{link::ClusterName, render::Manifest};
use mirror_core::api::{labels, text::one_line};

use self::{
    revocation::revocation,
    words::{again, kept, left_over, memberships, others, plan, question, what},
};
use super::common::{
    args::{self, Global, ManifestOutput},
    complete,
    interrupt::on_interrupt,
    output,
    prompt::confirmed,
    wait::Progress,
};

const EXAMPLES: &str = "\
Examples:
  # Delete the link to east, and wait until its mirrors are removed
  linkerd-mc unlink east --apply

  # Delete a second Link to a cluster, and keep the first
  linkerd-mc unlink --link east-again --apply

  # List the objects, and delete them with kubectl
  linkerd-mc unlink east
  linkerd-mc unlink east \\
    | kubectl delete --ignore-not-found -f -

  # Delete only the objects of Linkerd's service mirror
  linkerd-mc unlink east --only-controller \\
    | kubectl delete -f -";

/// Print the objects that link a cluster to this one, or delete them with --apply
///
/// The objects are the Link, those of Linkerd's service mirror for this link, the probe Service, all mirrors, federated
/// Services without another member, and both Secrets. The Secrets are last: Linkerd needs the Secret of a cluster when
/// a Service stops naming the cluster, and otherwise keeps its endpoints forever. So without --apply, they are left out
/// while federated Services with other members name the cluster. A Secret with a name of its own is first: only the Link
/// leads to it. Linkerd's Secret stays if a Link in another namespace needs it. If this namespace has no Link to the
/// cluster, so do mirrors and ClusterRoles of Linkerd's service mirror. A Secret that another Link names stays.
///
/// If several Links are for the cluster, --link chooses one of them. Then the objects are only this Link, and its Secret
/// if no other Link has it.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub struct Unlink {
    /// Name of the target cluster
    #[arg(value_name = "CLUSTER", required_unless_present_any = ["cluster_name", "link"], add = ArgValueCompleter::new(complete::clusters))]
    cluster: Option<ClusterName>,
    /// Name of the target cluster, as `linkerd multicluster unlink` takes it
    #[arg(long, value_name = "NAME", conflicts_with = "cluster", add = ArgValueCompleter::new(complete::clusters))]
    cluster_name: Option<ClusterName>,
    /// Name of the Link, if only one of several Links for a cluster is meant
    #[arg(long, value_name = "NAME", conflicts_with = "only_controller", value_parser = args::object_name, add = ArgValueCompleter::new(complete::links))]
    link: Option<String>,
    /// Namespace of the Link
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
    /// Only the objects of Linkerd's service mirror for this link
    #[arg(long)]
    only_controller: bool,
    /// Delete the link, and wait until the controller has removed the mirrors
    #[arg(long)]
    apply: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// With --apply, do not ask for confirmation
    #[arg(long, requires = "apply")]
    yes: bool,
    /// With --apply, how long to wait until the mirrors are removed
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = args::duration, requires = "apply")]
    wait: Duration,
    #[command(flatten)]
    output: ManifestOutput,
}

impl Unlink {
    /// The target cluster that was named.
    fn cluster(&self) -> Option<&ClusterName> {
        self.cluster.as_ref().or(self.cluster_name.as_ref())
    }

    /// Whether it changes clusters.
    pub fn writes(&self) -> bool {
        self.apply && !self.dry_run
    }
}

/// Runs the command.
pub async fn run(global: &Global, args: &Unlink) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    let name = &name(&cluster, args).await?;
    let mut linked = Box::pin(LinkedObjects::gather(
        &cluster,
        name,
        args.link.as_deref(),
        &args.namespace,
        &global.linkerd_namespace,
    ))
    .await?;
    let elsewhere = linked.elsewhere.clone();
    if args.only_controller {
        linked = LinkedObjects {
            leftovers: linked.leftovers,
            ..Default::default()
        };
    }
    if linked.is_empty() {
        return Err(nothing_there(&cluster, args, name, &elsewhere).await);
    }
    if args.apply && args.dry_run {
        output::data(&(one_line(&format!("would {}", plan(name, &linked))) + "\n"))?;
        return Ok(());
    }
    if args.apply {
        return Box::pin(apply(global, &cluster, args, name, linked)).await;
    }
    let access = global.access();
    let notes = [
        memberships(name, &linked.mirrors.shared),
        kept(&linked),
        others(name, &linked),
        revocation(&access, &cluster, &args.namespace, name, &linked).await,
    ];
    if !linked.mirrors.shared.is_empty() {
        linked.secrets.clear();
    } else if linked.links.is_empty() && !linked.secrets.is_empty() {
        // The memberships may have been removed a moment ago.
        tokio::time::sleep(PROPAGATION).await;
    }
    let printed = args.output.format(&Manifest::of_names(linked.all())?)?;
    for note in notes.into_iter().flatten() {
        output::note(&note);
    }
    output::data(&printed)
}

/// The cluster that is meant: the one that is named, or that of the Link that is named.
async fn name(cluster: &Cluster, args: &Unlink) -> anyhow::Result<ClusterName> {
    let Some(wanted) = &args.link else {
        let name = args.cluster().cloned();
        return name.ok_or_else(|| misuse("missing the cluster", "name it, or pass --link"));
    };
    let namespace = &args.namespace;
    let known = links(cluster, namespace).await?;
    let Some(link) = known.iter().find(|link| link.name_any() == *wanted) else {
        let names: Vec<String> = known.iter().map(ResourceExt::name_any).collect();
        return Err(fail(
            format!("Link {wanted} not found in namespace {namespace:?}"),
            if names.is_empty() {
                "no Links found; choose another namespace with --namespace".to_owned()
            } else {
                format!("known Links: {}", names.join(", "))
            },
        ));
    };
    let target: ClusterName = link.spec.target_cluster_name.parse().hint(
        || format!("the Link {wanted} names no valid cluster"),
        || {
            let delete = cluster.flags.kubectl(
                "-n {} delete links.multicluster.linkerd.io {}",
                &[namespace, wanted],
            );
            format!("delete it with {delete}")
        },
    )?;
    match args.cluster() {
        Some(name) if *name != target => Err(fail(
            format!("the Link {wanted} is for the cluster {target}, and not for {name}"),
            "remove the name of the cluster, or choose another --link",
        )),
        _ => Ok(target),
    }
}

async fn apply(
    global: &Global,
    cluster: &Cluster,
    args: &Unlink,
    name: &ClusterName,
    mut linked: LinkedObjects,
) -> anyhow::Result<()> {
    let otherwise = "pass --yes to delete without confirmation";
    if !args.yes && !confirmed(&question(name, &linked), otherwise)? {
        return Err(fail("canceled: nothing was deleted", otherwise));
    }
    let what = what(name, &linked);
    let (namespace, only) = (&args.namespace, args.link.as_deref());
    let again = again(name, &cluster.flags, namespace, only, &linked);
    on_interrupt(
        &format!("a part of {what} may be deleted"),
        &format!("{again}, which does the rest"),
    );
    let had_link = !linked.links.is_empty();
    let notes = [kept(&linked), others(name, &linked)];
    // First: what goes on with this run may not find the credentials any more.
    if let Some(note) = revocation(&global.access(), cluster, namespace, name, &linked).await {
        output::note(&note);
    }
    // The Link before the mirrors: while it exists, the controller creates again what is deleted.
    let first = linked.own_secrets.iter().chain(&linked.links);
    for object in first.chain(&linked.leftovers) {
        object.delete(cluster).await?;
    }
    let done = if linked.has_only_leftovers() {
        format!("deleted {what}")
    } else if let (Some(_), Some(link)) = (linked.remaining.first(), linked.links.first()) {
        format!("deleted the Link {}", link.name())
    } else {
        // Without a Link, the controller does not remove these mirrors. They were listed before the prompt: meanwhile,
        // another cluster may have joined a federated Service.
        if !had_link {
            for mirror in std::mem::take(&mut linked.mirrors).into_own() {
                mirror.delete(cluster).await?;
            }
        }
        let waiting = format!("waiting for the mirrors of {name} to be removed");
        let left = linked.mirrors_left(cluster, name, namespace, args.wait);
        let left = Progress::new(&waiting).during(left).await?;
        if left.count() > 0 {
            return Err(left_over(name, &cluster.flags, &left, had_link, &again));
        }
        if !linked.secrets.is_empty() {
            tokio::time::sleep(PROPAGATION).await;
            let unused = linked.keep_used(cluster, name, namespace, &global.linkerd_namespace);
            Box::pin(unused).await?;
        }
        format!("deleted the link to {name} and its mirrors")
    };
    for secret in &linked.secrets {
        secret.delete(cluster).await?;
    }
    output::note(&done);
    for note in notes.into_iter().flatten() {
        output::note(&note);
    }
    Ok(())
}

async fn nothing_there(
    cluster: &Cluster,
    args: &Unlink,
    name: &ClusterName,
    elsewhere: &[String],
) -> anyhow::Error {
    let known = links(cluster, &args.namespace).await.unwrap_or_default();
    let name = name.to_string();
    let is_linked = known
        .iter()
        .any(|link| link.spec.target_cluster_name == name);
    if args.only_controller && is_linked {
        return fail(
            format!(
                "namespace {:?} has no objects of Linkerd's service mirror for cluster {name:?}",
                args.namespace
            ),
            "nothing has to be removed; the Link and its mirrors stay",
        );
    }
    let other = elsewhere.first().and_then(|other| other.split_once('/'));
    let hint = match other {
        Some((namespace, link)) if !is_linked => {
            format!("namespace {namespace:?} has the Link {link}; pass --namespace {namespace}")
        }
        _ => known_clusters(&known, "choose another namespace with --namespace"),
    };
    fail(
        format!(
            "cluster {name:?} is not linked to namespace {:?}",
            args.namespace
        ),
        hint,
    )
}
