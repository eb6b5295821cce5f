//! What both clusters have, without what differs from run to run.

use std::collections::{BTreeMap, BTreeSet};

use control_plane::ControlPlane;
use k8s_openapi::api::{
    core::v1::{Secret, Service, ServiceAccount},
    rbac::v1::{ClusterRole, ClusterRoleBinding},
};
use kube::{
    Api, Resource, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use linkerd_mc::api::labels as l;
use serde_json::json;

use super::{NS, Stage};
use crate::support::{
    SOON,
    credentials::{account, is_of, token, token_secrets},
    installation::{ACCOUNT, NAMESPACE},
    links::links,
};

/// The Secrets of this type in all namespaces.
async fn secrets(plane: &ControlPlane, type_: &str) -> Vec<Secret> {
    let params = ListParams::default().fields(&format!("type={type_}"));
    let found = Api::<Secret>::all(plane.client()).list(&params).await;
    found.unwrap().items
}

/// The text of a key of a Secret.
fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    String::from_utf8(data.cloned().unwrap_or_default().0).unwrap()
}

/// The mirrors and federated Services of both clusters, with their UIDs.
pub(super) async fn mirrors(stage: &Stage) -> anyhow::Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for plane in stage.both() {
        let params = ListParams::default().labels(l::MIRRORED_SERVICE);
        let services = Api::<Service>::namespaced(plane.client(), NS);
        for service in services.list(&params).await? {
            let (name, uid) = (service.name_any(), service.uid().unwrap());
            all.insert(format!("{} {name} {uid}", plane.name()));
        }
    }
    Ok(all)
}

/// The Secrets whose credentials are not valid, and the Links without any.
pub(super) async fn unusable(stage: &Stage) -> Vec<String> {
    let [source, far] = stage.both();
    let mut unusable = Vec::new();
    for (plane, target) in [(source, far), (far, source)] {
        let valid = token_secrets(target).await;
        let all = secrets(plane, l::CREDENTIALS_TYPE).await;
        let name =
            |secret: &Secret| format!("{}/{}", secret.namespace().unwrap(), secret.name_any());
        for secret in &all {
            let held = token(&text(secret, l::KUBECONFIG_KEY));
            if !valid.iter().any(|secret| is_of(&held, secret)) {
                unusable.push(format!(
                    "{}: the token of {} is revoked",
                    plane.name(),
                    name(secret)
                ));
            }
        }
        for link in links(plane).list(&ListParams::default()).await.unwrap() {
            let own = format!("{NAMESPACE}/{}", link.spec.cluster_credentials_secret);
            if !all.iter().any(|secret| name(secret) == own) {
                unusable.push(format!("{}: {own} is missing", plane.name()));
            }
        }
    }
    unusable
}

/// The objects of the links, one in a line.
pub(super) async fn state(stage: &Stage) -> String {
    let mut lines = Vec::new();
    for plane in stage.both() {
        let own = plane.name();
        for link in links(plane).list(&ListParams::default()).await.unwrap() {
            let metadata = [json!(link.labels()), json!(link.annotations())];
            let [labels, annotations] = metadata;
            let spec = json!(link.spec);
            lines.push(format!(
                "{own} Link {} {labels} {annotations} {spec}",
                link.name_any()
            ));
        }
        for secret in secrets(plane, l::CREDENTIALS_TYPE).await {
            let kubeconfig = text(&secret, l::KUBECONFIG_KEY);
            let token = token(&kubeconfig);
            let rest: BTreeSet<&str> = kubeconfig
                .lines()
                .filter(|line| !line.contains("token:"))
                .collect();
            lines.push(format!(
                "{own} Secret {}/{} {} {} {} {rest:?}",
                secret.namespace().unwrap(),
                secret.name_any(),
                json!(secret.labels()),
                json!(secret.annotations()),
                account(&token),
            ));
        }
        let mut tokens: BTreeMap<String, usize> = BTreeMap::new();
        for secret in token_secrets(plane).await {
            let of = secret.annotations().get(l::SERVICE_ACCOUNT_NAME).cloned();
            *tokens.entry(of.unwrap_or_default()).or_default() += 1;
        }
        lines.push(format!("{own} tokens {tokens:?}"));
        lines.extend(made::<ServiceAccount>(plane).await);
        lines.extend(made::<ClusterRole>(plane).await);
        lines.extend(made::<ClusterRoleBinding>(plane).await);
    }
    lines.join("\n")
}

/// The objects of a kind that a fleet has made.
async fn made<K>(plane: &ControlPlane) -> Vec<String>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    let own = ListParams::default().labels(l::FLEET);
    let found = Api::<K>::all(plane.client()).list(&own).await.unwrap();
    let names = found.iter().map(|object| {
        let annotations = object.annotations().get(l::CLUSTER_UID);
        let of = [json!(object.labels()), json!(annotations)];
        format!(
            "{} {} {} {of:?}",
            plane.name(),
            K::kind(&()),
            object.name_any()
        )
    });
    names.collect()
}

/// Deletes all links, accounts and tokens but those of the installation, and waits until the mirrors are gone.
pub(super) async fn clear(stage: &Stage) {
    let now = DeleteParams::default();
    for plane in stage.both() {
        let all = ListParams::default();
        links(plane).delete_collection(&now, &all).await.unwrap();
    }
    for plane in stage.both() {
        control_plane::eventually("the mirrors to be gone", SOON, async || {
            let found = mirrors(stage).await?;
            let own = |mirror: &String| {
                mirror.starts_with(plane.name()) && !mirror.contains("-federated ")
            };
            Ok((!found.iter().any(own)).then_some(()))
        })
        .await
        .unwrap();
        let client = || plane.client();
        for secret in secrets(plane, l::CREDENTIALS_TYPE).await {
            let api = Api::<Secret>::namespaced(client(), &secret.namespace().unwrap());
            api.delete(&secret.name_any(), &now).await.unwrap();
        }
        for secret in token_secrets(plane).await {
            if secret.name_any() != format!("{ACCOUNT}-bound") {
                let api = Api::<Secret>::namespaced(client(), &secret.namespace().unwrap());
                api.delete(&secret.name_any(), &now).await.unwrap();
            }
        }
        let own = ListParams::default().labels(l::FLEET);
        let accounts = Api::<ServiceAccount>::namespaced(client(), NAMESPACE);
        accounts.delete_collection(&now, &own).await.unwrap();
        let roles = Api::<ClusterRole>::all(client());
        roles.delete_collection(&now, &own).await.unwrap();
        let bindings = Api::<ClusterRoleBinding>::all(client());
        bindings.delete_collection(&now, &own).await.unwrap();
    }
}
