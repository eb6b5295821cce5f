//! The CRDs of Linkerd's policy API, with the fields that the multicluster extension's objects use.

use serde_json::{Map, Value, json};

const GROUP: &str = "policy.linkerd.io";
/// Suffix of the names of these CRDs.
pub(crate) const SUFFIX: &str = ".policy.linkerd.io";

/// One definition each of `Server`, `AuthorizationPolicy`, `MeshTLSAuthentication` and `NetworkAuthentication`.
pub(crate) fn all() -> [Value; 4] {
    [
        definition(
            "Server",
            "servers",
            "server",
            &["v1beta1", "v1beta2", "v1beta3"],
            &server(),
        ),
        definition(
            "AuthorizationPolicy",
            "authorizationpolicies",
            "authorizationpolicy",
            &["v1alpha1"],
            &authorization_policy(),
        ),
        definition(
            "MeshTLSAuthentication",
            "meshtlsauthentications",
            "meshtlsauthentication",
            &["v1alpha1"],
            &mesh_tls_authentication(),
        ),
        definition(
            "NetworkAuthentication",
            "networkauthentications",
            "networkauthentication",
            &["v1alpha1"],
            &network_authentication(),
        ),
    ]
}

/// All versions have the same schema; the last one is stored.
fn definition(kind: &str, plural: &str, singular: &str, versions: &[&str], spec: &Value) -> Value {
    let stored = versions.last();
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| {
            json!({
                "name": version,
                "served": true,
                "storage": Some(version) == stored,
                "schema": { "openAPIV3Schema": object(&[], &[("spec", spec.clone())], &["spec"]) },
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}{SUFFIX}"), "labels": { "linkerd.io/control-plane-ns": "linkerd" } },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": singular },
            "versions": versions,
        },
    })
}

fn server() -> Value {
    let requirement = object(
        &["key"],
        &[
            (
                "operator",
                one_of(&["In", "NotIn", "Exists", "DoesNotExist"]),
            ),
            ("values", list(&string())),
        ],
        &["key", "operator"],
    );
    let selector = object(
        &[],
        &[
            (
                "matchLabels",
                json!({ "type": "object", "additionalProperties": string() }),
            ),
            ("matchExpressions", list(&requirement)),
        ],
        &[],
    );
    object(
        &["accessPolicy"],
        &[
            ("podSelector", selector.clone()),
            ("externalWorkloadSelector", selector),
            ("port", json!({ "x-kubernetes-int-or-string": true })),
            (
                "proxyProtocol",
                one_of(&["unknown", "HTTP/1", "HTTP/2", "gRPC", "opaque", "TLS"]),
            ),
        ],
        &["port"],
    )
}

fn authorization_policy() -> Value {
    let target = object(&["group", "kind", "name"], &[], &["kind", "name"]);
    let authentication = object(
        &["group", "kind", "name", "namespace"],
        &[],
        &["kind", "name"],
    );
    object(
        &[],
        &[
            ("targetRef", target),
            ("requiredAuthenticationRefs", list(&authentication)),
        ],
        &["targetRef", "requiredAuthenticationRefs"],
    )
}

fn mesh_tls_authentication() -> Value {
    let identity = object(&["group", "kind", "name", "namespace"], &[], &["kind"]);
    let mut spec = object(
        &[],
        &[
            ("identities", at_least_one(&string())),
            ("identityRefs", at_least_one(&identity)),
        ],
        &[],
    );
    spec["oneOf"] = json!([{ "required": ["identities"] }, { "required": ["identityRefs"] }]);
    spec
}

fn network_authentication() -> Value {
    let network = object(&["cidr"], &[("except", list(&string()))], &["cidr"]);
    object(&[], &[("networks", at_least_one(&network))], &["networks"])
}

/// The schema of an object with these fields that are strings, and others.
fn object(strings: &[&str], others: &[(&str, Value)], required: &[&str]) -> Value {
    let mut properties: Map<String, Value> = strings
        .iter()
        .map(|&name| (name.to_owned(), string()))
        .collect();
    properties.extend(
        others
            .iter()
            .map(|(name, schema)| ((*name).to_owned(), schema.clone())),
    );
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn string() -> Value {
    json!({ "type": "string" })
}

fn one_of(values: &[&str]) -> Value {
    json!({ "type": "string", "enum": values })
}

fn list(items: &Value) -> Value {
    json!({ "type": "array", "items": items })
}

fn at_least_one(items: &Value) -> Value {
    json!({ "type": "array", "items": items, "minItems": 1 })
}
