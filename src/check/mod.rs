//! What is known about linked clusters ([`gather`], the only part with a client), what is wrong with it
//! ([`rules`], pure), and how that is told ([`report`], pure).
//!
//! [`survey`] and [`topology`] are the part that `status` and `graph` need as well: which cluster links to
//! which, and how those Links are.

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

/// The text without what could steer a terminal. Names and messages may come from a hostile cluster.
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
