//! Error responses of an API server.

use http::StatusCode;
use serde_json::{Value, json};

/// An error response.
#[derive(Clone, Debug)]
pub struct Refusal {
    pub code: StatusCode,
    reason: String,
    message: String,
    details: Value,
    /// The header `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
}

/// What a request led to.
pub type AnswerOrRefusal<T> = Result<T, Refusal>;

impl Refusal {
    pub fn new(code: StatusCode, reason: &str, message: &str) -> Self {
        Self {
            code,
            reason: reason.to_owned(),
            message: message.to_owned(),
            details: json!({}),
            retry_after: None,
        }
    }

    /// An error that a test switches on.
    pub fn of(code: u16) -> Self {
        let code = StatusCode::from_u16(code).expect("a status");
        let reason = code.canonical_reason().unwrap_or_default();
        Self::new(code, &reason.replace(' ', ""), "made up")
    }

    /// The same, with the header `Retry-After`.
    pub fn retry_after(self, seconds: u32) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    pub fn not_found(resource: &str, name: &str) -> Self {
        let message = format!("{resource} {name:?} not found");
        Self {
            details: json!({ "kind": resource, "name": name }),
            ..Self::new(StatusCode::NOT_FOUND, "NotFound", &message)
        }
    }

    pub fn conflict(name: &str) -> Self {
        let message = format!(
            "the object {name:?} has been modified; please apply your changes to the latest version"
        );
        Self::new(StatusCode::CONFLICT, "Conflict", &message)
    }

    /// The answer to a creation in a namespace that is being deleted.
    pub fn terminating(namespace: &str) -> Self {
        let message = format!("namespace {namespace} is being terminated");
        let cause = json!({ "reason": "NamespaceTerminating", "message": message });
        Self {
            details: json!({ "causes": [cause] }),
            ..Self::new(StatusCode::FORBIDDEN, "Forbidden", &message)
        }
    }

    /// The `Status` that says so.
    pub fn status(&self) -> Value {
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "details": self.details,
            "code": self.code.as_u16(),
        })
    }
}
