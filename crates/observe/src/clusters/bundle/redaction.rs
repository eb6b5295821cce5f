//! Takes out of a bundle what may be secret.
//!
//! Secrets are read without their content. Copies of it remain, which this module takes out: the last configuration
//! that `kubectl apply` keeps, the environment of containers, and tokens and private keys in a text.

use std::borrow::Cow;

use serde_json::Value;

/// Annotation of an object with all that `kubectl apply` was given.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Fields of a Secret with its content.
const CONTENT: [&str; 2] = ["data", "stringData"];
/// Fields of a Pod's specification with containers.
const CONTAINERS: [&str; 3] = ["containers", "initContainers", "ephemeralContainers"];
/// Containers of Linkerd, and the variables by which Linkerd configures them. People may add others.
const LINKERD: &str = "linkerd-";
/// The beginnings of these variables.
const VARIABLES: [&str; 2] = ["LINKERD2_PROXY_", "_"];
/// Ends of the domains of annotations without secrets.
const DOMAINS: [&str; 3] = ["linkerd.io", "kubernetes.io", "k8s.io"];
/// An annotation with variables for a proxy.
const ADDITIONAL: &str = "config.linkerd.io/proxy-additional-env";
/// What stands for something that was taken out.
const REDACTED: &str = "[redacted]";
/// How a JSON Web Token begins: `{"` in base64.
const TOKEN: &str = "eyJ";
/// The shortest token that is taken out, in bytes.
const SHORTEST_TOKEN: usize = 40;
/// How a private key begins and ends (RFC 7468).
const KEY: [&str; 2] = ["PRIVATE KEY-----", "-----END"];
/// How PEM begins in base64, and how it goes on if it is a certificate.
const PEM: [&str; 2] = ["LS0tLS1CRUdJTi", "BDRVJU"];

/// Takes out what may be secret, and what nobody reads.
pub fn without_secrets(object: &mut Value) {
    for metadata in ["/metadata", "/spec/template/metadata"] {
        let metadata = object.pointer_mut(metadata).and_then(Value::as_object_mut);
        let Some(metadata) = metadata else {
            continue;
        };
        metadata.remove("managedFields");
        let annotations = metadata.get_mut("annotations");
        if let Some(annotations) = annotations.and_then(Value::as_object_mut) {
            annotations.remove(LAST_APPLIED);
            let unknown = annotations.iter_mut().filter(|(key, _)| !is_known(key));
            unknown.for_each(|(_, value)| *value = REDACTED.into());
        }
    }
    if object["kind"] == "Secret"
        && let Some(secret) = object.as_object_mut()
    {
        for field in CONTENT {
            secret.remove(field);
        }
    }
    for spec in ["/spec", "/spec/template/spec"] {
        let Some(spec) = object.pointer_mut(spec).and_then(Value::as_object_mut) else {
            continue;
        };
        for field in CONTAINERS {
            let containers = spec.get_mut(field).and_then(Value::as_array_mut);
            containers.into_iter().flatten().for_each(hide_environment);
        }
    }
}

/// Whether an annotation is one of Linkerd or Kubernetes. What other programs write there may have passwords.
fn is_known(annotation: &str) -> bool {
    let domain = annotation.split_once('/').map_or("", |(domain, _)| domain);
    let is_of = |known: &str| {
        let rest = domain.strip_suffix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    annotation != ADDITIONAL && DOMAINS.into_iter().any(is_of)
}

/// Takes the values out of a container's environment. The names stay.
fn hide_environment(container: &mut Value) {
    let name = container["name"].as_str().unwrap_or_default();
    let is_of_linkerd = name.starts_with(LINKERD);
    let variables = container.get_mut("env").and_then(Value::as_array_mut);
    for variable in variables.into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or_default();
        let is_known = is_of_linkerd && VARIABLES.iter().any(|known| name.starts_with(known));
        if variable.get("value").is_some() && !is_known {
            variable["value"] = REDACTED.into();
        }
    }
}

/// A text without tokens and private keys.
pub fn scrubbed(text: &str) -> Cow<'_, str> {
    let tokens = without_encoded(Cow::Borrowed(text), TOKEN, "-_.=", |token| {
        token.len() >= SHORTEST_TOKEN
    });
    let [begin, certificate] = PEM;
    let keys = without_encoded(tokens, begin, "+/=", |key| {
        !key[begin.len()..].starts_with(certificate)
    });
    without_keys(keys)
}

/// A text without what begins so, has letters, digits and `more`, and is secret.
fn without_encoded<'t>(
    text: Cow<'t, str>,
    begin: &str,
    more: &str,
    is_secret: impl Fn(&str) -> bool,
) -> Cow<'t, str> {
    let mut clean = String::new();
    let mut rest = &*text;
    while let Some(at) = rest.find(begin) {
        let (before, found) = rest.split_at(at);
        let is_part = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        let end = found.find(|c| !is_part(c)).unwrap_or(found.len());
        let (encoded, after) = found.split_at(end);
        clean.push_str(before);
        clean.push_str(if is_secret(encoded) {
            REDACTED
        } else {
            encoded
        });
        rest = after;
    }
    if clean.is_empty() {
        return text;
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

fn without_keys(text: Cow<'_, str>) -> Cow<'_, str> {
    let [begin, end] = KEY;
    let mut clean = String::new();
    let mut rest = &*text;
    while let Some(at) = rest.find(begin) {
        let (before, key) = rest.split_at(at + begin.len());
        clean.push_str(before);
        clean.push_str(REDACTED);
        // Without an end, all of it is the key.
        let Some(length) = key.find(end) else {
            return Cow::Owned(clean);
        };
        let (_, after) = key.split_at(length);
        // The line that ends the key has the same words as the one that begins it.
        let (last, after) = after.split_at(after.find('\n').unwrap_or(after.len()));
        clean.push_str(last);
        rest = after;
    }
    if clean.is_empty() {
        return text;
    }
    clean.push_str(rest);
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_lose_what_may_be_secret_and_keep_the_rest() {
        let container = |name: &str, value: &str| json!({ "name": name, "env": [{ "name": "PASSWORD", "value": value }, { "name": "REF", "valueFrom": {} }] });
        let metadata = |annotations: Value| json!({ "name": "a", "annotations": annotations });
        let template =
            |containers: Value| json!({ "template": { "spec": { "containers": containers } } });
        for (object, expected) in [
            (
                json!({ "kind": "Secret", "metadata": { "name": "a", "managedFields": [1] }, "data": { "token": "x" }, "stringData": { "token": "x" }, "type": "t" }),
                json!({ "kind": "Secret", "metadata": { "name": "a" }, "type": "t" }),
            ),
            (
                json!({ "kind": "ConfigMap", "metadata": metadata(json!({ LAST_APPLIED: "x", "mirror.linkerd.io/b": "c" })), "data": { "k": "v" } }),
                json!({ "kind": "ConfigMap", "metadata": metadata(json!({ "mirror.linkerd.io/b": "c" })), "data": { "k": "v" } }),
            ),
            (
                json!({ "kind": "Service", "metadata": metadata(json!({
                    "ad.datadoghq.com/web.instances": "password", "plain": "x", "evil-linkerd.io/a": "x", ADDITIONAL: "x",
                    "linkerd.io/inject": "enabled", "topology.kubernetes.io/zone": "a", "gateway.networking.k8s.io/b": "c",
                })) }),
                json!({ "kind": "Service", "metadata": metadata(json!({
                    "ad.datadoghq.com/web.instances": REDACTED, "plain": REDACTED, "evil-linkerd.io/a": REDACTED, ADDITIONAL: REDACTED,
                    "linkerd.io/inject": "enabled", "topology.kubernetes.io/zone": "a", "gateway.networking.k8s.io/b": "c",
                })) }),
            ),
            (
                json!({ "kind": "Pod", "spec": { "containers": [container("app", "x")], "initContainers": [
                    container("linkerd-proxy", "x"), { "name": "linkerd-proxy", "env": [{ "name": "LINKERD2_PROXY_LOG", "value": "kept" }] },
                ] } }),
                json!({ "kind": "Pod", "spec": { "containers": [container("app", REDACTED)], "initContainers": [
                    container("linkerd-proxy", REDACTED), { "name": "linkerd-proxy", "env": [{ "name": "LINKERD2_PROXY_LOG", "value": "kept" }] },
                ] } }),
            ),
            (
                json!({ "kind": "Deployment", "spec": template(json!([container("app", "x")])) }),
                json!({ "kind": "Deployment", "spec": template(json!([container("app", REDACTED)])) }),
            ),
        ] {
            let mut shown = object;
            without_secrets(&mut shown);
            assert_eq!(shown, expected);
        }
    }

    const JWT: &str = "eyJhbGciOiJSUzI1NiIsImtpZCI6IjEifQ.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl-_x";

    #[test]
    fn texts_lose_tokens_and_private_keys() {
        for (text, expected) in [
            ("nothing".to_owned(), "nothing".to_owned()),
            (
                format!("token={JWT}, and \"{JWT}\""),
                "token=[redacted], and \"[redacted]\"".to_owned(),
            ),
            ("eyJshort".to_owned(), "eyJshort".to_owned()),
            (
                "key: LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk1IYwo=\ncrt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t".to_owned(),
                "key: [redacted]\ncrt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t".to_owned(),
            ),
            (
                "a\n-----BEGIN EC PRIVATE KEY-----\nMHc\n-----END EC PRIVATE KEY-----\nb"
                    .to_owned(),
                "a\n-----BEGIN EC PRIVATE KEY-----[redacted]-----END EC PRIVATE KEY-----\nb"
                    .to_owned(),
            ),
            (
                "-----BEGIN PRIVATE KEY-----\nMHc".to_owned(),
                "-----BEGIN PRIVATE KEY-----[redacted]".to_owned(),
            ),
        ] {
            assert_eq!(scrubbed(&text), expected);
        }
    }

    proptest! {
        #[test]
        fn no_token_is_left_wherever_it_stands(before in any::<String>(), after in "[^A-Za-z0-9_.=-].*") {
            let text = format!("{before}{JWT}{after}");
            prop_assert!(!scrubbed(&text).contains("c2lnbmF0dXJl"));
        }
    }
}
