//! The Gateway API in a test's cluster: definitions of the kinds of routes that Linkerd follows, as far as defaults and
//! shapes matter here.

use control_plane::ControlPlane;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::{fleet::SOON, program::run};

/// Group, version and kind of routes.
const KINDS: [(&str, &str, &str); 4] = [
    ("gateway.networking.k8s.io", "v1", "HTTPRoute"),
    ("gateway.networking.k8s.io", "v1", "GRPCRoute"),
    ("gateway.networking.k8s.io", "v1alpha2", "TCPRoute"),
    ("policy.linkerd.io", "v1beta3", "HTTPRoute"),
];

/// Installs the definitions, and waits until they are served.
pub(crate) async fn install(plane: &ControlPlane) {
    for kind in KINDS {
        let definition = definition(kind).to_string();
        let apply = ["apply", "-f", "-"];
        plane.kubectl_stdin(&apply, &definition).await.unwrap();
    }
    for (group, _, kind) in KINDS {
        let name = format!("crd/{}.{group}", plural(kind));
        let timeout = format!("--timeout={}s", SOON.as_secs());
        let wait = ["wait", "--for=condition=Established", &name, &timeout];
        plane.kubectl(&wait).await.unwrap();
    }
}

/// Takes them away again, with all routes.
pub(crate) async fn uninstall(plane: &ControlPlane) {
    for (group, _, kind) in KINDS {
        let name = format!("{}.{group}", plural(kind));
        let delete = ["delete", "crd", &name, "--ignore-not-found"];
        plane.kubectl(&delete).await.unwrap();
    }
}

/// Lets the controller write routes, or not any more.
pub(crate) async fn permit(plane: &ControlPlane, routes: bool) {
    let routes = format!("federation.routes={routes}");
    let printed = run(plane.kubeconfig(), &["install", "--set", &routes]).data();
    let apply = ["apply", "-f", "-"];
    plane.kubectl_stdin(&apply, &printed).await.unwrap();
}

/// The routes of a kind in a namespace.
pub(crate) fn routes(plane: &ControlPlane, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version, kind) = KINDS.into_iter().find(|(.., own)| *own == kind).unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(plane.client(), namespace, &resource)
}

fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

fn definition((group, version, kind): (&str, &str, &str)) -> Value {
    let text = |default: &str| json!({ "type": "string", "default": default });
    let any = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let reference = |group: &str, kind: &str, more: Value| {
        let mut made = json!({
            "type": "object", "required": ["name"],
            "properties": {
                "group": text(group), "kind": text(kind), "name": { "type": "string" },
                "namespace": { "type": "string" }, "port": { "type": "integer" },
            },
        });
        for (key, value) in more.as_object().unwrap() {
            made["properties"][key] = value.clone();
        }
        made
    };
    let list = |items: Value| json!({ "type": "array", "items": items });
    let weight = json!({ "weight": { "type": "integer", "default": 1, "maximum": 1_000_000 } });
    let parent = json!({ "sectionName": { "type": "string" } });
    let mut matches = list(any.clone());
    if kind == "HTTPRoute" {
        matches["default"] = json!([{ "path": { "type": "PathPrefix", "value": "/" } }]);
    }
    let rule = json!({
        "type": "object",
        "properties": {
            "matches": matches, "filters": list(any.clone()), "timeouts": any.clone(),
            "backendRefs": list(reference("", "Service", weight)),
        },
    });
    let spec = json!({
        "type": "object",
        "properties": {
            "hostnames": list(json!({ "type": "string" })),
            "parentRefs": list(reference("gateway.networking.k8s.io", "Gateway", parent)),
            "rules": list(rule),
        },
    });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{group}", plural(kind)),
            // Kubernetes' own group asks for it.
            "annotations": { "api-approved.kubernetes.io": "unapproved, for tests" },
        },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural(kind), "singular": kind.to_lowercase() },
            "versions": [{
                "name": version, "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "properties": { "spec": spec, "status": any },
                } },
            }],
        },
    })
}
