//! The values of `install`. `types.rs` has one line for each: key, type, default, kind and description.
//!
//! Keys are those of Linkerd's chart where they still apply, so that its values files work.

mod deserialize;
mod kind;
mod layers;
mod obsolete;
mod schema;
mod set;
mod types;

pub use self::{
    deserialize::Resources,
    layers::UserValues,
    set::Typing,
    types::{Controller, Federation, Gateway, Image, NetworkPolicy, Probe, VERSION, Values},
};
#[cfg(test)]
pub(in crate::manifests) use self::{
    kind::{Kind, OUR_LABELS},
    obsolete::{Fate, KEYS as OBSOLETE},
    schema::{GROUPS, KEYS, Key, documented},
};
