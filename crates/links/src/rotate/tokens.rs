//! Token Secrets in the target cluster: one for each link, so that each can be revoked separately. Tokens that expire are
//! bound to a Secret that is empty; others are in it.

mod bound;
mod stored;
mod token_secret;

use std::collections::BTreeMap;

use anyhow::Context as _;
use client::Cluster;
use k8s_openapi::{
    api::core::v1::{Namespace, Secret as KubernetesSecret, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Resource as _, ResourceExt as _,
    api::{DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions},
};
use manifests::kubeconfig::Secret;
use mirror_core::api::labels;

pub use self::{
    stored::{filled, token_in},
    token_secret::{Lifetime, REQUESTED, TokenOwner, TokenSecret, Tokens, USUAL},
};
use crate::link_credentials::TokenAccount;

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
            lifetime: Lifetime::Usual,
            api: target.api(&account.namespace),
        }
    }

    /// The same, but new tokens are valid for this time.
    pub fn valid_for(self, lifetime: Lifetime) -> Self {
        Self { lifetime, ..self }
    }

    /// The Secrets of tokens, newest last.
    pub async fn list(&self) -> anyhow::Result<Vec<TokenSecret>> {
        let found = token_secrets(self.target, &self.account.namespace).await?;
        let own = found.into_iter().filter(|secret| {
            let account = secret.annotations().get(labels::SERVICE_ACCOUNT_NAME);
            account == Some(&self.account.name)
        });
        let mut tokens: Vec<TokenSecret> = own.filter_map(|secret| self.token(&secret)).collect();
        tokens.sort_by(|a, b| (a.created, &a.name).cmp(&(b.created, &b.name)));
        Ok(tokens)
    }

    /// A token that only those use who may use a new one: of one of the `known` Secrets, or of a new one.
    pub async fn obtain(&self, known: &[TokenSecret]) -> anyhow::Result<Secret> {
        let own = if self.link.is_some() || self.fleet.is_some() {
            TokenOwner::This
        } else {
            TokenOwner::Unknown
        };
        let is_endless = self.lifetime == Lifetime::Endless;
        let mut newest_first = known.iter().rev();
        let usable = newest_first.find(|of| of.owner == own && of.text.is_some() == is_endless);
        let made = match usable {
            Some(known) => self.with_text(known).await?,
            None => self.create_named(Some(self.first_name())).await?,
        };
        made.text.context("the Secret has no token")
    }

    /// The name of the first Secret that is made: runs at the same time get the same one, so that none is left over.
    fn first_name(&self) -> String {
        let user = self.link.as_ref().or(self.fleet.as_ref());
        let user = user.map_or("all", String::as_str);
        format!("{}{user}", self.name_prefix()).to_lowercase()
    }

    /// What names of new Secrets begin with.
    fn name_prefix(&self) -> String {
        let word = if self.link.is_some() || self.fleet.is_some() {
            "token"
        } else {
            "bound"
        };
        format!("{}-{word}-", self.account.name)
    }

    /// Creates a Secret for this link, and a token.
    pub async fn create(&self) -> anyhow::Result<TokenSecret> {
        self.create_named(None).await
    }

    async fn create_named(&self, name: Option<String>) -> anyhow::Result<TokenSecret> {
        match self.lifetime.asked() {
            Some(asked) => self.create_bound(asked, name).await,
            None => self.create_stored().await,
        }
    }

    /// Creates a Secret of a type, which goes with the account if its UID is given, under this name or one that no other
    /// has. What another run has created under the name meanwhile is as good.
    async fn make(
        &self,
        kind: &str,
        account: Option<String>,
        name: Option<String>,
    ) -> anyhow::Result<KubernetesSecret> {
        let mut secret = self.secret(kind, account);
        let params = PostParams::default();
        let what = "create a token Secret";
        if let Some(name) = name {
            secret.metadata.name = Some(name.clone());
            let made = async {
                match self.api.create(&params, &secret).await {
                    Err(kube::Error::Api(status)) if status.code == 409 => {
                        self.api.get(&name).await
                    }
                    made => made,
                }
            };
            let made = self.target.request(what, made).await?;
            let is_for_same = self.owner(made.labels()) == self.owner(secret.labels());
            if is_for_same && made.type_ == secret.type_ {
                return Ok(made);
            }
            // Somebody else has the name.
            secret.metadata.name = None;
        }
        let made = self.api.create(&params, &secret);
        self.target.request(what, made).await
    }

    /// A Secret without a name.
    fn secret(&self, kind: &str, account: Option<String>) -> KubernetesSecret {
        let extension = (
            labels::EXTENSION.to_owned(),
            labels::EXTENSION_NAME.to_owned(),
        );
        let owner = account.map(|uid| OwnerReference {
            api_version: ServiceAccount::api_version(&()).into_owned(),
            kind: ServiceAccount::kind(&()).into_owned(),
            name: self.account.name.clone(),
            uid,
            ..OwnerReference::default()
        });
        KubernetesSecret {
            metadata: ObjectMeta {
                generate_name: Some(self.name_prefix()),
                labels: Some(self.label().into_iter().chain([extension]).collect()),
                annotations: Some(BTreeMap::from([(
                    labels::SERVICE_ACCOUNT_NAME.to_owned(),
                    self.account.name.clone(),
                )])),
                owner_references: owner.map(|owner| vec![owner]),
                ..Default::default()
            },
            type_: Some(kind.to_owned()),
            ..Default::default()
        }
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

    /// The label by which a new Secret is known again, if only one link uses it.
    fn label(&self) -> Option<(String, String)> {
        let of_link = self.link.as_ref().map(|id| (labels::TOKEN_OF_LINK, id));
        let of_fleet = self.fleet.as_ref().map(|fleet| (labels::FLEET, fleet));
        let (key, value) = of_link.or(of_fleet)?;
        Some((key.to_owned(), value.clone()))
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
        let is_bound = secret.type_.as_deref() == Some(labels::BOUND_TOKEN_TYPE);
        let text = token_in(secret).filter(|_| !is_bound);
        (is_bound || text.is_some()).then(|| TokenSecret {
            name: secret.name_any(),
            uid: secret.uid(),
            text,
            created: secret.creation_timestamp().map(|time| time.0),
            owner: self.owner(secret.labels()),
        })
    }
}

/// The Secrets of a namespace that have a token of an account, or to which tokens are bound.
pub async fn token_secrets(
    cluster: &Cluster,
    namespace: &str,
) -> anyhow::Result<Vec<KubernetesSecret>> {
    let api = cluster.api::<KubernetesSecret>(namespace);
    let of_type = async |kind: &str| {
        let params = ListParams::default().fields(&format!("type={kind}"));
        let found = api.list(&params);
        let what = "list the token Secrets";
        let mut found = cluster.request(what, found).await?.items;
        found.retain(|secret| secret.type_.as_deref() == Some(kind));
        anyhow::Ok(found)
    };
    let (stored, bound) = futures::try_join!(
        of_type(labels::SERVICE_ACCOUNT_TOKEN_TYPE),
        of_type(labels::BOUND_TOKEN_TYPE)
    )?;
    Ok(stored.into_iter().chain(bound).collect())
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
