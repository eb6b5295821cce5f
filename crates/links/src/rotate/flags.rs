//! The flags that say how links are rotated.

use std::time::Duration;

use clap::Args;

use crate::typed;

/// How links are rotated.
#[derive(Clone, Debug, Args)]
pub struct RotationFlags {
    /// Rotate only credentials that are older than this, or expire within this time, such as 30d
    #[arg(long, value_name = "DURATION", value_parser = typed::days_or_duration)]
    pub older_than: Option<Duration>,
    /// Do not restart Linkerd's destination controller, and revoke nothing, because it uses the old token until it
    /// restarts. Run the command again after the restart, which then revokes it
    #[arg(long)]
    pub no_restart: bool,
    /// Also revoke the tokens of the ServiceAccount that other links may use, such as those of `link-gen`, unless a Secret
    /// of the source cluster still has them. Links in other clusters cannot be seen
    #[arg(long)]
    pub revoke_shared: bool,
    /// Show what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// How long to wait for the controller, and for the restart
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = typed::duration)]
    pub wait: Duration,
}
