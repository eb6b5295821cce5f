//! The core: decides what should exist in the local cluster, given everything that is known. Pure.
//!
//! It has no client, no clock, no async code and no log. [`State`] is what is known. [`Key`] names a piece of work.
//! [`plan`] compares desired objects with existing ones, and returns the writes. [`link_status`] builds a Link's status
//! from the results. The controller feeds the state with watch events, the `plan` command with lists.
//!
//! Files have no cyclic dependencies. From the top: `triggers` and `link_status`; `reconcile`, which plans each kind of
//! key; `ownership`, which decides who may have which name and take part in which Service; `desired`, which builds the
//! objects; `state`, which is what is known; `target`, which is what a Link says; and the values that all of these use.

mod desired;
mod key;
pub mod link_status;
mod metadata;
mod names;
mod outcome;
mod ownership;
mod reconcile;
mod state;
pub mod target;
mod triggers;
mod write;

#[cfg(any(test, feature = "fixtures"))]
#[cfg_attr(not(test), allow(dead_code, reason = "other crates use some of them"))]
#[allow(
    missing_docs,
    clippy::missing_panics_doc,
    clippy::panic,
    clippy::return_self_not_must_use,
    clippy::unwrap_used,
    reason = "only tests use them"
)]
pub mod fixtures;
#[cfg(test)]
mod properties;

pub use key::{Key, Names};
pub use metadata::{Owner, is_managed, is_our_route, owner};
pub use names::{
    API_SERVER_PORT, API_SERVER_SERVICE, FEDERATED_SUFFIX, GatewayService, endpoint_mirror_name,
    federated_name, mirror_name,
};
pub use outcome::{
    CLUSTER_IP_COST, Confirmed, Outcome, Plan, Problem, Reason, RemoteRef, ServiceOutcome,
};
pub use ownership::preferred::{active_clusters, has_member_in};
pub use reconcile::plan;
pub use state::{
    Config, GatewayState, Indexed, Inserted, Limit, Limits, LinkEntry, LinkEntryMut, Links,
    Liveness, Local, Namespace, NamespacePhase, Namespaces, Omitted, RemoteState, State, Store,
};
pub use target::{
    ApiGateway, ApiGatewaySettings, ClusterNetworks, Copied, CopiedError, DEFAULT_DOMAIN,
    Exclusions, FederatedThrough, Federation, Gateway, Host, LocalQueries, MirrorMode, PolicyError,
    Probe, Queries, Query, Refused, Target, allowed_namespaces, copied_rules,
    discovers_through_gateway, has_discovery, is_through_gateway, local_queries, member, mode,
    networks, refusal, refused_message, slices_of,
};
#[cfg(test)]
pub(crate) use target::{InvalidLink, networks::Refusal};
pub use write::{Object, ObjectKind, Patch, Write};
