//! Times in annotations.

use k8s_openapi::jiff::Timestamp;

/// A time as in RFC 3339, in whole seconds.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
