//! Flags that several commands share.

use std::{path::PathBuf, time::Duration};

use clap::{ArgAction, Args, ValueEnum};
use clap_complete::ArgValueCompleter;

use super::complete;

use crate::{
    api::{
        duration::{DurationError, parse_go_duration},
        labels,
        names::is_dns_label,
    },
    client::Access,
    manifests::render::Manifest,
};

/// Flags of every command.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Path of the kubeconfig [default: $KUBECONFIG, ~/.kube/config, then in-cluster]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: the current context]
    #[arg(long, global = true, value_name = "NAME", add = ArgValueCompleter::new(complete::contexts))]
    pub(crate) context: Option<String>,
    /// User to impersonate
    #[arg(long = "as", global = true, value_name = "USER")]
    pub(crate) as_user: Option<String>,
    /// Group to impersonate (repeatable)
    #[arg(long = "as-group", global = true, value_name = "GROUP")]
    pub(crate) as_groups: Vec<String>,
    /// Address of the API server; overrides the kubeconfig's
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub(crate) api_addr: Option<String>,
    /// Namespace of Linkerd's control plane
    #[arg(short = 'L', long, global = true, value_name = "NAMESPACE", default_value = labels::LINKERD_NAMESPACE, add = ArgValueCompleter::new(complete::namespaces))]
    pub(crate) linkerd_namespace: String,
    /// Print debug logs to stderr
    // An optional value, because `linkerd check` passes `--verbose=false`.
    #[arg(
        long, global = true, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
        default_value_t = false, default_missing_value = "true",
        hide_default_value = true, hide_possible_values = true, value_name = "BOOL"
    )]
    pub(crate) verbose: bool,
}

impl Global {
    /// The cluster that these flags name.
    pub(crate) fn access(&self) -> Access {
        Access {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
            as_user: self.as_user.clone(),
            as_groups: self.as_groups.iter().flat_map(|g| groups(g)).collect(),
            api_addr: self.api_addr.clone(),
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
pub(crate) enum ManifestFormat {
    /// Documents separated by `---`
    #[default]
    Yaml,
    /// One JSON object per line
    Json,
}

/// How manifests are printed.
#[derive(Clone, Debug, Args)]
pub(crate) struct Output {
    /// Output format
    #[arg(
        short = 'o',
        long = "output",
        value_name = "FORMAT",
        default_value = "yaml"
    )]
    format: ManifestFormat,
}

impl Output {
    /// A manifest in the wanted format.
    pub(crate) fn format(&self, manifest: &Manifest) -> String {
        match self.format {
            ManifestFormat::Yaml => manifest.to_yaml(),
            ManifestFormat::Json => manifest.to_json(),
        }
    }
}

/// Parses the name of a namespace.
pub(crate) fn namespace(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err(
            "must be a DNS label: up to 63 lowercase letters, digits and '-', starting and ending with a letter or digit"
                .to_owned(),
        )
    }
}

/// Parses the name of an object such as a ServiceAccount: DNS labels joined by dots.
pub(crate) fn object_name(text: &str) -> Result<String, String> {
    if text.len() <= 253 && text.split('.').all(is_dns_label) {
        Ok(text.to_owned())
    } else {
        Err("must consist of lowercase letters, digits, '-' and '.', and start and end with a letter or digit".to_owned())
    }
}

/// Parses a duration such as `30s` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, DurationError> {
    parse_go_duration(text)
}

/// Parses days, such as `30d`, or any other duration.
pub(crate) fn days_or_duration(text: &str) -> Result<Duration, String> {
    let days = text.trim().strip_suffix('d').map(str::parse::<u32>);
    match days {
        Some(Ok(days)) => Ok(Duration::from_secs(u64::from(days) * 86_400)),
        _ => duration(text).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_durations_are_in_days_or_as_all_others() {
        let hours = |hours: u64| Ok(Duration::from_secs(hours * 3600));
        assert_eq!(days_or_duration("30d"), hours(720));
        assert_eq!(days_or_duration("720h"), hours(720));
        for text in ["d", "1.5d", "-1d", "soon", ""] {
            assert!(days_or_duration(text).is_err(), "{text:?}");
        }
    }
}
