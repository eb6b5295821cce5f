//! What a Link says about its target cluster, parsed once into types whose values are always valid.

mod api_gateway;
pub mod drain;
pub(crate) mod exclusions;
pub(crate) mod export;
mod link;
pub(crate) mod networks;
pub(crate) mod policy;
pub mod tool_keys;

pub use self::{
    api_gateway::ApiGatewaySettings,
    exclusions::{CopiedError, Exclusions, copied_rules},
    export::{LocalQueries, MirrorMode, Queries, Query, local_queries, member, mode, slices_of},
    link::{
        ApiGateway, DEFAULT_DOMAIN, Gateway, Host, InvalidLink, Probe, Target,
        discovers_through_gateway, has_discovery, is_through_gateway,
    },
    networks::{ClusterNetworks, Refused, networks, refusal, refused_message},
    policy::{Copied, FederatedThrough, Federation, PolicyError, allowed_namespaces},
};
