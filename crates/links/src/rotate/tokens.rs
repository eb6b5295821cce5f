//! Token Secrets in the target cluster: one for each link, so that each can be revoked separately.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use client::Cluster;
use hints::hint::fail;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret as KubernetesSecret};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions},
};
use manifests::kubeconfig::Secret;
use mirror_core::api::labels;

use crate::{
    link_credentials::TokenAccount,
    poll::{POLL_INTERVAL, poll},
};

/// How long to wait until kube-controller-manager adds the token.
const FILLED: Duration = Duration::from_secs(30);

/// The token Secrets of an account. Kubernetes revokes a token when its Secret is deleted.
pub struct Tokens<'a> {
    target: &'a Cluster,
    account: &'a TokenAccount,
    /// The ID of the link, which new Secrets have as a label. It is not known without the source cluster; then they have
    /// the label of the fleet.
    link: Option<String>,
    /// The fleet of the link, whose accounts belong to one source cluster each.
    fleet: Option<String>,
    api: Api<KubernetesSecret>,
}

/// A token Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenSecret {
    pub name: String,
    /// The UID of the Secret. Another one may get its name.
    pub uid: Option<String>,
    pub text: Secret,
    pub created: Option<Timestamp>,
    pub owner: TokenOwner,
}

/// In place of the name of the Secret, for a token that was requested. No Secret can have this name.
pub const REQUESTED: &str = "(requested)";

impl TokenSecret {
    /// The name of its Secret; `None` for a token that was requested, which is in none.
    pub fn secret(&self) -> Option<&str> {
        Some(self.name.as_str()).filter(|name| *name != REQUESTED)
    }
}

/// Who uses a token, by the label of its Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenOwner {
    /// Only this link.
    This,
    /// Only another link.
    Another,
    /// It has no such label: all links may use it, such as the token that `install` and `allow` create.
    Unknown,
}

impl<'a> Tokens<'a> {
    pub fn of(
        target: &'a Cluster,
        account: &'a TokenAccount,
        link: Option<&str>,
        fleet: Option<String>,
    ) -> Self {
        Self {
            target,
            account,
            link: link.map(str::to_owned),
            fleet,
            api: target.api(&account.namespace),
        }
    }

    /// The Secrets that have a token, newest last.
    pub async fn list(&self) -> anyhow::Result<Vec<TokenSecret>> {
        let kind = format!("type={}", labels::SERVICE_ACCOUNT_TOKEN_TYPE);
        let params = ListParams::default().fields(&kind);
        let found = self
            .target
            .request("list the token Secrets", self.api.list(&params))
            .await?;
        let mut tokens: Vec<TokenSecret> = found
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

    /// Creates a Secret for this link, and waits for its token.
    pub async fn create(&self) -> anyhow::Result<TokenSecret> {
        let secret = KubernetesSecret {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-token-", self.account.name)),
                labels: Some(BTreeMap::from([
                    (
                        labels::EXTENSION.to_owned(),
                        labels::EXTENSION_NAME.to_owned(),
                    ),
                    self.label(),
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
                "create a token Secret",
                self.api.create(&PostParams::default(), &secret),
            )
            .await?;
        let made = filled(self.target, &self.account.namespace, &made.name_any()).await?;
        self.token(&made).context("the token is not valid UTF-8")
    }

    /// Revokes one of the `known` tokens: deletes its Secret. Fails if another one has its name by now.
    pub async fn revoke(&self, name: &str, known: &[TokenSecret]) -> anyhow::Result<()> {
        let mut known = known.iter();
        let known = known.find(|token| token.name == name);
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: known.and_then(|token| token.uid.clone()),
            resource_version: None,
        });
        let delete = self.api.delete(name, &params);
        let what = format!("delete the token Secret {name}");
        self.target.request_opt(&what, delete).await?;
        Ok(())
    }

    /// The label by which a new Secret is known again.
    fn label(&self) -> (String, String) {
        let (key, value) = match (&self.link, &self.fleet) {
            (Some(link), _) => (labels::TOKEN_OF_LINK, link.clone()),
            (None, fleet) => (labels::FLEET, fleet.clone().unwrap_or_default()),
        };
        (key.to_owned(), value)
    }

    fn owner(&self, labels: &BTreeMap<String, String>) -> TokenOwner {
        match labels.get(labels::TOKEN_OF_LINK) {
            Some(link) if Some(link) == self.link.as_ref() => TokenOwner::This,
            Some(_) => TokenOwner::Another,
            // What a fleet has made for one source cluster, no other uses.
            None if self.fleet.is_some() && labels.get(labels::FLEET) == self.fleet.as_ref() => {
                TokenOwner::This
            }
            None => TokenOwner::Unknown,
        }
    }

    fn token(&self, secret: &KubernetesSecret) -> Option<TokenSecret> {
        Some(TokenSecret {
            name: secret.name_any(),
            uid: secret.uid(),
            text: token_in(secret)?,
            created: secret.creation_timestamp().map(|time| time.0),
            owner: self.owner(secret.labels()),
        })
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

/// An ID that is unique among the links to a target cluster, from the source cluster, the namespace of the Link, and
/// the target's name there. It is valid as a label value.
pub async fn link_id(source: &Cluster, namespace: &str, cluster: &str) -> anyhow::Result<String> {
    let namespaces = source.all::<Namespace>();
    // Kubernetes has no other stable ID for a cluster.
    let system = source
        .request(
            "read the namespace kube-system",
            namespaces.get("kube-system"),
        )
        .await?;
    let uid = system.uid().context("kube-system has no UID")?;
    let text = format!("{uid}/{namespace}/{cluster}");
    Ok(client::fingerprint(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_STANDARD};
    use serde_json::{Value, json};

    use super::*;
    use crate::test_server::TestServer;

    fn secret(uid: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": labels::SERVICE_ACCOUNT_TOKEN_TYPE,
            "metadata": {
                "name": "west-token", "namespace": "mc", "uid": uid,
                "annotations": { labels::SERVICE_ACCOUNT_NAME: "west" },
            },
            "data": { "token": BASE64_STANDARD.encode("a.b.c") },
        })
    }

    #[tokio::test]
    async fn token_that_has_got_the_name_of_an_old_one_is_not_revoked() {
        let server = TestServer::new(vec![secret("old")]);
        let (cluster, account) = (server.cluster(), TokenAccount::named("mc", "west"));
        let tokens = Tokens::of(&cluster, &account, Some("link"), None);
        let known = tokens.list().await.unwrap();
        server.replace(vec![secret("new")]);
        let refused = tokens.revoke("west-token", &known).await.unwrap_err();
        assert!(
            refused
                .to_string()
                .starts_with("cannot delete the token Secret west-token")
        );
        assert_eq!(tokens.list().await.unwrap().len(), 1);
        server.replace(vec![secret("old")]);
        tokens.revoke("west-token", &known).await.unwrap();
        assert_eq!(tokens.list().await.unwrap(), []);
        tokens.revoke("west-token", &known).await.unwrap();
    }
}
