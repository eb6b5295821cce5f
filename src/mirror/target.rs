//! What a Link says about its target cluster, parsed once into types whose values are always valid.

pub mod drain;
pub(crate) mod exclusions;
pub(crate) mod export;
mod link;
pub(crate) mod networks;
pub(crate) mod policy;
pub(crate) mod queries;
pub mod tls;

pub use self::{
    exclusions::{CopiedError, Exclusions, copied_rules},
    export::{Mode, member, mode},
    link::{Gateway, Host, InvalidLink, Probe, Target},
    networks::{
        ClusterNetworks, NetworkError, Refusal, Refused, networks, refusal, refused_message,
    },
    policy::{FederatedThrough, Federation, PolicyError, allowed_namespaces},
    queries::{NAMES, Queries, slices_of, slices_of_probes},
};
