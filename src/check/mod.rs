//! Finds the problems in a cluster's snapshot ([`rules`]), and renders them ([`report`]). Pure.

pub(crate) mod report;
pub(crate) mod rules;
