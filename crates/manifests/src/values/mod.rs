//! The values of `install`. `types.rs` has one line for each: key, type, default, kind and description.
//!
//! Where a key of Linkerd's chart still applies, it is the same here, so that values files for that chart work.

mod accounts;
mod deserialize;
mod kind;
mod layers;
mod obsolete;
mod schema;
mod set;
mod types;

pub use self::accounts::refuse_taken;
#[cfg(test)]
pub use self::{
    accounts::taken,
    kind::{Kind, OUR_LABELS, Shape, pointer},
    obsolete::{KEYS as OBSOLETE, Replacement},
    schema::{documented, entries, keys},
};
pub use self::{
    deserialize::Resources,
    layers::UserValues,
    set::Typing,
    types::{
        ControllerValues, FederationValues, GatewayValues, ImageValues, NetworkPolicyValues,
        ProbeValues, VERSION, Values,
    },
};
