//! Requests with a deadline, and what came instead of the answer that was asked for.

use std::time::Duration;

use kube::core::Status;
use tokio::time::timeout;

use super::failure::Failure;
use crate::{controller::watch::explain, hint::in_brief};

/// Longest time that one request may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// What came instead of the answer that was asked for.
pub(in crate::controller) enum Answer {
    /// The API server said no. Its message is one short line.
    Status(Box<Status>),
    /// There was no answer.
    None(String),
}

impl Answer {
    /// Why a plan ends with this answer to a request that was to do `what`.
    pub(super) fn failure(self, what: &str) -> Failure {
        match self {
            Self::Status(status) if is_no_namespace(&status) => Failure::NoNamespace,
            Self::Status(status) if is_out_of_addresses(&status) => Failure::NoClusterIp,
            Self::Status(status) if status.code == 409 => Failure::Outdated(None),
            Self::Status(status) => {
                let seconds = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
                let wait = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
                Failure::Refused {
                    message: format!("Failed to {what}: {}", status.message),
                    wait,
                }
            }
            Self::None(message) => Failure::Refused {
                message: format!("Failed to {what}: {message}"),
                wait: None,
            },
        }
    }
}

/// Kubernetes answers so when a namespace is missing (404) or being deleted (403 with this cause).
fn is_no_namespace(status: &Status) -> bool {
    let details = status.details.as_ref();
    let terminating = details.is_some_and(|details| {
        details
            .causes
            .iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
    });
    terminating || (status.code == 404 && details.is_some_and(|d| d.kind == "namespaces"))
}

/// Kubernetes answers so when all of its Service range, or of all its ranges of one family, is taken.
fn is_out_of_addresses(status: &Status) -> bool {
    let says = |words| status.message.contains(words);
    status.code == 500 && says("failed to allocate a serviceIP") && says("range is full")
}

/// Waits for an answer, but not for ever.
pub(in crate::controller) async fn request<T>(
    request: impl Future<Output = kube::Result<T>>,
) -> Result<T, Answer> {
    match timeout(DEADLINE, request).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(mut status))) => {
            status.message = in_brief(&status.message);
            Err(Answer::Status(status))
        }
        Ok(Err(error)) => Err(Answer::None(explain(&error))),
        Err(_) => Err(Answer::None(format!(
            "timed out after {} s",
            DEADLINE.as_secs()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_service_range_is_told_from_other_failures() {
        let of = |code: u16, message: &str| {
            let status = Status::failure(message, "InternalError").with_code(code);
            let failure = Answer::Status(Box::new(status)).failure("create mirror service");
            matches!(failure, Failure::NoClusterIp)
        };
        for message in [
            "Internal error occurred: failed to allocate a serviceIP: range is full",
            "Internal error occurred: failed to allocate a serviceIP for Service \"web\": range is full",
        ] {
            assert!(of(500, message), "{message}");
            assert!(!of(403, message), "{message}");
        }
        assert!(!of(
            500,
            "Internal error occurred: failed to allocate a nodePort: range is full"
        ));
        assert!(!of(
            500,
            "Internal error occurred: failed to allocate a serviceIP: no answer"
        ));
    }
}
