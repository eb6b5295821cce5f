//! Token Secrets in the target cluster: one of its own for each link, so that it can be revoked alone.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::Context as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams},
};

use super::credentials::Account;
use crate::{api::labels, cli::cluster::Cluster, hint::fail, manifests::kubeconfig::Secret};

/// Time that kube-controller-manager gets to fill in a token.
const FILLED: Duration = Duration::from_secs(30);
/// Time between two looks at it.
const LOOK: Duration = Duration::from_millis(250);

/// The token Secrets of an account. Kubernetes revokes a token when its Secret is deleted.
pub(super) struct Tokens<'a> {
    target: &'a Cluster,
    account: &'a Account,
    /// The link that minted ones are labelled with.
    link: String,
    api: Api<KubernetesSecret>,
}

/// A token Secret.
pub(super) struct Token {
    pub(super) name: String,
    pub(super) text: Secret,
    pub(super) created: Option<Timestamp>,
    /// Whether it was minted for this link alone.
    pub(super) own: bool,
}

impl<'a> Tokens<'a> {
    pub(super) fn of(target: &'a Cluster, account: &'a Account, link: &str) -> Self {
        Self {
            target,
            account,
            link: link.to_owned(),
            api: Api::namespaced(target.client.clone(), &account.namespace),
        }
    }

    /// Those that are there and filled in, the newest last.
    pub(super) async fn list(&self) -> anyhow::Result<Vec<Token>> {
        let kind = format!("type={}", labels::SERVICE_ACCOUNT_TOKEN_TYPE);
        let params = ListParams::default().fields(&kind);
        let found = self
            .target
            .request("list the token Secrets", self.api.list(&params))
            .await?;
        let mut tokens: Vec<Token> = found
            .into_iter()
            .filter(|secret| {
                let account = secret.annotations().get(labels::SERVICE_ACCOUNT_NAME);
                account == Some(&self.account.name)
            })
            .filter_map(|secret| self.token(&secret))
            .collect();
        tokens.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(tokens)
    }

    /// Makes one for this link, and waits until it is filled in.
    pub(super) async fn mint(&self) -> anyhow::Result<Token> {
        let secret = KubernetesSecret {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-token-", self.account.name)),
                labels: Some(BTreeMap::from([
                    (
                        labels::EXTENSION.to_owned(),
                        labels::EXTENSION_NAME.to_owned(),
                    ),
                    (labels::TOKEN_OF_LINK.to_owned(), self.link.clone()),
                ])),
                annotations: Some(BTreeMap::from([(
                    labels::SERVICE_ACCOUNT_NAME.to_owned(),
                    self.account.name.clone(),
                )])),
                ..Default::default()
            },
            type_: Some(labels::SERVICE_ACCOUNT_TOKEN_TYPE.to_owned()),
            ..Default::default()
        };
        let made = self
            .target
            .request(
                "make a token Secret",
                self.api.create(&PostParams::default(), &secret),
            )
            .await?;
        let (name, started) = (made.name_any(), Instant::now());
        loop {
            let live = self
                .target
                .request("read the token Secret", self.api.get(&name))
                .await?;
            if let Some(token) = self.token(&live) {
                return Ok(token);
            }
            if started.elapsed() > FILLED {
                return Err(fail(
                    format!(
                        "the Secret {}/{name} has no token yet",
                        self.account.namespace
                    ),
                    "is kube-controller-manager running, which fills it in? Run this again then: the Secret is used",
                ));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Revokes a token: deletes its Secret.
    pub(super) async fn revoke(&self, name: &str) -> anyhow::Result<()> {
        let params = DeleteParams::default();
        let delete = self.api.delete(name, &params);
        let what = format!("delete the token Secret {name}");
        self.target.request_opt(&what, delete).await?;
        Ok(())
    }

    fn token(&self, secret: &KubernetesSecret) -> Option<Token> {
        let data = secret.data.as_ref()?.get("token")?;
        let text = std::str::from_utf8(&data.0)
            .ok()
            .filter(|text| !text.is_empty())?;
        Some(Token {
            name: secret.name_any(),
            text: Secret::new(text),
            created: secret.creation_timestamp().map(|time| time.0),
            own: secret.labels().get(labels::TOKEN_OF_LINK) == Some(&self.link),
        })
    }
}

/// What tells a link from all others of its target cluster: the source cluster, the namespace of the Link and the name
/// that the target cluster has there. A value for a label.
pub(super) async fn link_id(
    source: &Cluster,
    namespace: &str,
    cluster: &str,
) -> anyhow::Result<String> {
    let namespaces = Api::<k8s_openapi::api::core::v1::Namespace>::all(source.client.clone());
    // Kubernetes has no other name for a cluster that stays.
    let system = source
        .request(
            "read the namespace kube-system",
            namespaces.get("kube-system"),
        )
        .await?;
    let uid = system.uid().context("kube-system has no UID")?;
    let text = format!("{uid}/{namespace}/{cluster}");
    Ok(crate::client::fingerprint(text.as_bytes()))
}
