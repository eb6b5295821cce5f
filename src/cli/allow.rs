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
  # Create an account for the cluster west, and link with it
  linkerd-mc allow --service-account-name west | kubectl apply -f -
  linkerd-mc link-gen --cluster-name east --service-account-name west

  # Grant only what gateway mode needs
  linkerd-mc allow --service-account-name west --mode gateway \\
    | kubectl apply -f -";

const REVOKE_EXAMPLES: &str = "\
Examples:
  # Revoke the access of one cluster
  linkerd-mc revoke --service-account-name west | kubectl delete -f -";

/// Print a ServiceAccount that another cluster can use to mirror from this one
///
/// `install` creates one account that all source clusters share. With one account for each source cluster, you can
/// revoke each of them separately.
#[derive(Debug, Args)]
#[command(after_long_help = ALLOW_EXAMPLES)]
pub(crate) struct Allow {
    #[command(flatten)]
    accounts: Accounts,
    /// Permissions of the account
    #[arg(long, value_name = "MODE", default_value = "full")]
    mode: Mode,
    /// Print even if the ServiceAccount exists; do not contact the cluster
    #[arg(long)]
    ignore_cluster: bool,
    #[command(flatten)]
    output: Output,
}

/// Print the objects of `allow`, to delete them with `kubectl delete -f -`
///
/// This revokes the account's token: clusters that use it lose access immediately.
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
    /// Names of the ServiceAccounts, comma-separated
    #[arg(long, value_name = "NAME", required = true, value_delimiter = ',', value_parser = args::account_name)]
    service_account_name: Vec<String>,
    /// Namespace of the ServiceAccount
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    namespace: String,
}

/// Permissions of an account.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Mode {
    /// Read access for gateway mode
    Gateway,
    /// Read access for all modes, including remote discovery and federated Services
    Full,
}

/// Runs `allow`.
pub(crate) fn allow(global: &Global, args: &Allow) -> anyhow::Result<()> {
    let with_namespace = if args.ignore_cluster {
        true
    } else {
        block_on(lacks_namespace(global, &args.accounts))?
    };
    if with_namespace && args.accounts.namespace == global.linkerd_namespace {
        // It would get the label of what `uninstall` deletes.
        return Err(fail(
            format!("{:?} is Linkerd's namespace", args.accounts.namespace),
            "choose another one with --namespace",
        ));
    }
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

/// Whether the namespace has to be created. Fails if one of the ServiceAccounts exists.
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
                    "ServiceAccount {name:?} already exists in namespace {:?}",
                    accounts.namespace
                ),
                "choose another name, or pass --ignore-cluster to print it anyway",
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
