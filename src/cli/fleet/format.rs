//! How commands of `fleet` print what they found.

use clap::ValueEnum;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FleetFormat {
    /// For people
    Text,
    /// One JSON document
    Json,
}
