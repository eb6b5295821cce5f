//! What the commands of a fleet share.

use std::{path::PathBuf, time::Duration};

use clap::{Args, ValueHint};

use crate::cli::common::args;

/// Exit code if there is something to do, as for `plan`.
pub(super) const PENDING: u8 = 2;

/// The file, and how its clusters are read.
#[derive(Debug, Args)]
pub(super) struct FleetSource {
    /// File with the fleet
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(super) file: PathBuf,
    /// How long to read each cluster
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = args::timeout)]
    pub(super) timeout: Duration,
}
