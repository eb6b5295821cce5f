//! Requests in the audit log of a control plane.

use std::collections::BTreeSet;

use control_plane::{AuditEvent, ControlPlane};
use serde_json::Value;

use crate::support::installation::CONTROLLER;

/// The current end of the audit log. The functions below read the requests after such a mark.
pub(crate) fn mark(plane: &ControlPlane) -> u64 {
    plane.audit_mark().unwrap()
}

/// All requests since a mark.
pub(crate) fn requests(plane: &ControlPlane, since: u64) -> Vec<AuditEvent> {
    plane.audit_since(since).unwrap()
}

/// What a user wrote since a mark, except for leases.
pub(crate) fn writes_of(plane: &ControlPlane, user: &str, since: u64) -> Vec<AuditEvent> {
    let mut audit = requests(plane, since);
    audit.retain(|event| event.user == user && event.is_write() && event.resource != "leases");
    audit
}

/// What the controller wrote since a mark.
pub(crate) fn writes(plane: &ControlPlane, since: u64) -> Vec<AuditEvent> {
    writes_of(plane, CONTROLLER, since)
}

/// What the controller wrote in a namespace since a mark.
pub(crate) fn writes_in(plane: &ControlPlane, namespace: &str, since: u64) -> Vec<AuditEvent> {
    let mut audit = writes(plane, since);
    audit.retain(|event| event.namespace == namespace);
    audit
}

/// Like [`writes_in`], as text.
pub(crate) fn said_in(plane: &ControlPlane, namespace: &str, since: u64) -> Vec<String> {
    said(&writes_in(plane, namespace, since))
}

/// Verb and name of each of these requests.
pub(crate) fn said(requests: &[AuditEvent]) -> Vec<String> {
    let say = |request: &AuditEvent| format!("{} {}", request.verb, request.name);
    requests.iter().map(say).collect()
}

/// Asserts that the controller deleted nothing in a namespace since a mark.
pub(crate) fn nothing_was_deleted(plane: &ControlPlane, namespace: &str, since: u64) {
    let done = said_in(plane, namespace, since);
    let is_deletion = |said: &String| said.starts_with("delete");
    assert!(!done.iter().any(is_deletion), "{done:?}");
}

/// Number of watches of Services and slices that were opened on a target cluster.
pub(crate) fn watches(plane: &ControlPlane) -> usize {
    let audit = requests(plane, 0);
    let remote = |e: &&AuditEvent| {
        e.verb == "watch" && e.stage == "ResponseStarted" && e.user.contains("remote-access")
    };
    audit.iter().filter(remote).count()
}

/// API group, resource and verb.
pub(crate) type Use = (String, String, String);

/// The rules of the roles in a block of YAML.
pub(crate) fn granted(block: &str) -> BTreeSet<Use> {
    let mut all = BTreeSet::new();
    for document in block.split("\n---\n") {
        let object: Value = serde_saphyr::from_str(document).unwrap();
        for rule in object["rules"].as_array().into_iter().flatten() {
            let list = |field: &str| -> Vec<String> {
                serde_json::from_value(rule[field].clone()).unwrap()
            };
            for group in list("apiGroups") {
                for resource in list("resources") {
                    for verb in list("verbs") {
                        all.insert((group.clone(), resource.clone(), verb));
                    }
                }
            }
        }
    }
    all
}

/// What a user asked for: what the API server permitted, and what it refused.
pub(crate) fn asked_by(user: &str, events: &[AuditEvent]) -> (BTreeSet<Use>, BTreeSet<Use>) {
    let of = |event: &AuditEvent| {
        let resource = [event.resource.as_str(), &event.subresource].join("/");
        let resource = resource.trim_end_matches('/').to_owned();
        (event.group.clone(), resource, event.verb.clone())
    };
    let own = || events.iter().filter(|event| event.user == user);
    let refused = |event: &&AuditEvent| matches!(event.code, 401 | 403);
    (
        own().filter(|event| !refused(event)).map(of).collect(),
        own().filter(refused).map(of).collect(),
    )
}
