//! The environment of a Pod's proxy, as Linkerd's injector writes it into the Pod.

use std::net::Ipv4Addr;

use anyhow::Context as _;
use serde_json::Value;

use super::linkerd::{DESTINATION, IDENTITY, POLICY};

/// Balancers also log the endpoints that they get. A new balancer gets all endpoints first.
const BALANCERS: &str = ",linkerd_proxy_balance_queue=debug,linkerd_pool_p2c=debug";

/// The files of an identity, for the proxy only.
pub(crate) struct Files<'a> {
    /// Folder with the key and the signing request.
    pub(crate) identity: &'a str,
    /// The token that identity controllers check.
    pub(crate) token: &'a str,
}

/// The environment of the container `linkerd-proxy` of an injected Pod, with the differences of this rig: controllers
/// are on loopback, and files are in other folders.
pub(crate) fn environment(
    pod: &Value,
    address: Ipv4Addr,
    files: &Files<'_>,
) -> anyhow::Result<Vec<(String, String)>> {
    let spec = &pod["spec"];
    let container = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| spec[list].as_array())
        .flatten()
        .find(|container| container["name"] == "linkerd-proxy")
        .context("the injected Pod has no proxy")?;
    let mut environment: Vec<(String, String)> = Vec::new();
    for entry in container["env"].as_array().into_iter().flatten() {
        let name = entry["name"].as_str().unwrap_or_default();
        let value = if let Some(field) = entry["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            field_of(pod, address, field)?
        } else if let Some(value) = entry["value"].as_str() {
            expand(value, &environment)
        } else {
            continue;
        };
        environment.push((name.to_owned(), value));
    }
    let here = |port: u16| format!("127.0.0.1:{port}");
    for (name, value) in [
        ("LINKERD2_PROXY_DESTINATION_SVC_ADDR", here(DESTINATION)),
        ("LINKERD2_PROXY_IDENTITY_SVC_ADDR", here(IDENTITY)),
        ("LINKERD2_PROXY_POLICY_SVC_ADDR", here(POLICY)),
        ("LINKERD2_PROXY_IDENTITY_DIR", files.identity.to_owned()),
        ("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", files.token.to_owned()),
    ] {
        environment.retain(|(known, _)| known != name);
        environment.push((name.to_owned(), value));
    }
    for (name, value) in &mut environment {
        if name == "LINKERD2_PROXY_LOG" {
            value.push_str(BALANCERS);
        }
    }
    Ok(environment)
}

/// The value of a field reference, as the kubelet sets it.
fn field_of(pod: &Value, address: Ipv4Addr, field: &str) -> anyhow::Result<String> {
    if field.starts_with("status.podIP") {
        return Ok(address.to_string());
    }
    let pointer = format!("/{}", field.replace('.', "/"));
    let value = pod.pointer(&pointer).and_then(Value::as_str);
    let value = value.with_context(|| format!("the Pod has no {field}"))?;
    Ok(value.to_owned())
}

/// Replaces each `$(NAME)` whose value is known.
fn expand(value: &str, known: &[(String, String)]) -> String {
    known.iter().fold(value.to_owned(), |text, (name, value)| {
        text.replace(&format!("$({name})"), value)
    })
}
