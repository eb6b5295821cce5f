//! What a Link says about its target cluster, parsed once into types whose values are always valid.

pub mod drain;
pub(crate) mod exclusions;
pub(crate) mod export;
mod link;
pub(crate) mod networks;
pub(crate) mod policy;
pub mod tool_keys;

pub use self::{
    exclusions::{CopiedError, Exclusions, copied_rules},
    export::{LocalQueries, Queries, Query, local_queries, member, mode, slices_of},
    link::{Gateway, InvalidLink, Probe},
    networks::refusal,
    policy::{Copied, PolicyError},
};
pub use self::{
    link::{Host, Target},
    networks::{ClusterNetworks, Refused, networks, refused_message},
    policy::{ApiServerThrough, FederatedThrough, Federation, allowed_namespaces},
};
