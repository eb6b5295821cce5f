//! The Gateway API: definitions of the kinds of routes that Linkerd follows, as far as defaults and shapes matter here.

use serde_json::{Value, json};

use crate::ControlPlane;

/// Group, version and kind of routes. Linkerd has two of its own from before it followed the Gateway API. The version of
/// `TLSRoute` is that of Gateway API 1.6, which has no alpha version any more.
pub const ROUTES: [(&str, &str, &str); 6] = [
    ("gateway.networking.k8s.io", "v1", "HTTPRoute"),
    ("gateway.networking.k8s.io", "v1", "GRPCRoute"),
    ("gateway.networking.k8s.io", "v1alpha2", "TCPRoute"),
    ("policy.linkerd.io", "v1beta3", "HTTPRoute"),
    ("gateway.networking.k8s.io", "v1", "TLSRoute"),
    ("linkerd.io", "v1alpha2", "ServiceProfile"),
];

impl ControlPlane {
    /// Installs the definitions, and waits until they are served.
    ///
    /// # Errors
    ///
    /// If the API server refuses one, or does not serve it within half a minute.
    pub async fn install_gateway_api(&self) -> anyhow::Result<()> {
        // One document: kubectl before 1.31 does not read several as JSON.
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": ROUTES.map(definition) });
        self.apply(&list.to_string()).await?;
        let names = ROUTES.map(|kind| format!("crd/{}", name_of(kind)));
        let wait = ["wait", "--for=condition=Established", "--timeout=30s"];
        let names = names.iter().map(String::as_str);
        let wait: Vec<&str> = wait.into_iter().chain(names).collect();
        self.kubectl(&wait).await.map(|_| ())
    }

    /// Removes the definitions, and with them all routes.
    ///
    /// # Errors
    ///
    /// If the API server refuses to.
    pub async fn uninstall_gateway_api(&self) -> anyhow::Result<()> {
        let names = ROUTES.map(name_of);
        let delete = ["delete", "crd", "--ignore-not-found"];
        let names = names.iter().map(String::as_str);
        let delete: Vec<&str> = delete.into_iter().chain(names).collect();
        self.kubectl(&delete).await.map(|_| ())
    }
}

fn plural(kind: &str) -> String {
    format!("{}s", kind.to_lowercase())
}

fn name_of((group, _, kind): (&str, &str, &str)) -> String {
    format!("{}.{group}", plural(kind))
}

fn definition(names: (&str, &str, &str)) -> Value {
    let (group, version, kind) = names;
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
        for (key, value) in more.as_object().into_iter().flatten() {
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
            "useDefaultGateways": { "type": "string" },
        },
    });
    let spec = if kind == "ServiceProfile" {
        any.clone()
    } else {
        spec
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": name_of(names),
            // Kubernetes requires this for groups under `k8s.io`.
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
