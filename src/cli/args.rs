//! Flags that several commands share.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::{api::labels, client::Access};

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Group to impersonate (repeatable)
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub(crate) as_groups: Vec<String>,
    /// Address of the API server, instead of the kubeconfig's
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub(crate) api_addr: Option<String>,
    /// Namespace of Linkerd's control plane
    #[arg(short = 'L', long, global = true, value_name = "NAMESPACE", default_value = labels::LINKERD_NAMESPACE)]
    pub(crate) linkerd_namespace: String,
    /// Log what is going on to stderr
    #[arg(long, global = true)]
    pub(crate) verbose: bool,
}

impl Global {
    /// The cluster that these flags name.
    pub(crate) fn access(&self) -> Access {
        Access {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            as_user: self.as_user.clone(),
            // `linkerd check` passes a Go list, `--as-group=[]`, also when there is none.
            as_groups: self
                .as_groups
                .iter()
                .filter(|group| *group != "[]")
                .cloned()
                .collect(),
            api_addr: self.api_addr.clone(),
        }
    }
}

/// Format of printed manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ManifestFormat {
    /// Documents separated by `---`
    #[default]
    Yaml,
    /// One JSON object a line
    Json,
}
