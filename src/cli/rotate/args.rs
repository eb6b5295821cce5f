//! The flags of `rotate`.

use std::num::NonZero;

use clap::Args;
use clap_complete::ArgValueCompleter;
use links::{fleet_file::LinkEnds, rotate::flags::RotationFlags};
use manifests::link::ClusterName;
use mirror_core::api::labels;

use crate::cli::{
    common::{args, complete, format::OutputFormat},
    fleet::{FleetFile, clusters, rotated},
};

const EXAMPLES: &str = "\
Examples:
  # Rotate the credentials with which west accesses east; both are contexts
  linkerd-mc rotate east --source west

  # Show what would be done, and change nothing
  linkerd-mc rotate east --source west --dry-run

  # Rotate all credentials that are older than 30 days, such as in a CronJob
  linkerd-mc rotate --source west --older-than 30d --yes -o json

  # Rotate those of all links of a file of `fleet`
  linkerd-mc rotate --file fleet.yaml --older-than 30d --yes

  # Rotate what has to do with east, after its tokens have leaked
  linkerd-mc rotate --file fleet.yaml east

  # With access to west alone, which has new credentials: restart Linkerd, and
  # print what remains for others
  linkerd-mc rotate --file fleet.yaml --only west

Exit codes: 0 done, or nothing to do; 1 a link failed (see its message).";

/// Replace the credentials of links without interrupting traffic
///
/// For each link, the command creates a token Secret in the target cluster. It writes the token into the controller's
/// Secret, and waits until the Link's status shows that it is in use. Then it writes the token into Linkerd's Secret,
/// restarts Linkerd's destination controller, which reads credentials only at startup, and deletes the old token. The links
/// of a source cluster are rotated together, with one restart. If the controller cannot use the token, everything is
/// restored. If the command is interrupted, run it again: it continues with the token that it created, and does what is
/// left to do.
///
/// Without names, all links are rotated. The command then shows what it will do, as --dry-run does, and asks.
///
/// With --file, the links are those of a file of `fleet`. Source clusters are rotated side by side. A cluster that does not
/// answer is named, and delays no other. As long as it does not, Linkerd is not restarted where that would cut it off from
/// that cluster: the new tokens are in use there, and the old ones stay. Run the command again: it does what is left.
///
/// If nobody has access to both clusters of a link, `fleet credentials --new-tokens` makes tokens in the target cluster, and
/// `link --from-file` takes them in the source cluster. There, `rotate --only` waits until they are in use, and restarts
/// Linkerd. In the target cluster, it revokes the older ones (--in-use). What remains for others is printed as commands.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Rotate {
    /// Target clusters of the links [default: all]. With --file, clusters of the file, for the links from and to them, or
    /// single links as SOURCE/TARGET
    #[arg(value_name = "CLUSTER", value_parser = choice, add = ArgValueCompleter::new(rotated))]
    pub names: Vec<LinkChoice>,
    #[command(flatten)]
    pub fleet: FleetFile,
    /// Context of the target cluster [default: the context with the name of the cluster, or that a tool made for it]
    #[arg(long, value_name = "CONTEXT", requires = "names", conflicts_with = "file", add = ArgValueCompleter::new(complete::contexts))]
    pub target: Option<String>,
    /// Context of the source cluster [default: --context, or the current one]
    #[arg(long, value_name = "CONTEXT", conflicts_with = "file", add = ArgValueCompleter::new(complete::contexts))]
    pub source: Option<String>,
    /// Namespace of the Links
    #[arg(long, value_name = "NAMESPACE", default_value = labels::MULTICLUSTER_NAMESPACE, conflicts_with = "file", value_parser = args::namespace, add = ArgValueCompleter::new(complete::namespaces))]
    pub namespace: String,
    /// Use only this cluster of the file, or this context. Can be repeated
    #[arg(long, value_name = "CLUSTER", requires = "file", add = ArgValueCompleter::new(clusters))]
    pub only: Vec<String>,
    /// The source cluster uses the token of this Secret: revoke older ones. Can be repeated
    #[arg(long, value_name = "SOURCE=SECRET", requires = "only", value_parser = in_use)]
    pub in_use: Vec<InUseToken>,
    /// Most links that get new tokens at the same time, and most clusters in which Linkerd restarts at the same time
    #[arg(long, value_name = "NUMBER", default_value = "4")]
    pub at_most: NonZero<u8>,
    #[command(flatten)]
    pub flags: RotationFlags,
    /// Do not ask before all links are rotated
    #[arg(long)]
    pub yes: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: OutputFormat,
}

impl Rotate {
    /// Whether it changes clusters.
    pub fn writes(&self) -> bool {
        !self.flags.dry_run
    }

    /// Whether somebody has to confirm it: it concerns all links.
    pub fn asks(&self) -> bool {
        self.writes() && !self.yes && self.names.is_empty()
    }
}

/// Links that are to be rotated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkChoice {
    Cluster(ClusterName),
    Link(LinkEnds),
}

/// The token that a source cluster uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUseToken {
    pub source: ClusterName,
    /// The Secret with the token, in the target cluster.
    pub secret: String,
}

/// Parses `SOURCE=SECRET`.
fn in_use(text: &str) -> Result<InUseToken, String> {
    let (source, secret) = text
        .split_once('=')
        .ok_or("must be SOURCE=SECRET, such as west=west-token-x7k2p")?;
    Ok(InUseToken {
        source: cluster(source)?,
        secret: args::object_name(secret)?,
    })
}

/// Parses the name of a cluster, or `SOURCE/TARGET`.
pub fn choice(text: &str) -> Result<LinkChoice, String> {
    Ok(match text.split_once('/') {
        None => LinkChoice::Cluster(cluster(text)?),
        Some((source, target)) => LinkChoice::Link(LinkEnds {
            source: cluster(source)?,
            target: cluster(target)?,
        }),
    })
}

fn cluster(name: &str) -> Result<ClusterName, String> {
    name.parse::<ClusterName>()
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_in_use_is_a_cluster_and_a_secret() {
        let token = in_use("west=west-token-x").unwrap();
        assert_eq!(
            (token.source.to_string(), token.secret),
            ("west".to_owned(), "west-token-x".to_owned())
        );
        for wrong in ["", "west", "west=", "=x", "west=a=b", "west=A"] {
            assert!(in_use(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_choice_is_a_cluster_or_two() {
        assert_eq!(
            choice("west").unwrap(),
            LinkChoice::Cluster("west".parse().unwrap())
        );
        assert!(matches!(choice("west/east").unwrap(), LinkChoice::Link(_)));
        for wrong in ["", "west/", "/east", "a/b/c", "A"] {
            assert!(choice(wrong).is_err(), "{wrong}");
        }
    }
}
