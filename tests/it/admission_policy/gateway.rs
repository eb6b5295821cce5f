//! Writes of Deployments, and of Linkerd's policy: those that a policy refuses, with its message, and those that the policies
//! permit.

use linkerd_mc::api::{
    gateway_suffixes::{ADDITIONAL_ENV, GatewaySuffixes, VARIABLE},
    labels as l,
};
use serde_json::{Value, json};

use super::writes::{Try, change, create, delete, labels, named, with};
use crate::support::installation::NAMESPACE;

const OF_GATEWAY: &str = "the controller may only change the Deployment of the gateway";
const ONLY_FORWARDS: &str = "the controller may only change what the gateway forwards to";
const BY_NAME: &str = "the controller may let the gateway forward only to Services and namespaces by name, and not to the API server";

/// A merge patch of annotations of Pods.
fn annotations(annotations: &Value) -> Value {
    json!({ "spec": { "template": { "metadata": { "annotations": annotations } } } })
}

fn env(value: &str) -> Value {
    annotations(&json!({ ADDITIONAL_ENV: value }))
}

/// The annotation with these suffixes, as the controller writes it.
fn forward(suffixes: &str) -> Value {
    env(&GatewaySuffixes::of_variable(suffixes).to_annotation())
}

const OWN: &str = "the controller may only write its own policies of the gateway";
const ROUTE: &str = "a route of the controller must lead through the gateway, and change nothing";
const POLICY: &str =
    "a policy of the controller must be of its own route, with identities and networks";
const ROUTES: &str = "policy/httproutes";
const POLICIES: &str = "policy/authorizationpolicies";
const IDENTITIES: &str = "policy/meshtlsauthentications";

/// Metadata of an object that the controller has written.
fn ours(number: u8) -> Value {
    json!({ "metadata": {
        "name": format!("linkerd-gateway-exports-{number}"),
        "labels": { "component": "gateway-exports", "linkerd.io/extension": "multicluster" },
        "annotations": { l::MANAGED_BY: l::MANAGER },
    } })
}

fn kind(kind: &str, object: Value) -> Value {
    let version = if kind == "HTTPRoute" {
        "v1beta3"
    } else {
        "v1alpha1"
    };
    with(
        object,
        json!({ "apiVersion": format!("policy.linkerd.io/{version}"), "kind": kind }),
    )
}

fn route(number: u8) -> Value {
    let spec = json!({
        "parentRefs": [{ "group": "policy.linkerd.io", "kind": "Server", "name": "linkerd-gateway" }],
        "hostnames": ["web.shop.svc.cluster.local"],
        "rules": [{ "matches": [{ "path": { "type": "PathPrefix", "value": "/" } }] }],
    });
    kind("HTTPRoute", with(ours(number), json!({ "spec": spec })))
}

fn policy(number: u8) -> Value {
    let (group, own) = (
        "policy.linkerd.io",
        format!("linkerd-gateway-exports-{number}"),
    );
    let spec = json!({
        "targetRef": { "group": group, "kind": "HTTPRoute", "name": own },
        "requiredAuthenticationRefs": [
            { "group": group, "kind": "MeshTLSAuthentication", "name": own },
            { "group": group, "kind": "NetworkAuthentication", "name": "source-cluster" },
        ],
    });
    kind(
        "AuthorizationPolicy",
        with(ours(number), json!({ "spec": spec })),
    )
}

fn identities(number: u8) -> Value {
    let spec = json!({ "identities": ["*.identity.linkerd.west.example"] });
    kind(
        "MeshTLSAuthentication",
        with(ours(number), json!({ "spec": spec })),
    )
}

/// Objects that exist before the writes: of the controller, and of somebody else.
pub(super) fn existing_objects() -> Vec<Value> {
    let theirs = json!({ "metadata": {
        "name": "linkerd-gateway-exports-9", "labels": { "component": null }, "annotations": { l::MANAGED_BY: null },
    } });
    vec![route(1), policy(1), identities(1), with(route(9), theirs)]
}

/// Writes of Linkerd's policy with a stolen token, each with the message of the refusal.
#[rustfmt::skip]
pub(super) fn forbidden_policies() -> Vec<(Try, &'static str)> {
    let spec = |spec: Value| json!({ "spec": spec });
    let other = |kind: &str| json!({ "spec": { "parentRefs": [
        { "group": "policy.linkerd.io", "kind": kind, "name": "linkerd-admin" },
    ] } });
    let own = "linkerd-gateway-exports-1";
    let filter = json!([{ "filters": [{ "type": "RequestHeaderModifier" }] }]);
    let unauthenticated = json!({ "requiredAuthenticationRefs": [] });
    let whole = json!({ "targetRef": { "group": "policy.linkerd.io", "kind": "Server", "name": "linkerd-gateway" } });
    let networks = json!({ "requiredAuthenticationRefs": [
        { "group": "policy.linkerd.io", "kind": "NetworkAuthentication", "name": "source-cluster" },
    ] });
    vec![
        (create(ROUTES, "shop", route(2)), OWN),
        (create(POLICIES, "shop", policy(2)), OWN),
        (create(ROUTES, NAMESPACE, with(route(2), json!({ "metadata": { "name": "other" } }))), OWN),
        (create(IDENTITIES, NAMESPACE, with(identities(2), json!({ "metadata": { "name": "any-meshed-2" } }))), OWN),
        (create(ROUTES, NAMESPACE, with(route(2), json!({ "metadata": { "annotations": null } }))), OWN),
        (create(ROUTES, NAMESPACE, with(route(2), labels(json!({ "component": "other" })))), OWN),
        (change(ROUTES, NAMESPACE, "linkerd-gateway-exports-9", spec(json!({ "hostnames": ["a.b"] }))), OWN),
        (change(ROUTES, NAMESPACE, "linkerd-gateway-exports-9", with(json!({}), ours(9))), OWN),
        (delete(ROUTES, NAMESPACE, "linkerd-gateway-exports-9"), OWN),
        (change(POLICIES, NAMESPACE, "linkerd-gateway", spec(whole.clone())), OWN),
        (change(IDENTITIES, NAMESPACE, "any-meshed", spec(json!({ "identities": ["a.b"] }))), OWN),
        (delete(IDENTITIES, NAMESPACE, "any-meshed"), OWN),
        (delete(POLICIES, NAMESPACE, "linkerd-admin"), OWN),
        (change(ROUTES, NAMESPACE, own, other("Server")), ROUTE),
        (change(ROUTES, NAMESPACE, own, spec(json!({ "parentRefs": [] }))), ROUTE),
        (change(ROUTES, NAMESPACE, own, spec(json!({ "rules": filter }))), ROUTE),
        (create(POLICIES, NAMESPACE, with(policy(2), spec(whole.clone()))), POLICY),
        (change(POLICIES, NAMESPACE, own, spec(whole)), POLICY),
        (change(POLICIES, NAMESPACE, own, spec(unauthenticated)), POLICY),
        (change(POLICIES, NAMESPACE, own, spec(networks)), POLICY),
    ]
}

/// Writes with a stolen token, each with the message of the refusal.
#[rustfmt::skip]
pub(super) fn forbidden() -> Vec<(Try, &'static str)> {
    let labelled = json!({ "app": "new" });
    let new = with(
        named("new"),
        json!({ "spec": {
            "selector": { "matchLabels": labelled },
            "template": {
                "metadata": { "labels": labelled },
                "spec": { "containers": [{ "name": "new", "image": "new" }] },
            },
        } }),
    );
    let gateway = |patch: Value| change("deployments", NAMESPACE, l::GATEWAY_NAME, patch);
    let shop = || forward("shop.svc.cluster.local.");
    let spec = |spec: Value| gateway(with(shop(), json!({ "spec": spec })));
    let template = |template: Value| spec(json!({ "template": template }));
    let variable = |value: Value| gateway(env(&json!([value]).to_string()));
    vec![
        (change("deployments", NAMESPACE, l::CONTROLLER_NAME, shop()), OF_GATEWAY),
        (create("deployments", NAMESPACE, new), OF_GATEWAY),
        (delete("deployments", NAMESPACE, l::GATEWAY_NAME), OF_GATEWAY),
        (spec(json!({ "replicas": 7 })), ONLY_FORWARDS),
        (spec(json!({ "paused": true })), ONLY_FORWARDS),
        (spec(json!({ "strategy": { "type": "Recreate", "rollingUpdate": null } })), ONLY_FORWARDS),
        (spec(json!({ "minReadySeconds": 7 })), ONLY_FORWARDS),
        (spec(json!({ "revisionHistoryLimit": 7 })), ONLY_FORWARDS),
        (spec(json!({ "progressDeadlineSeconds": 7 })), ONLY_FORWARDS),
        (gateway(with(shop(), labels(json!({ "a": "b" })))), ONLY_FORWARDS),
        (gateway(with(shop(), json!({ "metadata": { "annotations": { "a": "b" } } }))), ONLY_FORWARDS),
        (gateway(with(shop(), json!({ "metadata": { "finalizers": ["example.com/x"] } }))), ONLY_FORWARDS),
        (template(json!({ "metadata": { "labels": { "a": "b" } } })), ONLY_FORWARDS),
        (template(json!({ "spec": { "serviceAccountName": "other" } })), ONLY_FORWARDS),
        (template(json!({ "spec": { "containers": [{ "name": "pause", "image": "other" }] } })), ONLY_FORWARDS),
        (gateway(with(shop(), annotations(&json!({ "config.linkerd.io/proxy-image": "other" })))), ONLY_FORWARDS),
        (gateway(with(shop(), annotations(&json!({ "linkerd.io/inject": "disabled" })))), ONLY_FORWARDS),
        (gateway(with(shop(), annotations(&json!({ "linkerd.io/inject": null })))), ONLY_FORWARDS),
        (gateway(env("[]")), BY_NAME),
        (gateway(forward("svc.cluster.local.")), BY_NAME),
        (gateway(forward("shop.svc.cluster.local.,svc.cluster.local.")), BY_NAME),
        (gateway(forward("default.svc.cluster.local.")), BY_NAME),
        (gateway(forward("shop.svc.cluster.local.,kubernetes.default.svc.cluster.local.")), BY_NAME),
        (gateway(forward("cluster.local.")), BY_NAME),
        (gateway(forward(".")), BY_NAME),
        (gateway(annotations(&json!({ ADDITIONAL_ENV: null }))), BY_NAME),
        (variable(json!({ "name": VARIABLE, "value": "" })), BY_NAME),
        (variable(json!({ "name": "LD_PRELOAD", "value": "shop.svc.cluster.local." })), BY_NAME),
        (variable(json!({ "name": VARIABLE, "value": "shop.svc.cluster.local.", "valueFrom": {} })), BY_NAME),
        (gateway(env(&json!([
            { "name": VARIABLE, "value": "shop.svc.cluster.local." },
            { "name": VARIABLE, "value": "." },
        ]).to_string())), BY_NAME),
    ]
}

/// Writes that the controller makes.
pub(super) fn permitted() -> Vec<Try> {
    [
        "",
        "shop.svc.cluster.local.",
        "web.default.svc.east.example.,team-a.svc.east.example.",
    ]
    .map(|suffixes| change("deployments", NAMESPACE, l::GATEWAY_NAME, forward(suffixes)))
    .into_iter()
    .chain([
        create(ROUTES, NAMESPACE, route(2)),
        create(POLICIES, NAMESPACE, policy(2)),
        create(IDENTITIES, NAMESPACE, identities(2)),
        change(
            ROUTES,
            NAMESPACE,
            "linkerd-gateway-exports-1",
            json!({ "spec": { "hostnames": ["a.b"] } }),
        ),
        delete(ROUTES, NAMESPACE, "linkerd-gateway-exports-1"),
        delete(POLICIES, NAMESPACE, "linkerd-gateway-exports-1"),
        delete(IDENTITIES, NAMESPACE, "linkerd-gateway-exports-1"),
        delete(POLICIES, NAMESPACE, "linkerd-gateway"),
    ])
    .collect()
}
