//! One direction of a link: where it leads, and from where.

use client::{Access, Cluster};
use manifests::{kubeconfig::ClusterEntry, link::ClusterName};

use crate::link::{flags::LinkArgs, handed::HandedLink};

/// Where a link leads.
#[derive(Clone)]
pub enum LinkedTarget {
    Context(Box<TargetContext>),
    /// Its owner has handed it over.
    Handed(Box<HandedLink>),
}

/// The target cluster.
#[derive(Clone)]
pub struct TargetContext {
    pub access: Access,
    pub context: String,
    pub cluster: Cluster,
    /// As the user's kubeconfig has it.
    pub entry: ClusterEntry,
}

/// One direction of a link.
#[derive(Clone)]
pub struct Direction {
    pub target: LinkedTarget,
    /// Access to the source cluster.
    pub access: Access,
    /// Context of the source cluster.
    pub context: String,
    /// Name of the target cluster.
    pub name: ClusterName,
    /// What the flags say for this direction.
    pub args: LinkArgs,
}
