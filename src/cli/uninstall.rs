//! `linkerd-mc uninstall`: prints the objects of the extension, to delete them.

use clap::Args;
use kube::{Api, ResourceExt as _, api::ListParams};

use super::{
    args::{Global, Output},
    cluster::{Cluster, block_on},
    inventory::{self as objects, ObjectKind},
    output,
};
use crate::{
    api::{labels, link::Link},
    hint::fail,
    manifests::identity,
};

const EXAMPLES: &str = "\
Examples:
  # Uninstall from the cluster of the current context
  linkerd-mc uninstall | kubectl delete -f -";

/// Kinds of installed objects, except those that are deleted with their Namespace.
const KINDS: [ObjectKind; 11] = [
    objects::CLUSTER_ROLE,
    objects::CLUSTER_ROLE_BINDING,
    objects::ROLE,
    objects::ROLE_BINDING,
    objects::CUSTOM_RESOURCE_DEFINITION,
    objects::API_SERVICE,
    objects::MUTATING_WEBHOOK,
    objects::VALIDATING_WEBHOOK,
    objects::ADMISSION_POLICY_BINDING,
    objects::ADMISSION_POLICY,
    objects::NAMESPACE,
];

/// Print the objects of the extension, to delete them with `kubectl delete -f -`
///
/// Fails if there are Links, because only the controller removes their mirrors.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Uninstall {
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub(crate) fn run(global: &Global, args: &Uninstall) -> anyhow::Result<()> {
    block_on(uninstall(global, args))
}

async fn uninstall(global: &Global, args: &Uninstall) -> anyhow::Result<()> {
    let cluster = Cluster::connect(&global.access()).await?;
    refuse_links(&cluster).await?;
    let installed = format!(
        "{} in ({},{})",
        labels::EXTENSION,
        labels::EXTENSION_NAME,
        labels::EXTENSION_NAME_LEGACY
    );
    let cluster = &cluster;
    let lists = KINDS.map(|kind| kind.list(cluster, None, &installed));
    let found = futures::future::try_join_all(lists).await?.concat();
    if found.is_empty() {
        return Err(fail(
            "the multicluster extension is not installed in this cluster",
            "choose another cluster with --context",
        ));
    }
    output::data(&args.output.format(&identity::manifest(found)?))
}

async fn refuse_links(cluster: &Cluster) -> anyhow::Result<()> {
    let links = Api::<Link>::all(cluster.client.clone());
    let found = cluster
        .request_opt("list Links", links.list_metadata(&ListParams::default()))
        .await?;
    let mut names: Vec<String> = found
        .into_iter()
        .flatten()
        .map(|link| link.name_any())
        .collect();
    names.sort();
    match names.first() {
        None => Ok(()),
        Some(first) => Err(fail(
            format!("this cluster is still linked to {}", names.join(", ")),
            format!("unlink first with `linkerd-mc unlink --cluster-name {first} --apply`"),
        )),
    }
}
