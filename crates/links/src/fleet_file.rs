//! A fleet: one file says which clusters link to which, and how. Pure: no client, no clock.
//!
//! [`read`] turns the text of the file into a [`Fleet`]: the clusters, and each directed link with its settings and their
//! origins. What is invalid is an error with its line. The settings are flags of `link`; their descriptions and rules are
//! passed in ([`LinkFlags`]).

mod compose;
mod entries;
mod expand;
mod file;
mod flags;
mod keys;
mod reader;
mod schema;
#[cfg(test)]
mod tests;
mod types;

pub use crate::fleet_file::{
    compose::{ComposedCluster, ComposedFleet},
    file::{ClusterSources, profile_queries, read},
    flags::LinkFlags,
    schema::schema,
    types::{
        ComposedSettings, FlagValue, Fleet, FleetCluster, FleetLink, FoundCluster, LinkEnds,
        ProfileQuery,
    },
};
