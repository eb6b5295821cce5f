//! Why Linkerd's controllers did not answer.

use std::time::Duration;

use thiserror::Error;
use tonic::Code;

/// Why Linkerd's controllers did not answer a question.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum LinkerdApiError {
    /// No Pod of the controllers is ready.
    #[error("no Pod of linkerd-destination is ready in the namespace {0}")]
    NoController(String),
    /// The user may not read the Pods, or not forward to them.
    #[error("{0}")]
    Forbidden(String),
    /// There is no connection.
    #[error("cannot connect to {0}: {1}")]
    Unreachable(String, String),
    /// The controller knows no such target. Proxies then treat the address as one outside of the mesh.
    #[error("Linkerd knows no such target: {0}")]
    NotFound(String),
    /// The controller refused the question, or failed.
    #[error("Linkerd's controller answers {0:?}: {1}")]
    Refused(Code, String),
    /// There was no answer.
    #[error("no answer from Linkerd's controller within {} s", .0.as_secs_f32())]
    Late(Duration),
    /// The answer makes no sense.
    #[error("cannot read the answer of Linkerd's controller: {0}")]
    Malformed(&'static str),
}
