//! How a Link is doing, in one word, and what is wrong with it. Pure.

use mirror_core::api::conditions::CREDENTIALS_EXPIRING;
use serde::Serialize;

use super::{link_summary::LinkSummary, snapshot::LinkSnapshot};

/// How a Link is doing, worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum LinkStanding {
    /// There is no Link.
    Missing,
    /// Its condition `Ready` is false.
    NotReady,
    /// It is ready, and its gateway does not answer.
    DeadGateway,
    /// Nobody reports it now.
    Old,
    /// Its source cluster was not read, or its controller has not reported.
    Unknown,
    /// Its credentials expire soon, or have expired.
    Expiring,
    /// Some Services are not mirrored.
    Incomplete,
    /// Its cluster is drained.
    Drained,
    /// All is well.
    Ready,
}

impl LinkStanding {
    /// All states, worst first.
    pub const ALL: [Self; 9] = [
        Self::Missing,
        Self::NotReady,
        Self::DeadGateway,
        Self::Old,
        Self::Unknown,
        Self::Expiring,
        Self::Incomplete,
        Self::Drained,
        Self::Ready,
    ];

    /// The state in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NotReady => "not ready",
            Self::DeadGateway => "gateway dead",
            Self::Old => "old",
            Self::Unknown => "unknown",
            Self::Expiring => "expiring",
            Self::Incomplete => "incomplete",
            Self::Drained => "drained",
            Self::Ready => "ready",
        }
    }

    /// The state of a Link that exists, and what is wrong with it.
    pub fn of(link: &LinkSnapshot, summary: &LinkSummary) -> (Self, Option<String>) {
        let expiring = link.problem_condition(CREDENTIALS_EXPIRING);
        let said = |message: Option<&str>, or: &str| Some(message.unwrap_or(or).to_owned());
        let message = summary.message.as_deref();
        let gateway = summary.gateway.as_ref();
        match summary.ready {
            Some(false) => (Self::NotReady, said(message, "it is not ready")),
            None => (
                Self::Unknown,
                said(message, "the controller has not reported it"),
            ),
            Some(true) if summary.is_old() => {
                let why = "no controller is active, so this is old";
                (Self::Old, Some(why.to_owned()))
            }
            Some(true) if gateway.is_some_and(|gateway| gateway.alive == Some(false)) => (
                Self::DeadGateway,
                said(message, "its gateway does not answer"),
            ),
            Some(true) => {
                if let Some((_, message)) = expiring {
                    (Self::Expiring, Some(message.to_owned()))
                } else if let Some(unmirrored) = summary.unmirrored() {
                    (Self::Incomplete, Some(unmirrored))
                } else if let Some(until) = &summary.drained {
                    (Self::Drained, Some(format!("drained {until}")))
                } else {
                    (Self::Ready, None)
                }
            }
        }
    }
}
