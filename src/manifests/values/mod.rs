//! The values of `install`, typed, with defaults. `schema.rs` documents them.
//!
//! Keys are those of Linkerd's chart where they still apply, so that its values files work. A new key needs a line in
//! the schema; a test compares both.

mod defaults;
mod deserialize;
mod kind;
mod layers;
mod obsolete;
mod schema;
mod set;
mod types;

#[cfg(test)]
pub(in crate::manifests) use self::{
    kind::{Kind, OUR_LABELS},
    obsolete::{Fate, KEYS as OBSOLETE},
    schema::{GROUPS, KEYS, Key, documented},
};
pub use self::{
    layers::UserValues,
    set::Typing,
    types::{
        Controller, Federation, Gateway, Image, NetworkPolicy, Probe, Resources, VERSION, Values,
    },
};
