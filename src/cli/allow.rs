//! `linkerd-mc allow` and `linkerd-mc revoke`: accounts for controllers of other clusters.

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Api;

use super::{
    args::{self, Global, Output},
    cluster::{Cluster, block_on},
    complete, output,
};
use crate::{
    api::labels,
    hint::fail,
    manifests::install::{self, RemoteAccess},
};

const ALLOW_EXAMPLES: &str = "\
Examples:
  # Let another cluster mirror from this one, with an account of its own
  linkerd-mc allow --service-account-name west | kubectl apply -f -
  linkerd-mc link-gen --cluster-name east --service-account-name west

  # As little as a cluster needs that mirrors through the gateway only
  linkerd-mc allow --service-account-name west --mode gateway \\
    | kubectl apply -f -";

const REVOKE_EXAMPLES: &str = "\
Examples:
  # Take the access of one cluster away again
  linkerd-mc revoke --service-account-name west | kubectl delete -f -";

/// Print a ServiceAccount with which another cluster can mirror from this one
///
/// `install` prints one account for all; with one for each source cluster, each can be revoked alone.
#[derive(Debug, Args)]
#[command(after_long_help = ALLOW_EXAMPLES)]
pub(crate) struct Allow {
    #[command(flatten)]
    accounts: Accounts,
    /// What the account may do
    #[arg(long, value_name = "MODE", default_value = "full")]
    mode: Mode,
    /// Print it also when there is such a ServiceAccount, and without asking the cluster
    #[arg(long)]
    ignore_cluster: bool,
    #[command(flatten)]
    output: Output,
}

/// Print what `allow` made, for `kubectl delete -f -`
///
/// The token of the account ends with it, so clusters that are linked with it lose access at once.
#[derive(Debug, Args)]
#[command(after_long_help = REVOKE_EXAMPLES)]
pub(crate) struct Revoke {
    #[command(flatten)]
    accounts: Accounts,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Args)]
struct Accounts {
    /// Name of the ServiceAccount; several with commas
    #[arg(long, value_name = "NAME", required = true, value_delimiter = ',', value_parser = args::object_name)]
    service_account_name: Vec<String>,
    /// Namespace of the ServiceAccount
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
}

/// What an account may do.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Read what mirroring through the gateway needs
    Gateway,
    /// Read what pod-to-pod mirroring and federated Services need as well
    Full,
}

/// Runs `allow`.
pub(crate) fn allow(global: &Global, args: &Allow) -> anyhow::Result<()> {
    let with_namespace = if args.ignore_cluster {
        true
    } else {
        block_on(lacks_namespace(global, &args.accounts))?
    };
    let access = match args.mode {
        Mode::Gateway => RemoteAccess::Gateway,
        Mode::Full => RemoteAccess::Full,
    };
    let Accounts {
        service_account_name,
        namespace,
    } = &args.accounts;
    let manifest = install::allow(namespace, service_account_name, access, with_namespace)?;
    output::data(&args.output.format(&manifest))
}

/// Runs `revoke`.
pub(crate) fn revoke(args: &Revoke) -> anyhow::Result<()> {
    let Accounts {
        service_account_name,
        namespace,
    } = &args.accounts;
    let manifest = install::revoke(namespace, service_account_name)?;
    output::data(&args.output.format(&manifest))
}

/// Whether the namespace is still to be made. Fails when there is such a ServiceAccount.
async fn lacks_namespace(global: &Global, accounts: &Accounts) -> anyhow::Result<bool> {
    let cluster = Cluster::connect(&global.access()).await?;
    let api = Api::<ServiceAccount>::namespaced(cluster.client.clone(), &accounts.namespace);
    for name in &accounts.service_account_name {
        let found = cluster
            .request("read the ServiceAccount", api.get_metadata_opt(name))
            .await?;
        if found.is_some() {
            return Err(fail(
                format!(
                    "there is a ServiceAccount {name:?} in the namespace {:?} already",
                    accounts.namespace
                ),
                "choose another name, or pass --ignore-cluster to print it all the same",
            ));
        }
    }
    let namespaces = Api::<Namespace>::all(cluster.client.clone());
    let found = cluster
        .request(
            "read the Namespace",
            namespaces.get_metadata_opt(&accounts.namespace),
        )
        .await?;
    Ok(found.is_none())
}
