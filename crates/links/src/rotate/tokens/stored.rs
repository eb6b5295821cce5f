//! Tokens that do not expire. Each is in its Secret, where kube-controller-manager writes it.

use std::time::Duration;

use anyhow::Context as _;
use client::Cluster;
use hints::hint::fail;
use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kube::ResourceExt as _;
use manifests::kubeconfig::Secret;
use mirror_core::api::labels;

use super::token_secret::{TokenSecret, Tokens};
use crate::poll::{POLL_INTERVAL, poll};

/// How long to wait until kube-controller-manager adds the token.
const FILLED: Duration = Duration::from_secs(30);

impl Tokens<'_> {
    /// Creates a Secret with a token that does not expire, and waits for the token.
    pub(super) async fn create_stored(&self) -> anyhow::Result<TokenSecret> {
        let made = self.make(labels::SERVICE_ACCOUNT_TOKEN_TYPE, None, None);
        let made = made.await?;
        let made = filled(self.target, &self.account.namespace, &made.name_any()).await?;
        self.token(&made).context("the token is not valid UTF-8")
    }
}

/// The token in a Secret, if there is one yet.
pub fn token_in(secret: &KubernetesSecret) -> Option<Secret> {
    let data = secret.data.as_ref()?.get("token")?;
    let text = std::str::from_utf8(&data.0).ok()?;
    (!text.is_empty()).then(|| Secret::new(text))
}

/// Waits until kube-controller-manager has added the token to a Secret. Returns the Secret.
pub async fn filled(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
) -> anyhow::Result<KubernetesSecret> {
    let api = cluster.api::<KubernetesSecret>(namespace);
    let attempt = async || {
        let read = cluster.request("read the token Secret", api.get(name));
        let live = read.await?;
        anyhow::Ok(if token_in(&live).is_some() {
            Ok(live)
        } else {
            Err(())
        })
    };
    poll(POLL_INTERVAL, FILLED, attempt, |()| ()).await?.map_err(|()| {
        fail(
            format!("the Secret {namespace}/{name} has no token yet"),
            "check that kube-controller-manager, which adds the token, is running, then run this again; the Secret is reused",
        )
    })
}
