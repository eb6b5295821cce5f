//! Requests of the controller in the audit log of a control plane.

use control_plane::{AuditEvent, ControlPlane};

use crate::support::installation::CONTROLLER;

/// What the controller wrote in a namespace since the audit log had this length.
pub(crate) fn writes(plane: &ControlPlane, namespace: &str, since: usize) -> Vec<AuditEvent> {
    let mut audit = plane.audit().unwrap().split_off(since);
    audit.retain(|event| {
        event.user == CONTROLLER && event.is_write() && event.namespace == namespace
    });
    audit
}

/// The same as text.
pub(crate) fn said(plane: &ControlPlane, namespace: &str, since: usize) -> Vec<String> {
    let writes = writes(plane, namespace, since);
    let say = |write: &AuditEvent| format!("{} {}", write.verb, write.name);
    writes.iter().map(say).collect()
}

/// Asserts that the controller deleted nothing in a namespace since the audit log had this length.
pub(crate) fn nothing_was_deleted(plane: &ControlPlane, namespace: &str, since: usize) {
    let done = said(plane, namespace, since);
    let is_deletion = |said: &String| said.starts_with("delete");
    assert!(!done.iter().any(is_deletion), "{done:?}");
}

/// Number of watches of Services and slices that were opened on a target cluster.
pub(crate) fn watches(plane: &ControlPlane) -> usize {
    let audit = plane.audit().unwrap();
    let remote = |e: &&AuditEvent| {
        e.verb == "watch" && e.stage == "ResponseStarted" && e.user.contains("remote-access")
    };
    audit.iter().filter(remote).count()
}
