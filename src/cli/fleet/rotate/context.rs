//! What all parts of a rotation need.

use tokio::sync::Semaphore;

use super::args::FleetRotateArgs;
use crate::cli::{common::args::Global, fleet::loaded::LoadedFleet, rotate::RotationFlags};

/// All that the rotation of a cluster needs.
pub(super) struct FleetRotation<'a> {
    pub(super) global: &'a Global,
    pub(super) args: &'a FleetRotateArgs,
    /// Those of the arguments, or of a dry run before them.
    pub(super) flags: RotationFlags,
    pub(super) loaded: &'a LoadedFleet,
    /// Bounds what happens at the same time.
    pub(super) limit: Semaphore,
}
