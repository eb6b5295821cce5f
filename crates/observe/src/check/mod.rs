//! Finds the problems in a cluster's snapshot ([`rules`]), and renders them ([`report`]). Pure.

pub mod report;
pub mod rules;
