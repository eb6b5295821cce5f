//! The core: decides what should exist in the local cluster, given everything that is known. Pure.
//!
//! It has no client, no clock, no async code and no log. [`State`] is what is known. [`Key`] names a piece of work.
//! [`plan`] compares desired objects with existing ones, and returns the writes. [`status`] builds a Link's status from
//! the results. The controller feeds the state with watch events, the `plan` command with lists.
//!
//! Files have no cyclic dependencies. From the top: `plan`, `triggers` and `status`; `reconcile`, which plans
//! each kind of key; `ownership`, which decides who may have which name and take part in which Service; `desired`,
//! which builds the objects; `state`, which is what is known; `target`, which is what a Link says; and the values that
//! all of these use.

mod desired;
mod key;
mod metadata;
mod name_owner;
mod names;
mod outcome;
mod ownership;
mod plan;
mod reconcile;
mod state;
pub mod status;
pub mod target;
mod triggers;
mod write;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod properties;

pub use desired::Reach;
pub use key::{Key, Names};
pub use metadata::{Owner, is_managed, owner};
pub use names::{FEDERATED_SUFFIX, endpoint_mirror_name, federated_name, mirror_name, probe_name};
pub use outcome::{Outcome, Plan, Problem, Reason, RemoteRef, ServiceOutcome};
pub use plan::plan;
pub use state::{
    Budget, Config, GatewayState, Grouped, Inserted, Known, LeftOut, Limit, Limits, LinkEntry,
    Links, Listing, Liveness, Local, Namespace, NamespacePhase, Namespaces, RemoteState, Room,
    State, Store, Weight,
};
pub use target::{
    ClusterNetworks, CopiedError, Exclusions, FederatedThrough, Federation, Gateway, Host,
    InvalidLink, Mode, NAMES, NetworkError, PolicyError, Probe, Queries, Refusal, Refused, Target,
    allowed_namespaces, copied_rules, member, mode, networks, refusal, refused_message, slices_of,
    slices_of_probes,
};
pub use write::{Object, ObjectKind, Patch, Write};
