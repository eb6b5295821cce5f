//! THE CORE: what should stand in the local cluster, given everything that is known. Pure.
//!
//! Data in, data out: no client, no clock, no async, no logging. [`World`] holds what is known,
//! [`Key`] names a piece of work, [`plan`] compares what should be with what is and returns the difference,
//! [`status`] turns what came of it into a Link's status. The controller feeds it watch events, the `plan`
//! command feeds it lists, the tests feed it everything.
//!
//! A file names only files below it. From the top: `plan`, which goes by the key; `mirrors`, `federated` and `gateway`, which
//! plan each kind of key; `claims`, `membership`, `preferred` and `forbidden`, which say who may stand where; `stand`,
//! `endpoints` and `service`, which make the objects; `reach`; what is known, in `world`, `links`, `remote` and `store`; and
//! the values that all of these speak of.

mod budget;
mod changes;
mod claims;
mod dirty;
pub mod drain;
mod endpoints;
mod exclusions;
pub mod expiry;
mod export;
mod federated;
mod forbidden;
mod gateway;
mod holder;
mod key;
mod limit;
mod links;
mod membership;
mod metadata;
mod mirrors;
mod names;
mod namespaces;
mod networks;
mod outcome;
mod plan;
mod policy;
mod preferred;
mod queries;
mod reach;
mod remote;
mod selector;
mod service;
mod stand;
pub mod status;
mod store;
mod target;
pub mod tls;
mod wanted;
mod world;
mod write;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod properties;

pub use budget::Budget;
pub use exclusions::{CopiedError, Exclusions, copied_rules};
pub use export::{Mode, member, mode};
pub use key::{Key, Names};
pub use limit::{LeftOut, Limit, Limits, Listing, Room, Weight};
pub use links::{Known, LinkEntry, Links};
pub use metadata::{Owner, is_managed, owner};
pub use names::{FEDERATED_SUFFIX, endpoint_mirror_name, federated_name, mirror_name, probe_name};
pub use namespaces::{Namespace, NamespacePhase, Namespaces};
pub use networks::{
    ClusterNetworks, NetworkError, Refusal, Refused, networks, refusal, refused_message,
};
pub use outcome::{Plan, Problem, Reason, RemoteRef, Report, Reported};
pub use plan::plan;
pub use policy::{FederatedThrough, Federation, PolicyError, allowed_namespaces};
pub use queries::{NAMES, Queries, slices_of, slices_of_probes};
pub use reach::Reach;
pub use remote::{GatewayState, Liveness, Remote};
pub use selector::{Selector, SelectorError};
pub use store::{Grouped, Inserted, Objects};
pub use target::{Gateway, Host, InvalidLink, Probe, Target};
pub use world::{Config, World};
pub use write::{Kind, Object, Patch, Write};
