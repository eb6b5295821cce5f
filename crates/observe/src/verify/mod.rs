//! The judgements of `verify`: which modes a Link offers, whose identity a canary should see, and the report. Pure.
//!
//! [`clusters::canaries`](crate::clusters::canaries) makes the canaries and asks them.

mod answers;
mod modes;
mod report;

pub use self::{
    answers::{client_identity, seen_identity},
    modes::{CanaryMode, CanaryService},
    report::{StepResult, VerifyReport, VerifyStep},
};
