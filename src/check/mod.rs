//! Checks of linked clusters: [`gather`] collects facts (the only part with a client), [`rules`] evaluates them (pure),
//! and [`report`] renders the results (pure).
//!
//! `status` and `graph` also use [`survey`] and [`topology`]: which cluster links to which, and the state of these
//! Links.

mod access;
pub mod anchors;
mod config;
mod confinement;
pub mod credentials;
pub mod facts;
pub mod foreign;
pub mod gather;
pub mod preferred;
pub mod range;
mod remote;
pub mod report;
pub mod rules;
pub mod state;
pub mod survey;
pub mod topology;
mod workloads;

/// The text without control characters. Names and messages may come from a hostile cluster.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\n' && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}
