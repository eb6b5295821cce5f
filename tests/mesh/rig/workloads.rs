//! The Services of the rig: one for each way of mirroring, all in front of the same Pods.

use serde_json::{Value, json};

use super::NAMESPACE;
use crate::helper::APP_PORT;

/// The port of each Service.
pub(crate) const PORT: u16 = 80;

/// The namespace, and the ServiceAccounts of Pods.
pub(crate) fn accounts() -> String {
    accounts_in(NAMESPACE)
}

/// Another namespace with them.
pub(crate) fn accounts_in(name: &str) -> String {
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } });
    let account = |account: &str| {
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": account, "namespace": name },
        })
    };
    lines(&[namespace, account("web"), account("client")])
}

/// The Services of the target that are not headless, as at the start.
pub(crate) fn plain() -> String {
    lines(&[
        gated(),
        service("flat", "mirror.linkerd.io/exported", "remote-discovery"),
        service("web", "mirror.linkerd.io/federated", "member"),
    ])
}

/// What the target exports: `gated` through the gateway, `flat` by remote discovery, `web` as a member, and the headless
/// `db`.
pub(crate) fn of_target() -> String {
    lines(&[plain(), headless().to_string()])
}

/// The headless Service `db`. Clients connect to the Pods' own port, because nothing translates ports there.
pub(crate) fn headless() -> Value {
    let mut headless = service("db", "mirror.linkerd.io/exported", "true");
    headless["spec"]["clusterIP"] = json!("None");
    headless["spec"]["ports"][0]["port"] = json!(APP_PORT);
    headless
}

/// The local member of the federated Service, which is the only Service of the source cluster.
pub(crate) fn member() -> String {
    service("web", "mirror.linkerd.io/federated", "member").to_string()
}

/// The Service `gated`, which others reach through the gateway.
pub(crate) fn gated() -> Value {
    service("gated", "mirror.linkerd.io/exported", "true")
}

/// A Service in front of the Pods of `web`, with a label.
pub(crate) fn service(name: &str, label: &str, value: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "namespace": NAMESPACE, "labels": { label: value } },
        "spec": {
            "selector": { "app": "web" },
            "ports": [{ "name": "http", "port": PORT, "targetPort": APP_PORT }],
        },
    })
}

fn lines<T: ToString>(objects: &[T]) -> String {
    let lines: Vec<String> = objects.iter().map(T::to_string).collect();
    lines.join("\n---\n")
}
