//! What stands between a controller and an API server, and how it misbehaves.

use control_plane::Verdict;
use serde_json::json;

/// A flag of `link-gen`.
pub(crate) fn through(url: &str) -> String {
    format!("--api-server-address={url}")
}

/// A refusal as Kubernetes words it.
pub(crate) fn refusal(code: u16, reason: &str) -> Verdict {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("made up: {reason}"), "reason": reason, "code": code,
    });
    let headers = vec![("content-type", "application/json".to_owned())];
    Verdict::Answer(code, headers, status.to_string())
}
