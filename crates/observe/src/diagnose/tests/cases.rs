//! Cases: facts with one difference, and what is found in them.

use mirror_core::api::route::Route;

use super::scene::{Found, diagnosed, found};
use crate::clusters::request_path::RequestPath;

/// A case: what is different from a scene in which all is well, and what is found.
pub type Case = (&'static str, RequestPath, Found);

pub fn changed(mut facts: RequestPath, change: impl FnOnce(&mut RequestPath)) -> RequestPath {
    change(&mut facts);
    facts
}

pub fn broken(layer: &'static str, cause: &'static str, fix: &str) -> Found {
    (layer, cause, true, fix.to_owned())
}

pub fn degraded(layer: &'static str, cause: &'static str, fix: &str) -> Found {
    (layer, cause, false, fix.to_owned())
}

pub fn hold(cases: Vec<Case>) {
    for (what, facts, expected) in cases {
        assert_eq!(
            found(&facts),
            Some(expected),
            "{what}: {:#?}",
            diagnosed(&facts)
        );
    }
}

pub const ROTATE: &str = "linkerd-mc --context west rotate east";
pub const LINK: &str = "linkerd-mc link --target east --source west --cluster-name east";
pub const RELINK: &str = "linkerd-mc link --target east-admin --source west --cluster-name east";
pub const RESTART: &str =
    "kubectl --context west -n linkerd rollout restart deployment/linkerd-destination";

/// A route of somebody else over a Service, to another one.
pub fn route(version: &str, kind: &str, name: &str, parent: &str, backend: &str) -> Route {
    serde_json::from_value(serde_json::json!({
        "apiVersion": version, "kind": kind,
        "metadata": { "namespace": "shop", "name": name },
        "spec": {
            "parentRefs": [{ "group": "", "kind": "Service", "name": parent }],
            "rules": [{ "backendRefs": [{ "group": "", "kind": "Service", "name": backend, "port": 80 }] }],
        },
    }))
    .unwrap()
}
