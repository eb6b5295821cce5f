//! The flags of `fleet rotate`.

use std::{num::NonZero, path::PathBuf};

use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;

use crate::{
    cli::{
        common::args,
        fleet::{complete, format::FleetFormat, plugins::PluginFlags},
        rotate::RotationFlags,
    },
    fleet::LinkEnds,
    manifests::link::ClusterName,
};

const EXAMPLES: &str = "\
Examples:
  # Show what would be done, and change nothing
  linkerd-mc fleet rotate --file fleet.yaml --dry-run

  # Rotate all credentials that are older than 30 days, such as in a CronJob
  linkerd-mc fleet rotate --file fleet.yaml --older-than 30d --yes

  # Rotate what has to do with east, after its tokens have leaked
  linkerd-mc fleet rotate --file fleet.yaml --cluster east

  # With access to east alone: make new tokens for those who link to it
  linkerd-mc fleet rotate --file fleet.yaml --only east --hand-over handed

  # With access to west alone: take them, and print what remains for east
  linkerd-mc fleet rotate --file fleet.yaml --only west --take-over handed

  # With access to east alone: revoke the tokens before the one that west uses
  linkerd-mc fleet rotate --file fleet.yaml --only east \\
    --in-use west=west-token-x7k2p";

/// Replace the credentials of the links without interrupting traffic
///
/// Does what `rotate` does, for all links of the file or some of them: each link gets a new token, and the old one is
/// revoked when the controller and Linkerd use the new one. The links of a source cluster are rotated together: all get
/// their new tokens, then Linkerd's destination controller is restarted once, and then the old tokens are revoked. Source
/// clusters are rotated side by side.
///
/// Unless --cluster or --link chooses the links, the command shows what it will do, as --dry-run does, and asks.
///
/// A cluster that does not answer is named, and delays no other. As long as it does not, Linkerd is not restarted where
/// that would cut it off from that cluster: the new tokens are in use there, and the old ones stay. Run the command again,
/// also after an interrupt: it does what is left.
///
/// If nobody has access to both clusters of a link, the rotation has three steps, each with --only: the target cluster makes
/// a new token (--hand-over), the source cluster takes it (--take-over), and the target cluster revokes the older ones
/// (--in-use). What remains for others is printed as commands.
///
/// Exit codes: 0 done, or nothing to do, 1 a link failed (the message says which token works), 2 invalid usage.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli::fleet) struct FleetRotateArgs {
    /// File with the fleet
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    #[command(flatten)]
    pub(super) plugins: PluginFlags,
    /// Rotate the links from and to this cluster. Can be repeated
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::clusters))]
    pub(super) cluster: Vec<ClusterName>,
    /// Rotate this link. Can be repeated
    #[arg(long, value_name = "SOURCE/TARGET", value_parser = link_ends, add = ArgValueCompleter::new(complete::links))]
    pub(super) link: Vec<LinkEnds>,
    /// Most links that get new tokens at the same time, and most clusters in which Linkerd restarts at the same time
    #[arg(long, value_name = "NUMBER", default_value = "4")]
    pub(super) at_most: NonZero<u8>,
    /// Use only this cluster of the file, or this context. Can be repeated
    #[arg(long, value_name = "CLUSTER", add = ArgValueCompleter::new(complete::clusters))]
    pub(super) only: Vec<String>,
    /// For source clusters that cannot be used, make new tokens and write each to DIR/SOURCE/TARGET.yaml, which only you can
    /// read
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "only")]
    pub(super) hand_over: Option<PathBuf>,
    /// From target clusters that cannot be used, take the tokens in DIR/SOURCE/TARGET.yaml. Without a file, the Secrets of the
    /// link count as the new ones, for example because a store of secrets has written them
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, requires = "only")]
    pub(super) take_over: Option<PathBuf>,
    /// The source cluster uses the token of this Secret: revoke older ones. Can be repeated
    #[arg(long, value_name = "SOURCE=SECRET", requires = "only", value_parser = in_use)]
    pub(super) in_use: Vec<InUseToken>,
    #[command(flatten)]
    pub(super) flags: RotationFlags,
    /// Do not ask before all links are rotated
    #[arg(long)]
    pub(super) yes: bool,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = FleetFormat::Text)]
    pub(super) output: FleetFormat,
}

impl FleetRotateArgs {
    /// Whether it changes clusters.
    pub(in crate::cli::fleet) fn writes(&self) -> bool {
        !self.flags.dry_run
    }

    /// Whether somebody has to confirm it: it concerns all links of the file.
    pub(super) fn asks(&self) -> bool {
        self.writes() && !self.yes && self.cluster.is_empty() && self.link.is_empty()
    }
}

/// The token that a source cluster uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InUseToken {
    pub(super) source: ClusterName,
    /// The Secret with the token, in the target cluster.
    pub(super) secret: String,
}

/// Parses `SOURCE=SECRET`.
fn in_use(text: &str) -> Result<InUseToken, String> {
    let (source, secret) = text
        .split_once('=')
        .ok_or("must be SOURCE=SECRET, such as west=west-token-x7k2p")?;
    Ok(InUseToken {
        source: source
            .parse()
            .map_err(|error: <ClusterName as std::str::FromStr>::Err| error.to_string())?,
        secret: args::object_name(secret)?,
    })
}

/// Parses `SOURCE/TARGET`.
fn link_ends(text: &str) -> Result<LinkEnds, String> {
    let (source, target) = text
        .split_once('/')
        .ok_or("must be SOURCE/TARGET, such as west/east")?;
    let name = |name: &str| {
        name.parse::<ClusterName>()
            .map_err(|error| error.to_string())
    };
    Ok(LinkEnds {
        source: name(source)?,
        target: name(target)?,
    })
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
    fn a_link_is_its_source_and_its_target() {
        let ends = link_ends("west/east").unwrap();
        assert_eq!(
            (ends.source.to_string(), ends.target.to_string()),
            ("west".to_owned(), "east".to_owned())
        );
        for wrong in ["", "west", "west/", "/east", "west/east/north", "West/east"] {
            assert!(link_ends(wrong).is_err(), "{wrong}");
        }
    }
}
