//! The values of `install`: every knob, typed, with its default. `schema.rs` documents them.
//!
//! Keys are those of Linkerd's chart where they still mean something, so that a values file of the
//! original works. A new key needs a line in the schema; a test holds both together.

mod defaults;
mod deserialize;
mod kind;
mod layers;
mod obsolete;
mod schema;
mod set;
mod types;

pub use self::{
    layers::UserValues,
    set::Typing,
    types::{
        Controller, Federation, Gateway, Image, NetworkPolicy, Probe, Resources, VERSION, Values,
    },
};
