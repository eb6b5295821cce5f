//! The credentials of a link: its Secrets in the source cluster, their kubeconfigs, and the ServiceAccount of its token.

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret as KubernetesSecret};
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::{
    api::labels,
    cli::common::cluster::Cluster,
    client::{fingerprint, service_account, token_claims},
    hint::HintExt as _,
    manifests::{kubeconfig::Secret, yaml},
};

/// A kubeconfig with a token. No `Debug`: it holds credentials.
#[derive(Clone)]
pub(in crate::cli) struct Credentials {
    document: Value,
    token: Secret,
}

/// The ServiceAccount in a token's claims, which are not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct TokenAccount {
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    /// The UID of the ServiceAccount, which tells clusters apart.
    pub(in crate::cli) uid: Option<String>,
    /// The Secret that has the token. Requested tokens do not have this claim.
    pub(in crate::cli) secret: Option<String>,
    /// When the token was issued. Tokens in Secrets do not have this claim.
    pub(super) issued: Option<Timestamp>,
    /// When it expires, if it does.
    pub(in crate::cli) expires: Option<Timestamp>,
}

impl TokenAccount {
    /// The account with this name, of which nothing else is known.
    pub(in crate::cli) fn named(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: None,
            secret: None,
            issued: None,
            expires: None,
        }
    }

    /// The ServiceAccount of a token, if it belongs to one.
    pub(in crate::cli) fn of(token: &Secret) -> Option<Self> {
        let claims = token_claims(token.expose())?;
        let (namespace, name) = service_account(&claims)?;
        let time = |claim: &str| Timestamp::from_second(claims.get(claim)?.as_i64()?).ok();
        // The first is of tokens in Secrets, the second of requested tokens.
        let uid = claims
            .get("kubernetes.io/serviceaccount/service-account.uid")
            .or_else(|| claims.pointer("/kubernetes.io/serviceaccount/uid"));
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.and_then(Value::as_str).map(str::to_owned),
            secret: claims
                .get("kubernetes.io/serviceaccount/secret.name")
                .and_then(Value::as_str)
                .map(str::to_owned),
            issued: time("iat"),
            expires: time("exp"),
        })
    }

    /// What stands in for a token of this account that a dry run does not request. It has the claims of one, and nobody
    /// accepts it.
    pub(in crate::cli) fn stand_in(&self, expires: Timestamp) -> Secret {
        let subject = format!("system:serviceaccount:{}:{}", self.namespace, self.name);
        let claims = json!({ "sub": subject, "exp": expires.as_second() });
        let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        Secret::new(format!("e30.{claims}."))
    }

    /// Whether `token` belongs to an account of the same name in another cluster, as far as is known.
    pub(in crate::cli) fn is_elsewhere(&self, token: &Secret) -> bool {
        let uid = Self::of(token).and_then(|account| account.uid);
        self.uid.is_some() && uid.is_some() && self.uid != uid
    }
}

impl Credentials {
    /// Reads a kubeconfig. Fails if it has no user with a token. Errors do not quote it.
    pub(in crate::cli) fn read(bytes: &[u8]) -> anyhow::Result<Self> {
        let text = std::str::from_utf8(bytes).context("the kubeconfig is not valid UTF-8")?;
        let document: Value = yaml::from_yaml(text)
            .map_err(|_| anyhow::anyhow!("the kubeconfig is not valid YAML"))?;
        let token = document
            .pointer("/users/0/user/token")
            .and_then(Value::as_str);
        let token = Secret::new(token.context("the kubeconfig's first user has no token")?);
        Ok(Self { document, token })
    }

    /// The token.
    pub(in crate::cli) fn token(&self) -> &Secret {
        &self.token
    }

    /// Address of the API server, without a slash at its end.
    pub(super) fn server(&self) -> &str {
        let server = self.document.pointer("/clusters/0/cluster/server");
        let server = server.and_then(Value::as_str).unwrap_or_default();
        server.trim_end_matches('/')
    }

    /// The ServiceAccount of the token, if it belongs to one.
    pub(super) fn account(&self) -> Option<TokenAccount> {
        TokenAccount::of(&self.token)
    }

    /// The same kubeconfig with another token.
    pub(super) fn with_token(&self, token: &Secret) -> anyhow::Result<Secret> {
        let mut document = self.document.clone();
        if let Some(place) = document.pointer_mut("/users/0/user/token") {
            *place = Value::String(token.expose().to_owned());
        }
        Ok(Secret::new(yaml::to_yaml(&document)?))
    }
}

/// A credentials Secret. No `Debug`: it holds credentials.
pub(super) struct Stored {
    namespace: String,
    name: String,
    /// Its resourceVersion: a write fails if somebody else has changed it.
    version: Option<String>,
    /// The kubeconfig as it was read.
    original: ByteString,
    pub(super) credentials: Credentials,
    /// Whether the kubeconfig was replaced.
    is_written: bool,
}

impl Stored {
    /// Reads a Secret. Fails if it has no kubeconfig with a token.
    pub(super) fn read(secret: &KubernetesSecret) -> anyhow::Result<Self> {
        let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
        let data = secret.data.as_ref();
        let (original, credentials) = data
            .and_then(|data| data.get(labels::KUBECONFIG_KEY))
            .context("it contains no kubeconfig")
            .and_then(|data| Ok((data.clone(), Credentials::read(&data.0)?)))
            .hint(
                || format!("cannot use the Secret {namespace}/{name}"),
                || "link the cluster again, which makes credentials that can be rotated".to_owned(),
            )?;
        Ok(Self {
            namespace,
            name,
            version: secret.resource_version(),
            original,
            credentials,
            is_written: false,
        })
    }

    /// Namespace and name.
    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The fingerprint of the kubeconfig, as it was read.
    pub(super) fn fingerprint(&self) -> String {
        fingerprint(&self.original.0)
    }

    /// Whether the Secret has this token, as it was read.
    pub(super) fn has(&self, token: &Secret) -> bool {
        self.credentials.token() == token
    }

    /// Replaces the token, unless the Secret has it already. Returns the fingerprint of the kubeconfig, and whether the
    /// Secret was written.
    pub(super) async fn put(
        &mut self,
        cluster: &Cluster,
        token: &Secret,
    ) -> anyhow::Result<(String, bool)> {
        if self.has(token) {
            return Ok((self.fingerprint(), false));
        }
        let kubeconfig = self.credentials.with_token(token)?;
        let data = ByteString(kubeconfig.expose().as_bytes().to_vec());
        self.write(cluster, &data).await?;
        self.is_written = true;
        Ok((fingerprint(&data.0), true))
    }

    /// Writes back the kubeconfig that was read, if it was replaced and nobody else has changed it since. Returns
    /// whether it was written.
    pub(super) async fn restore(&mut self, cluster: &Cluster) -> anyhow::Result<bool> {
        if !self.is_written {
            return Ok(false);
        }
        let original = self.original.clone();
        self.write(cluster, &original).await?;
        self.is_written = false;
        Ok(true)
    }

    /// Whether the Secret in the cluster has this token now.
    pub(super) async fn holds(&self, cluster: &Cluster, token: &Secret) -> anyhow::Result<bool> {
        let what = format!("read the Secret {}", self.path());
        let live = cluster
            .request(&what, self.api(cluster).get_opt(&self.name))
            .await?;
        Ok(live.is_some_and(|live| Self::read(&live).is_ok_and(|live| live.has(token))))
    }

    async fn write(&mut self, cluster: &Cluster, data: &ByteString) -> anyhow::Result<()> {
        let patch = json!({
            "metadata": { "resourceVersion": self.version },
            "data": { labels::KUBECONFIG_KEY: data },
        });
        let (api, params, patch) = (
            self.api(cluster),
            PatchParams::default(),
            Patch::Merge(&patch),
        );
        let what = format!("write the Secret {}", self.path());
        let patched = cluster
            .request(&what, api.patch(&self.name, &params, &patch))
            .await?;
        self.version = patched.resource_version();
        Ok(())
    }

    fn api(&self, cluster: &Cluster) -> Api<KubernetesSecret> {
        cluster.api(&self.namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.sig", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    fn kubeconfig(token: &str) -> String {
        format!(
            "apiVersion: v1\nclusters:\n- {{name: c, cluster: {{server: 'https://192.0.2.1', tls-server-name: east, insecure-skip-tls-verify: true}}}}\n\
             users:\n- {{name: u, user: {{token: '{token}'}}}}\n"
        )
    }

    #[test]
    fn accounts_with_different_uids_are_in_different_clusters() {
        let of = |claims: &str| Secret::new(token(claims));
        let subject = r#""sub":"system:serviceaccount:mc:west""#;
        let stored = |uid| {
            let claim = "kubernetes.io/serviceaccount/service-account.uid";
            of(&format!(r#"{{{subject},"{claim}":"{uid}"}}"#))
        };
        let requested = |uid| {
            let claim = format!(r#"{{"serviceaccount":{{"uid":"{uid}"}}}}"#);
            of(&format!(r#"{{{subject},"kubernetes.io":{claim}}}"#))
        };
        let account = TokenAccount::of(&requested("a")).unwrap();
        for (token, elsewhere) in [
            (stored("a"), false),
            (requested("a"), false),
            (stored("b"), true),
            (requested("b"), true),
            (of(&format!("{{{subject}}}")), false),
            (Secret::new("opaque"), false),
        ] {
            assert_eq!(account.is_elsewhere(&token), elsewhere);
        }
    }

    #[test]
    fn account_is_what_the_token_says() {
        let of = |claims: &str| {
            Credentials::read(kubeconfig(&token(claims)).as_bytes())
                .unwrap()
                .account()
        };
        let account = of(r#"{"sub":"system:serviceaccount:mc:west","iat":10,"exp":20}"#).unwrap();
        assert_eq!(
            (account.namespace.as_str(), account.name.as_str()),
            ("mc", "west")
        );
        let seconds = |time: Option<Timestamp>| time.map(Timestamp::as_second);
        assert_eq!(
            (seconds(account.issued), seconds(account.expires)),
            (Some(10), Some(20))
        );
        assert_eq!(
            of(r#"{"sub":"system:serviceaccount:mc:west"}"#)
                .unwrap()
                .expires,
            None
        );
        assert_eq!(of(r#"{"sub":"kubernetes-admin"}"#), None);
        assert_eq!(of("{}"), None);
        let opaque = Credentials::read(kubeconfig("opaque").as_bytes()).unwrap();
        assert_eq!(opaque.account(), None);
    }

    #[test]
    fn another_token_changes_nothing_else() {
        let before = Credentials::read(kubeconfig("old").as_bytes()).unwrap();
        let after = before.with_token(&Secret::new("new")).unwrap();
        let after = Credentials::read(after.expose().as_bytes()).unwrap();
        assert_eq!(after.token().expose(), "new");
        let back = after.with_token(before.token()).unwrap();
        let back = Credentials::read(back.expose().as_bytes()).unwrap();
        assert_eq!(back.document, before.document);
    }

    #[test]
    fn errors_do_not_quote_the_kubeconfig() {
        for text in ["s3cret: [", "s3cret", "users: [{user: {password: s3cret}}]"] {
            let Err(error) = Credentials::read(text.as_bytes()) else {
                panic!("{text}");
            };
            assert!(!format!("{error:#}").contains("s3cret"), "{error:#}");
        }
    }
}
