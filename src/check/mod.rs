//! What is wrong with a cluster of which there is a snapshot ([`rules`]), and how that is told ([`report`]). Pure.

pub mod report;
pub mod rules;
