//! `linkerd-mc link-gen`: reads from the target cluster what a link needs, and prints the link's objects.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use client::Cluster;
use hints::hint::misuse;
use links::{
    given::Given,
    link::{
        existing::Existing,
        flags::LinkArgs,
        generate::{NewToken, entry, generate},
    },
    link_credentials::{Evidence, KubeconfigTarget, compare},
};
use manifests::link::ClusterName;
use mirror_core::api::metadata::cluster_uid;

use super::{
    common::{
        args::{Global, ManifestOutput},
        output,
        terminal::Terminal,
    },
    plan,
};

/// Examples for the end of the help text.
const EXAMPLES: &str = "\
Examples:
  # Mirror Services of east into west
  linkerd-mc --context east link-gen --cluster-name east \\
    | linkerd-mc link --from-file - --source west --yes

  # Use an API server address that west can reach
  linkerd-mc --context east link-gen --cluster-name east \\
    --api-server-address https://east.example.com:6443

  # Change one setting of a Link, and keep all others
  kubectl --context west -n linkerd-multicluster get link east -o yaml \\
    | linkerd-mc --context east link-gen --cluster-name east \\
    --from-existing - --federation none

  # Open nothing but the gateway of east: its API server is reached through it
  linkerd-mc --context east link-gen --cluster-name east \\
    --api-server-through-gateway

  # Link on a flat network without a gateway, with a token for a year
  linkerd-mc --context east link-gen --cluster-name east \\
    --gateway=false --token-duration 8760h";

/// Print the objects that link another cluster to this one
///
/// Run it against the target cluster, whose Services are mirrored. Apply the output to the source cluster, where the
/// mirrors are created. The output has two Secrets with credentials, and the Link.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct LinkGen {
    /// Name of the target cluster, and the suffix of its mirrors
    #[arg(long, value_name = "NAME")]
    cluster_name: ClusterName,
    /// Start from the Link in this file, and keep its settings unless a flag changes them; - for stdin. Credentials in the
    /// file decide the address of the API server, the ServiceAccount and its token
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    from_existing: Option<PathBuf>,
    #[command(flatten)]
    pub link: LinkArgs,
    #[command(flatten)]
    output: ManifestOutput,
}

/// Runs the command.
pub async fn run(global: &Global, args: &LinkGen, given: &ArgMatches) -> anyhow::Result<()> {
    args.link.agree(false, &Terminal)?;
    let given = &Given::of(given);
    let proposed = args.from_existing.as_ref().map(plan::read).transpose()?;
    let access = global.access();
    let (linkerd, name) = (&global.linkerd_namespace, &args.cluster_name);
    let cluster = Cluster::connect(&access).await?;
    let credentials = proposed.as_ref().and_then(|file| {
        let kubeconfig = file
            .credentials
            .get(&file.link.spec.cluster_credentials_secret)?;
        KubeconfigTarget::of(kubeconfig)
    });
    if let Some(old) = &credentials {
        let recorded = proposed.as_ref().and_then(|file| cluster_uid(&file.link));
        let entry = entry(&access)?.cluster;
        if compare(old, recorded, &entry, &cluster).await != Evidence::Same {
            return Err(misuse(
                "the Link of --from-existing leads to another cluster",
                "choose the cluster that it leads to with --context, or leave its credentials out of the file",
            ));
        }
    }
    let existing = Existing {
        link: proposed.as_ref().map(|file| &file.link),
        credentials: credentials.as_ref(),
        is_of_another: false,
    };
    let there = (given, existing);
    let made = generate(
        &access,
        &cluster,
        linkerd,
        name,
        &args.link,
        there,
        NewToken::OfAccount,
    );
    let (objects, remarks) = made.await?;
    for remark in &remarks {
        remark.say(&Terminal);
    }
    output::data(&args.output.format(&objects.manifest()?)?)
}
