//! Helpers for Links through proxies that misbehave.

use control_plane::Verdict;
use serde_json::json;

/// The flag of `link-gen` that sets the address of the API server.
pub(crate) fn through(url: &str) -> String {
    format!("--api-server-address={url}")
}

/// A refusal in the format of Kubernetes.
pub(crate) fn refusal(code: u16, reason: &str) -> Verdict {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("made up: {reason}"), "reason": reason, "code": code,
    });
    let headers = vec![("content-type", "application/json".to_owned())];
    Verdict::Answer(code, headers, status.to_string())
}
