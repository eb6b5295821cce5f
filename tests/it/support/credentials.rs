//! The credentials of Links, in their Secrets.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use control_plane::ControlPlane;
use k8s_openapi::{
    ByteString,
    api::{apps::v1::Deployment, core::v1::Secret},
};
use kube::{
    Api, Client, Config,
    api::{ListParams, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use linkerd_mc::api::labels as l;
use serde_json::{Value, json};

use crate::support::installation::NAMESPACE;

pub(crate) fn secrets(plane: &ControlPlane) -> Api<Secret> {
    Api::namespaced(plane.client(), NAMESPACE)
}

/// The kubeconfig in a cluster's credentials Secret.
pub(crate) async fn kubeconfig(plane: &ControlPlane, cluster: &str) -> String {
    let secret = secrets(plane)
        .get(&format!("cluster-credentials-{cluster}"))
        .await
        .unwrap();
    String::from_utf8(secret.data.unwrap()[l::KUBECONFIG_KEY].0.clone()).unwrap()
}

/// A client with this kubeconfig, which does not retry by itself.
pub(crate) async fn client(kubeconfig: Kubeconfig) -> Client {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.unwrap();
    config.default_retry = false;
    Client::try_from(config).unwrap()
}

/// Puts a kubeconfig into a cluster's credentials Secret; `None` removes the key.
pub(crate) async fn put(plane: &ControlPlane, cluster: &str, kubeconfig: Option<&str>) {
    let data = kubeconfig.map(|text| ByteString(text.into()));
    let patch = json!({ "data": { l::KUBECONFIG_KEY: data } });
    secrets(plane)
        .patch(
            &format!("cluster-credentials-{cluster}"),
            &PatchParams::default(),
            &Patch::Merge(patch),
        )
        .await
        .unwrap();
}

/// Stands in for Linkerd's destination controller. No controller runs Deployments here, so its status always says that
/// the rollout is complete.
pub(crate) async fn destination(plane: &ControlPlane) -> Api<Deployment> {
    let api = Api::<Deployment>::namespaced(plane.client(), l::LINKERD_NAMESPACE);
    let deployment = json!({
        "metadata": { "name": "linkerd-destination" },
        "spec": {
            "replicas": 0,
            "selector": { "matchLabels": { "app": "destination" } },
            "template": {
                "metadata": { "labels": { "app": "destination" } },
                "spec": { "containers": [{ "name": "destination", "image": "none" }] },
            },
        },
    });
    let deployment = serde_json::from_value(deployment).unwrap();
    api.create(&PostParams::default(), &deployment)
        .await
        .unwrap();
    let status = Patch::Merge(json!({ "status": { "observedGeneration": 1_000_000 } }));
    api.patch_status("linkerd-destination", &PatchParams::default(), &status)
        .await
        .unwrap();
    api
}

/// The token in a kubeconfig.
pub(crate) fn token(kubeconfig: &str) -> String {
    let line = kubeconfig.lines().find(|line| line.contains("token:"));
    line.unwrap().split(':').nth(1).unwrap().trim().to_owned()
}

/// The claims of a token.
pub(crate) fn claims(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).unwrap();
    serde_json::from_slice(&claims).unwrap()
}

/// The account in a token.
pub(crate) fn account(token: &str) -> String {
    claims(token)["sub"].as_str().unwrap().to_owned()
}

/// The Secrets of all namespaces that have a token, or to which tokens are bound.
pub(crate) async fn token_secrets(plane: &ControlPlane) -> Vec<Secret> {
    let mut found = Vec::new();
    for kind in [l::SERVICE_ACCOUNT_TOKEN_TYPE, l::BOUND_TOKEN_TYPE] {
        let of_type = ListParams::default().fields(&format!("type={kind}"));
        let all = Api::<Secret>::all(plane.client());
        found.extend(all.list(&of_type).await.unwrap());
    }
    found
}

/// Whether a token is the one in a Secret, or is bound to it.
pub(crate) fn is_of(token: &str, secret: &Secret) -> bool {
    let data = secret.data.as_ref().and_then(|data| data.get("token"));
    let bound_to = &claims(token)["kubernetes.io"]["secret"]["uid"];
    data.is_some_and(|data| data.0 == token.as_bytes())
        || bound_to.is_string() && *bound_to == json!(secret.metadata.uid)
}
