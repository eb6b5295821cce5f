//! The flags of `fleet rotate`.

use std::{num::NonZero, path::PathBuf};

use clap::{Args, ValueHint};
use clap_complete::ArgValueCompleter;

use crate::{
    cli::{
        fleet::{complete, format::FleetFormat},
        rotate::RotationFlags,
    },
    fleet::LinkEnds,
    manifests::link::ClusterName,
};

const EXAMPLES: &str = "\
Examples:
  # Show what would be done, and change nothing
  linkerd-mc fleet rotate --file fleet.yaml --dry-run

  # Rotate all credentials that are older than 30 days
  linkerd-mc fleet rotate --file fleet.yaml --older-than 30d

  # Rotate what has to do with east, after its tokens have leaked
  linkerd-mc fleet rotate --file fleet.yaml --cluster east";

/// Replace the credentials of the links without interrupting traffic
///
/// Does what `rotate` does, for all links of the file or some of them: each link gets a new token, and the old one is
/// revoked when the controller and Linkerd use the new one. The links of a source cluster are rotated together: all get
/// their new tokens, then Linkerd's destination controller is restarted once, and then the old tokens are revoked. Source
/// clusters are rotated side by side.
///
/// A cluster that does not answer is named, and delays no other. As long as it does not, Linkerd is not restarted where
/// that would cut it off from that cluster: the new tokens are in use there, and the old ones stay. Run the command again,
/// also after an interrupt: it does what is left.
///
/// Exit codes: 0 done, or nothing to do, 1 a link failed (its old token still works), 2 invalid usage.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli::fleet) struct FleetRotateArgs {
    /// File with the fleet
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// Rotate the links from and to this cluster. Can be repeated
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(complete::clusters))]
    pub(super) cluster: Vec<ClusterName>,
    /// Rotate this link. Can be repeated
    #[arg(long, value_name = "SOURCE/TARGET", value_parser = link_ends, add = ArgValueCompleter::new(complete::links))]
    pub(super) link: Vec<LinkEnds>,
    /// How many links get their new tokens, and how many clusters are restarted, at the same time
    #[arg(long, value_name = "NUMBER", default_value = "4")]
    pub(super) at_most: NonZero<u8>,
    #[command(flatten)]
    pub(super) flags: RotationFlags,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t = FleetFormat::Text)]
    pub(super) output: FleetFormat,
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
