//! Writes of routes: those that a policy refuses, with its message, and those that the policies permit.

use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use super::writes::{
    EITHER, FINALIZERS, THEIRS, Try, UNMARKED, change, create, delete, labels, owned, signed, with,
    without,
};
use crate::support::installation::NAMESPACE;

const FEDERATED: &str = "the controller may only write routes of federated Services, which own them and after which \
                         they are named";
/// Message of the policy whose name ends with `-parents`. It checks the Service that is the parent of a new route.
pub(super) const OF_NO_MIRROR: &str =
    "the controller may not write routes of Services that are not mirrors";
const PLAIN: &str = "the controller may only write routes to Services of the same namespace that match all requests and \
                     do not modify them";
const UNMANAGED: &str = "the controller may only change and delete routes that it manages";
const PROTECTED: &str = "the controller may not write routes in protected namespaces";

// Names of routes in [`existing_objects`]. Each is the name for a port of `api-federated`.

/// Written by this installation.
const OURS: &str = "api-federated-80";
/// Written by another installation.
const THEIR_ROUTE: &str = "api-federated-82";
/// Without the labels and annotations of a controller.
const SOMEBODYS: &str = "api-federated-83";
/// Without its owner and its annotations.
const STRIPPED: &str = "api-federated-84";
/// With another Service as its parent.
const MOVED: &str = "api-federated-85";

/// The route for a port of a Service, as the controller writes it. The UID of its owner is a placeholder.
fn route(service: &str, port: u16) -> Value {
    let route = json!({
        "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute",
        "metadata": { "name": format!("{service}-{port}") },
        "spec": {
            "parentRefs": [parent(service, port)],
            "rules": [{
                "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }],
                "backendRefs": [backend("web-east"), backend(service)],
            }],
        },
    });
    let ours = labels(json!({ l::MIRRORED_SERVICE: "true" }));
    let owned = owned(&[("v1", "Service", service)]);
    with(with(with(route, ours), owned), signed(NAMESPACE))
}

/// A parent of a route: a port of a Service.
fn parent(service: &str, port: u16) -> Value {
    json!({ "group": "", "kind": "Service", "name": service, "port": port })
}

/// A backend of a route: a Service.
fn backend(name: &str) -> Value {
    json!({ "group": "", "kind": "Service", "name": name, "port": 80, "weight": 1 })
}

/// The parents of a route, as a merge patch.
fn parents(parents: &[Value]) -> Value {
    json!({ "spec": { "parentRefs": parents } })
}

/// The only rule of a route, as a merge patch.
fn rule(rule: &Value) -> Value {
    json!({ "spec": { "rules": [rule] } })
}

/// Routes that exist in the namespace `shop` before the writes.
pub(super) fn existing_objects() -> Vec<Value> {
    let bare = json!({ "metadata": { "annotations": null, "labels": null } });
    let mut tcp = route("api-federated", 80);
    tcp["apiVersion"] = json!("gateway.networking.k8s.io/v1alpha2");
    tcp["kind"] = json!("TCPRoute");
    tcp["spec"]["rules"][0]["matches"].take();
    vec![
        route("api-federated", 80),
        with(route("api-federated", 82), signed("elsewhere")),
        with(route("api-federated", 83), bare),
        // Somebody has removed its owner and annotations, and has added a field.
        with(
            with(
                route("api-federated", 84),
                json!({ "metadata": { "annotations": null, "ownerReferences": null } }),
            ),
            json!({ "spec": { "hostnames": ["example.com"] } }),
        ),
        with(route("api-federated", 85), parents(&[parent("my-app", 85)])),
        tcp,
    ]
}

/// Writes with a stolen token, each with the message of the refusal. Each differs in one thing from a write of the
/// controller.
#[rustfmt::skip]
pub(super) fn forbidden() -> Vec<(Try, &'static str)> {
    let routes = |patch: Value| create("httproutes", "shop", with(route("api-federated", 81), patch));
    let ours = |patch: Value| change("httproutes", "shop", OURS, patch);
    let api = |port: u16, more: Value| with(parent("api-federated", port), more);
    let new_parent = |more: Value| parents(&[api(81, more)]);
    let backends = |more: Value| rule(&json!({ "backendRefs": [with(backend("web-east"), more)] }));
    let matches = |more: Value| rule(&json!({ "backendRefs": [backend("web-east")], "matches": [more] }));
    let two = owned(&[("v1", "Service", "api-federated"), ("v1", "Namespace", "shop")]);
    vec![
        (routes(labels(json!({ l::MIRRORED_SERVICE: null }))), FEDERATED),
        (routes(parents(&[parent("my-app", 81)])), EITHER),
        (routes(new_parent(json!({ "namespace": "kube-system" }))), FEDERATED),
        (routes(new_parent(json!({ "sectionName": "http" }))), FEDERATED),
        (routes(new_parent(json!({ "port": 80 }))), FEDERATED),
        (routes(new_parent(json!({ "port": null }))), FEDERATED),
        (routes(new_parent(json!({ "group": "gateway.networking.k8s.io", "kind": "Gateway" }))), FEDERATED),
        (routes(parents(&[])), FEDERATED),
        (routes(parents(&[parent("api-federated", 81), parent("my-app", 81)])), EITHER),
        (routes(json!({ "metadata": { "ownerReferences": null } })), FEDERATED),
        (routes(two.clone()), FEDERATED),
        (routes(owned(&[("v1", "Service", "my-app")])), FEDERATED),
        (routes(owned(&[("v1", "ConfigMap", "api-federated")])), FEDERATED),
        (create("httproutes", "shop", route("my-app", 80)), EITHER),
        (create("httproutes", "shop", route("users-federated", 80)), OF_NO_MIRROR),
        (routes(without(l::MANAGED_BY)), UNMARKED),
        (routes(without(l::INSTALLATION)), UNMARKED),
        (routes(backends(json!({ "namespace": "kube-system" }))), PLAIN),
        (routes(backends(json!({ "group": "example.com" }))), PLAIN),
        (routes(backends(json!({ "kind": "Secret" }))), PLAIN),
        (routes(rule(&json!({ "filters": [{ "type": "RequestMirror" }] }))), PLAIN),
        (routes(rule(&json!({ "timeouts": { "request": "1ms" } }))), PLAIN),
        (routes(matches(json!({ "path": { "type": "PathPrefix", "value": "/login" } }))), PLAIN),
        (routes(matches(json!({ "path": { "type": "PathPrefix", "value": "/" }, "method": "POST" }))), PLAIN),
        (routes(json!({ "spec": { "hostnames": ["example.com"] } })), PLAIN),
        (routes(json!({ "spec": { "useDefaultGateways": "All" } })), PLAIN),
        (routes(json!({ "metadata": { "finalizers": ["example.com/x"] } })), FINALIZERS),
        (routes(signed("elsewhere")), THEIRS),
        (create("httproutes", "kube-system", route("api-federated", 81)), PROTECTED),

        (ours(parents(&[parent("my-app", 80)])), FEDERATED),
        (ours(parents(&[parent("users-federated", 80)])), FEDERATED),
        (ours(two), FEDERATED),
        (ours(backends(json!({ "namespace": "kube-system" }))), PLAIN),
        (ours(json!({ "spec": { "useDefaultGateways": "All" } })), PLAIN),
        (ours(json!({ "metadata": { "finalizers": ["example.com/x"] } })), FINALIZERS),
        (ours(signed("elsewhere")), THEIRS),
        (ours(without(l::MANAGED_BY)), UNMARKED),
        (change("httproutes", "shop", SOMEBODYS, with(signed(NAMESPACE), labels(json!({ l::MIRRORED_SERVICE: "true" })))), UNMANAGED),
        (change("httproutes", "shop", THEIR_ROUTE, signed(NAMESPACE)), THEIRS),
        (delete("httproutes", "shop", SOMEBODYS), UNMANAGED),
        (delete("httproutes", "shop", THEIR_ROUTE), THEIRS),
        (change("tcproutes", "shop", OURS, rule(&json!({ "filters": [{}] }))), PLAIN),
    ]
}

/// Writes that the controller makes.
pub(super) fn permitted() -> Vec<Try> {
    let only = rule(&json!({ "backendRefs": [backend("api-federated")] }));
    let restored = with(
        signed(NAMESPACE),
        owned(&[("v1", "Service", "api-federated")]),
    );
    vec![
        create("httproutes", "shop", route("api-federated", 81)),
        // A policy may not see a Service that is very new. So it permits the route of a Service that it does not see.
        create("httproutes", "shop", route("new-federated", 80)),
        change("httproutes", "shop", OURS, only.clone()),
        change("tcproutes", "shop", OURS, only),
        change(
            "httproutes",
            "shop",
            STRIPPED,
            with(restored, json!({ "spec": { "hostnames": null } })),
        ),
        change(
            "httproutes",
            "shop",
            MOVED,
            parents(&[parent("api-federated", 85)]),
        ),
        delete("httproutes", "shop", OURS),
        delete("tcproutes", "shop", OURS),
    ]
}
