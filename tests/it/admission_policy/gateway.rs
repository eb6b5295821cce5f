//! Writes of Deployments: those that a policy refuses, with its message, and those that the policies permit.

use linkerd_mc::api::{
    gateway_suffixes::{ADDITIONAL_ENV, GatewaySuffixes, VARIABLE},
    labels as l,
};
use serde_json::{Value, json};

use super::writes::{Try, change, create, delete, labels, named, with};
use crate::support::installation::NAMESPACE;

const OF_GATEWAY: &str = "the controller may only change the Deployment of the gateway";
const ONLY_FORWARDS: &str = "the controller may only change what the gateway forwards to";
const BY_NAME: &str =
    "the controller may let the gateway forward only to Services and namespaces by name";

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
    .into()
}
