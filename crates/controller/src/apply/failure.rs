//! Why a plan was not executed completely.

use std::{sync::Arc, time::Duration};

use client::requests::RequestError;
use kube::core::Status;
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
    },
    mirror::{Indexed as _, Owner, owner},
};

use super::written::Written;

/// Why a plan was not executed completely.
#[derive(Clone, Debug)]
pub enum Failure {
    /// The object is not the one that the plan was computed from: the key has to be planned again. Holds what the API
    /// server has now, if that is known: the object, or its deletion.
    Outdated(Option<Box<Written>>),
    /// Another writer came first, in the words of the API server. Or that is what an admission webhook says.
    Conflict(String),
    /// The name belongs to an object that is not ours.
    Foreign {
        namespace: String,
        name: String,
        /// Its owner.
        who: String,
    },
    /// The namespace is missing or being deleted.
    NoNamespace,
    /// The API server has no `ClusterIP` left.
    NoClusterIp,
    /// The lease is no longer held.
    Fenced,
    /// The API server returned another error, or did not respond.
    Refused {
        /// One sentence.
        message: String,
        /// How long the API server asks to wait, from `Retry-After`.
        wait: Option<Duration>,
        /// Whether the API server refused this object, for example because of a policy, a quota or the object's name.
        /// Writes for other Services of the plan may succeed.
        denied: bool,
    },
}

impl Failure {
    /// The failure of a plan whose request got this error. `what` completes "Failed to …".
    pub fn of(error: RequestError, what: &str) -> Self {
        match error {
            RequestError::Status(status) if is_no_namespace(&status) => Self::NoNamespace,
            RequestError::Status(status) if is_out_of_addresses(&status) => Self::NoClusterIp,
            RequestError::Status(status) if status.code == 409 && !is_admission(&status) => {
                Self::Conflict(format!("Failed to {what}: {}", status.message))
            }
            RequestError::Status(status) => {
                let is_admission = is_admission(&status);
                let seconds = status.details.as_ref().map_or(0, |d| d.retry_after_seconds);
                let wait =
                    (seconds > 0 && !is_admission).then(|| Duration::from_secs(seconds.into()));
                Self::Refused {
                    message: format!("Failed to {what}: {}", status.message),
                    wait,
                    denied: is_admission
                        || wait.is_none() && matches!(status.code, 400..=404 | 413 | 422),
                }
            }
            RequestError::Unanswered(message) => Self::Refused {
                message: format!("Failed to {what}: {message}"),
                wait: None,
                denied: false,
            },
        }
    }
}

/// The failure when a Service cannot be created because its name is taken. `live` is the Service that has the name.
pub fn name_conflict(
    namespace: String,
    name: String,
    live: Option<Service>,
    wanted: &Service,
) -> Failure {
    let Some(live) = live else {
        return Failure::Outdated(None); // deleted meanwhile
    };
    let same_origin = live.metadata.annotations.get(l::MANAGED_BY) == Some(l::MANAGER)
        && live.metadata.annotations.get(l::REMOTE_FQ_NAME)
            == wanted.metadata.annotations.get(l::REMOTE_FQ_NAME);
    if owner(&live.metadata) != Owner::Foreign || same_origin {
        return Failure::Outdated(Some(Box::new(Written::Service(Arc::new(live)))));
    }
    Failure::Foreign {
        namespace,
        name,
        who: "a Service that is not a mirror".to_owned(),
    }
}

/// The failure when a slice cannot be created because `live` has its name.
pub fn slice_name_conflict(live: EndpointSlice, wanted: &EndpointSlice) -> Failure {
    let is_ours = live.metadata.annotations.get(l::MANAGED_BY) == Some(l::MANAGER);
    if is_ours && live.group() == wanted.group() {
        return Failure::Outdated(Some(Box::new(Written::Slice(Arc::new(live)))));
    }
    let whose = match live.group().filter(|_| is_ours) {
        Some(service) => format!("belongs to Service {service}"),
        None => "is not ours".to_owned(),
    };
    let (namespace, name) = live.metadata.id();
    Failure::Refused {
        message: format!(
            "Failed to create mirror endpoints: EndpointSlice {namespace}/{name} exists and {whose}"
        ),
        wait: None,
        denied: true,
    }
}

/// Whether a webhook or a policy refused an object. It may do so with any code.
fn is_admission(status: &Status) -> bool {
    let says = |words| status.message.contains(words);
    says("admission webhook \"") && says("denied the request")
        || says("ValidatingAdmissionPolicy '") && says("denied request")
}

/// Whether Kubernetes says that an object does not exist. A webhook may use the same code.
pub fn is_not_found(status: &Status, name: &str) -> bool {
    let details = status.details.as_ref();
    status.code == 404 && details.is_some_and(|details| details.name == name)
}

/// Whether Kubernetes says that a namespace is missing (404), or being deleted (403, cause `NamespaceTerminating`).
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

/// Whether this is Kubernetes' response when its Service range, or all its ranges of one family, have no free address.
fn is_out_of_addresses(status: &Status) -> bool {
    let says = |words| status.message.contains(words);
    status.code == 500 && says("failed to allocate a serviceIP") && says("range is full")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: u16, message: &str) -> Failure {
        let status = Status::failure(message, "").with_code(code);
        Failure::of(RequestError::Status(Box::new(status)), "create mirror")
    }

    #[test]
    fn refusals_of_webhooks_and_policies_are_told_from_races_and_outages() {
        let webhook = "admission webhook \"freeze.example.com\" denied the request: change freeze";
        let policy = "ValidatingAdmissionPolicy 'no' with binding 'no' denied request: no";
        for code in [400, 401, 403, 404, 409, 422, 429, 500, 503] {
            for words in [webhook, policy] {
                let failure = of(code, words);
                let is_denied = matches!(&failure, Failure::Refused { denied: true, wait: None, message }
                    if message.ends_with(words));
                assert!(is_denied, "{code}: {failure:?}");
            }
        }
        let lost = "Operation cannot be fulfilled on services \"web-east\"";
        assert!(matches!(of(409, lost), Failure::Conflict(_)));
        for code in [429, 500, 503, 504] {
            let failure = of(code, "no");
            let is_error = matches!(failure, Failure::Refused { denied: false, .. });
            assert!(is_error, "{code}: {failure:?}");
        }
    }

    #[test]
    fn full_service_range_is_distinguished_from_other_failures() {
        let of = |code: u16, message: &str| {
            let status = Status::failure(message, "InternalError").with_code(code);
            let error = RequestError::Status(Box::new(status));
            let failure = Failure::of(error, "create mirror service");
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
