//! Writes of Events by the account that other clusters use: those that the policy refuses, and those that it permits.

use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use super::writes::{Try, change, create, with};

/// The component that the controller of the cluster west writes into its Events.
pub(super) const MIRROR: &str = "linkerd-service-mirror-west";
pub(super) const ONLY_OF_MIRRORS: &str =
    "accounts that other clusters use may only write Events of a service mirror about Services";

/// An Event about the Service `web`.
pub(super) fn event(name: &str, component: &str) -> Value {
    assert!(MIRROR.starts_with(l::EVENT_SOURCE_PREFIX));
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": name, "namespace": "shop" },
        "involvedObject": { "apiVersion": "v1", "kind": "Service", "namespace": "shop", "name": "web" },
        "source": { "component": component },
        "type": "Normal", "reason": "ServiceMirroringSkipped", "message": "Skipped mirroring service", "count": 1,
    })
}

/// Writes that the policy refuses.
pub(super) fn forbidden() -> Vec<Try> {
    let about = |kind: &str| json!({ "involvedObject": { "kind": kind } });
    let new = |more: Value| create("events", "shop", with(event("new", MIRROR), more));
    vec![
        new(about("Pod")),
        new(about("Secret")),
        new(json!({ "involvedObject": { "kind": null } })),
        new(json!({ "source": { "component": "kubelet" } })),
        new(json!({ "source": null })),
        change(
            "events",
            "shop",
            "theirs",
            json!({ "message": "all is well" }),
        ),
        change("events", "shop", "theirs", event("theirs", MIRROR)),
        change(
            "events",
            "shop",
            "ours",
            json!({ "source": { "component": "kubelet" } }),
        ),
    ]
}

/// Writes that a service mirror makes. Linkerd's own one raises the count of an Event that it repeats.
pub(super) fn permitted() -> Vec<Try> {
    vec![
        create("events", "shop", event("new", MIRROR)),
        change("events", "shop", "ours", json!({ "count": 2 })),
    ]
}
