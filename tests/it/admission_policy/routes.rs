//! Writes of routes: those that the controller does not make, with the reason for the refusal, and those that it makes.

use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use super::writes::{FINALIZERS, THEIRS, Try, change, create, delete, labels, signed, with};
use crate::support::installation::NAMESPACE;

const FEDERATED: &str = "the controller may only write routes of federated Services";
const PLAIN: &str = "the controller may only write routes to Services of the same namespace that match all requests and \
                     do not modify them";
const UNMANAGED: &str = "the controller may only change and delete routes that it manages";
const PROTECTED: &str = "the controller may not write routes in protected namespaces";

/// A route of the federated Service `api-federated`; `uid` is that of its owner.
fn route(name: &str) -> Value {
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": name, "ownerReferences": [
            { "apiVersion": "v1", "kind": "Service", "name": "api-federated", "uid": "u" },
        ] },
        "spec": {
            "parentRefs": [{ "group": "", "kind": "Service", "name": "api-federated", "port": 80 }],
            "rules": [{
                "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                "backendRefs": [backend("web-east"), backend("api-federated")],
            }],
        },
    });
    let ours = labels(json!({ l::MIRRORED_SERVICE: "true" }));
    with(with(route, ours), signed(NAMESPACE))
}

/// A part of a route that sends requests to a Service.
fn backend(name: &str) -> Value {
    json!({ "group": "", "kind": "Service", "name": name, "port": 80, "weight": 1 })
}

/// The parents of a route, as a merge patch.
fn parents(parents: &Value) -> Value {
    json!({ "spec": { "parentRefs": parents } })
}

/// The only rule of a route, as a merge patch.
fn rule(rule: &Value) -> Value {
    json!({ "spec": { "rules": [rule] } })
}

/// Objects that exist before the writes, in the namespace `shop`.
pub(super) fn existing_objects() -> Vec<Value> {
    let unsigned = json!({ "metadata": { "annotations": null, "labels": null } });
    let mut tcp = route("ours");
    tcp["apiVersion"] = json!("gateway.networking.k8s.io/v1alpha2");
    tcp["kind"] = json!("TCPRoute");
    tcp["spec"]["rules"][0]["matches"].take();
    vec![
        route("ours"),
        with(route("theirs"), signed("elsewhere")),
        with(route("somebodys"), unsigned),
        tcp,
    ]
}

/// Writes with a stolen token, with the reason for the refusal. Each differs in one thing from what the controller
/// writes.
#[rustfmt::skip]
pub(super) fn forbidden() -> Vec<(Try, &'static str)> {
    let routes = |patch: Value| create("httproutes", "shop", with(route("new"), patch));
    let ours = |patch: Value| change("httproutes", "shop", "ours", patch);
    let parent = |more: Value| with(json!({ "group": "", "kind": "Service", "name": "api-federated" }), more);
    let parents = |more: Value| parents(&json!([parent(more)]));
    let backends = |more: Value| rule(&json!({ "backendRefs": [with(backend("web-east"), more)] }));
    vec![
        (routes(labels(json!({ l::MIRRORED_SERVICE: null }))), FEDERATED),
        (routes(parents(json!({ "name": "my-app" }))), FEDERATED),
        (routes(parents(json!({ "namespace": "kube-system" }))), FEDERATED),
        (routes(parents(json!({ "group": "gateway.networking.k8s.io", "kind": "Gateway" }))), FEDERATED),
        (routes(json!({ "spec": { "parentRefs": [] } })), FEDERATED),
        (routes(json!({ "spec": { "parentRefs": [parent(json!({})), parent(json!({ "name": "my-app" }))] } })), FEDERATED),
        (routes(json!({ "metadata": { "ownerReferences": null } })), FEDERATED),
        (routes(backends(json!({ "namespace": "kube-system" }))), PLAIN),
        (routes(backends(json!({ "group": "example.com" }))), PLAIN),
        (routes(backends(json!({ "kind": "Secret" }))), PLAIN),
        (routes(rule(&json!({ "filters": [{ "type": "RequestMirror" }] }))), PLAIN),
        (routes(rule(&json!({ "timeouts": { "request": "1ms" } }))), PLAIN),
        (routes(json!({ "spec": { "hostnames": ["example.com"] } })), PLAIN),
        (routes(json!({ "metadata": { "finalizers": ["example.com/x"] } })), FINALIZERS),
        (routes(signed("elsewhere")), THEIRS),
        (create("httproutes", "kube-system", route("new")), PROTECTED),

        (ours(parents(json!({ "name": "my-app" }))), FEDERATED),
        (ours(backends(json!({ "namespace": "kube-system" }))), PLAIN),
        (ours(json!({ "metadata": { "finalizers": ["example.com/x"] } })), FINALIZERS),
        (ours(signed("elsewhere")), THEIRS),
        (change("httproutes", "shop", "somebodys", with(signed(NAMESPACE), labels(json!({ l::MIRRORED_SERVICE: "true" })))), UNMANAGED),
        (change("httproutes", "shop", "theirs", signed(NAMESPACE)), THEIRS),
        (delete("httproutes", "shop", "somebodys"), UNMANAGED),
        (delete("httproutes", "shop", "theirs"), THEIRS),
        (change("tcproutes", "shop", "ours", rule(&json!({ "filters": [{}] }))), PLAIN),
    ]
}

/// Writes that the controller makes.
pub(super) fn permitted() -> Vec<Try> {
    let only = rule(&json!({ "backendRefs": [backend("api-federated")] }));
    vec![
        create("httproutes", "shop", route("new")),
        change("httproutes", "shop", "ours", only.clone()),
        change("tcproutes", "shop", "ours", only),
        delete("httproutes", "shop", "ours"),
        delete("tcproutes", "shop", "ours"),
    ]
}
