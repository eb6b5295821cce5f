//! Policies of the target cluster that deny.

use serde_json::{Value, json};

use super::{Fault, broken, scene::Scene};
use crate::{
    helper::APP_PORT,
    rig::{
        NAMESPACE,
        cluster::EXTENSION,
        mirrors::{FLAT, GATED},
    },
};

/// The name of the policy's objects.
const DENYING: &str = "of-somebody";

pub(super) fn faults() -> Vec<Fault> {
    let at_server = |name, called| {
        broken(name, called, ("target", "ServerDenies"), |s| {
            Box::pin(server_denies(s))
        })
        .ended_by(|s| Box::pin(no_policy(s)))
    };
    vec![
        broken(
            "policy denies at the gateway",
            (GATED, 80),
            ("network", "GatewayDenies"),
            |s| Box::pin(gateway_denies(s)),
        )
        .mended_by(|s| Box::pin(policy_back(s))),
        at_server(
            "policy denies at the server, through the gateway",
            (GATED, 80),
        ),
        at_server("policy denies at the server, Pod to Pod", (FLAT, 80)),
    ]
}

/// Nobody is permitted any more.
async fn gateway_denies(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    let policy = ["authorizationpolicy", "linkerd-gateway"];
    let delete = ["-n", EXTENSION, "delete"];
    scene.east(&[&delete[..], &policy[..]].concat()).await?;
    Ok(())
}

/// Only people know the values of an installation, so no command that is printed installs it again.
async fn policy_back(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.rig.east.install().await
}

fn object(version: &str, kind: &str, name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": format!("policy.linkerd.io/{version}"), "kind": kind,
        "metadata": { "namespace": NAMESPACE, "name": name },
        "spec": spec,
    })
    .to_string()
}

/// Only one identity is permitted, which nobody has. What `kubectl edit` opens names another authentication.
async fn server_denies(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    scene.people_edit("s/name: nobody/name: everybody/")?;
    let policy = "policy.linkerd.io";
    let server = json!({ "podSelector": { "matchLabels": { "app": "web" } }, "port": APP_PORT });
    let permitted = json!({
        "targetRef": { "group": policy, "kind": "Server", "name": DENYING },
        "requiredAuthenticationRefs": [{ "group": policy, "kind": "MeshTLSAuthentication", "name": "nobody" }],
    });
    let objects = [
        object(
            "v1alpha1",
            "MeshTLSAuthentication",
            "nobody",
            &json!({ "identities": ["nobody"] }),
        ),
        object(
            "v1alpha1",
            "MeshTLSAuthentication",
            "everybody",
            &json!({ "identities": ["*"] }),
        ),
        object("v1alpha1", "AuthorizationPolicy", DENYING, &permitted),
        object("v1beta3", "Server", DENYING, &server),
    ];
    scene.rig.east.apply(&objects.join("\n---\n")).await
}

async fn no_policy(scene: &mut Scene<'_>) -> anyhow::Result<()> {
    for objects in [
        ["server", DENYING].as_slice(),
        &["authorizationpolicy", DENYING],
        &["meshtlsauthentication", "nobody", "everybody"],
    ] {
        let delete = ["-n", NAMESPACE, "delete"];
        scene.east(&[&delete[..], objects].concat()).await?;
    }
    Ok(())
}
