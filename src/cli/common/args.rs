//! Flags that several commands share.

use std::path::PathBuf;

use clap::{ArgAction, Args, ColorChoice, ValueEnum};
use clap_complete::ArgValueCompleter;
use client::{Access, CommandClients};
use hints::hint::misuse;
use links::fleet::loaded::LinkerdFlag;
pub use links::typed::*;
use manifests::render::Manifest;
use mirror_core::api::labels;

use super::{complete, terminal::Terminal};

/// Flags of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, global = true, value_name = "NAME", add = ArgValueCompleter::new(complete::contexts))]
    pub context: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub as_user: Option<String>,
    /// Group to impersonate (repeatable)
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub as_groups: Vec<String>,
    /// Address of the API server; overrides the kubeconfig's
    #[arg(long, global = true, value_name = "HOST:PORT", value_parser = api_addr)]
    pub api_addr: Option<String>,
    /// Namespace of Linkerd's control plane
    #[arg(short = 'L', long, global = true, value_name = "NAMESPACE", default_value = labels::LINKERD_NAMESPACE, value_parser = namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub linkerd_namespace: String,
    /// Whether that flag was given.
    #[arg(skip)]
    pub names_linkerd: bool,
    /// Print debug logs to stderr
    // An optional value, because `linkerd check` passes `--verbose=false`.
    #[arg(
        long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true",
        hide_default_value = true, hide_possible_values = true, value_name = "BOOL"
    )]
    pub verbose: bool,
    /// Print no notes and no progress to stderr; warnings and errors stay
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// When to use colors
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// What the command has for all of its clusters.
    #[arg(skip)]
    pub shared: CommandClients,
}

impl Global {
    /// The cluster that these flags name.
    pub fn access(&self) -> Access {
        Access {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            as_user: self.as_user.clone(),
            as_groups: self.as_groups.iter().flat_map(|g| groups(g)).collect(),
            api_addr: self.api_addr.clone(),
            linkerd_namespace: self.linkerd_namespace.clone(),
            is_of_fleet: false,
            given: None,
            console: &Terminal,
            shared: self.shared.clone(),
        }
    }

    /// The namespace of Linkerd, and whether the user names it.
    pub fn linkerd_flag(&self) -> LinkerdFlag<'_> {
        LinkerdFlag {
            namespace: &self.linkerd_namespace,
            is_given: self.names_linkerd,
        }
    }

    /// Fails if `--api-addr` is given: it is the address of one cluster, and the command uses two.
    pub fn refuse_address(&self) -> anyhow::Result<()> {
        match self.api_addr {
            Some(_) => Err(misuse(
                "--api-addr cannot be used with several clusters",
                "leave it out, and correct `server` in the kubeconfig instead",
            )),
            None => Ok(()),
        }
    }
}

/// The groups that one `--as-group` names. `linkerd check` passes a printed Go list, as in `[a b]` or `[]`.
fn groups(value: &str) -> Vec<String> {
    match value.strip_prefix('[').and_then(|v| v.strip_suffix(']')) {
        Some(list) => list.split_whitespace().map(str::to_owned).collect(),
        None => vec![value.to_owned()],
    }
}

/// Format of printed manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ManifestFormat {
    /// Documents separated by `---`
    #[default]
    Yaml,
    /// One JSON object per line
    Json,
}

/// How manifests are printed.
#[derive(Clone, Debug, Args)]
pub struct ManifestOutput {
    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        default_value = "yaml"
    )]
    format: ManifestFormat,
}

impl ManifestFormat {
    /// A manifest in this format.
    pub fn text(self, manifest: &Manifest) -> anyhow::Result<String> {
        match self {
            Self::Yaml => Ok(manifest.to_yaml()),
            Self::Json => manifest.to_json(),
        }
    }
}

impl ManifestOutput {
    /// A manifest in the wanted format.
    pub fn format(&self, manifest: &Manifest) -> anyhow::Result<String> {
        self.format.text(manifest)
    }
}
