//! THE CORE: what should stand in the local cluster, given everything that is known. Pure.
//!
//! Data in, data out: no client, no clock, no async, no logging. [`State`] holds what is known,
//! [`Key`] names a piece of work, [`plan`] compares what should be with what is and returns the difference,
//! [`status`] turns what came of it into a Link's status. The controller feeds it watch events, the `plan`
//! command feeds it lists, the tests feed it everything.
//!
//! A file names only files below it. From the top: `plan`, which goes by the key; `reconcile`, which plans each kind of key;
//! `triggers`, which says which keys a change concerns; `ownership`, which says who may have which name; `desired`, which makes
//! the objects; `state`, what is known; and the values that all of these speak of.

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
    Links, Listing, Liveness, Namespace, NamespacePhase, Namespaces, RemoteState, Room, State,
    Store, Weight,
};
pub use target::{
    ClusterNetworks, CopiedError, Exclusions, FederatedThrough, Federation, Gateway, Host,
    InvalidLink, Mode, NAMES, NetworkError, PolicyError, Probe, Queries, Refusal, Refused, Target,
    allowed_namespaces, copied_rules, member, mode, networks, refusal, refused_message, slices_of,
    slices_of_probes,
};
pub use write::{Object, ObjectKind, Patch, Write};
