//! The credentials of a link: the kubeconfig in its Secrets, the ServiceAccount of the token, and to which cluster both
//! lead.

use std::time::Duration;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use client::{Cluster, kubeconfig_in, service_account, token_claims};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Secret as KubernetesSecret, ServiceAccount};
use kube::ResourceExt as _;
use manifests::{
    kubeconfig::{ClusterEntry, Secret},
    yaml,
};
use mirror_core::api::labels;
use serde_json::{Value, json};

use crate::proxy_url::ProxyUrl;

/// Where the token is in a kubeconfig.
const TOKEN: &str = "/users/0/user/token";

/// What a kubeconfig in a Secret says. No `Debug`: it holds credentials.
#[derive(Clone)]
pub struct KubeconfigTarget {
    document: Value,
    /// Address of the API server, without a slash at its end.
    pub server: String,
    /// Its certificate authority.
    pub authority: String,
    /// The name in its certificate, if that is not the host of the address.
    certificate_name: String,
    /// Whether its certificate is not verified.
    pub is_unverified: bool,
    /// The proxy on the way to it.
    pub proxy: ProxyUrl,
    pub token: Option<Secret>,
    /// The ServiceAccount of the token. The UID of an account is that of no other account in any cluster.
    pub account: Option<TokenAccount>,
}

impl KubeconfigTarget {
    /// Reads a kubeconfig. `None` if it names no API server.
    pub fn of(kubeconfig: &[u8]) -> Option<Self> {
        let document: Value = yaml::from_yaml(std::str::from_utf8(kubeconfig).ok()?).ok()?;
        let text = |path: &str| document.pointer(path).and_then(Value::as_str);
        let server = text("/clusters/0/cluster/server")?;
        let authority = text("/clusters/0/cluster/certificate-authority-data");
        let certificate_name = text("/clusters/0/cluster/tls-server-name");
        let token = text(TOKEN).map(Secret::new);
        Some(Self {
            server: server.trim_end_matches('/').to_owned(),
            authority: authority.unwrap_or_default().to_owned(),
            certificate_name: certificate_name.unwrap_or_default().to_owned(),
            is_unverified: document
                .pointer("/clusters/0/cluster/insecure-skip-tls-verify")
                .is_some_and(|skips| *skips == true),
            proxy: ProxyUrl::of(text("/clusters/0/cluster/proxy-url")),
            account: token.as_ref().and_then(TokenAccount::of),
            token,
            document,
        })
    }

    /// Reads the kubeconfig in a Secret.
    pub fn of_secret(secret: &KubernetesSecret) -> Option<Self> {
        Self::of(&kubeconfig_in(secret)?.0)
    }

    /// The same kubeconfig with another token.
    pub fn with_token(&self, token: &Secret) -> anyhow::Result<Secret> {
        let mut document = self.document.clone();
        if let Some(place) = document.pointer_mut(TOKEN) {
            *place = Value::String(token.expose().to_owned());
        }
        Ok(Secret::new(yaml::to_yaml(&document)?))
    }

    /// Whether it leads to a cluster: by the `uids` that are recorded of the cluster and that it has, if both are known;
    /// then by the account of the token, if the cluster has it as `known`; then by the `entry` of the user's kubeconfig.
    pub fn leads_to(
        &self,
        uids: (Option<&str>, Option<&str>),
        entry: &ClusterEntry,
        known: Option<&ServiceAccount>,
    ) -> Evidence {
        if let Some(found) = by_uid(uids.0, uids.1) {
            return found;
        }
        // Another address may still be of the same cluster. Then it knows the account.
        let own = self.account.as_ref().and_then(|own| own.uid.as_ref());
        let knows = own.is_some() && known.and_then(|known| known.metadata.uid.as_ref()) == own;
        if knows || self.is_at(entry) {
            Evidence::Same
        } else {
            Evidence::Elsewhere
        }
    }

    /// Whether both lead to the same API server in the same way, with the same token. Contexts and users may have other
    /// names.
    pub fn is_same(&self, other: &Self) -> bool {
        let parts = |of: &Self| {
            let address = (of.server.clone(), of.authority.clone(), of.is_unverified);
            (address, of.certificate_name.clone(), of.proxy.clone())
        };
        parts(self) == parts(other) && self.token == other.token
    }

    /// Whether it has the address and the certificate authority of a cluster of the user's kubeconfig.
    fn is_at(&self, cluster: &ClusterEntry) -> bool {
        let authority = cluster.certificate_authority_data.as_deref();
        self.server == cluster.server.trim_end_matches('/')
            && self.authority == authority.unwrap_or_default()
    }
}

/// Whether two Secrets have the same kubeconfig, in whatever order it is written: `rotate` keeps that of others.
pub fn have_same_kubeconfig(one: &KubernetesSecret, other: &KubernetesSecret) -> bool {
    let document = |secret| KubeconfigTarget::of_secret(secret).map(|target| target.document);
    kubeconfig_in(one) == kubeconfig_in(other)
        || document(one).is_some_and(|one| Some(one) == document(other))
}

/// Whether Linkerd, which reads its Secret once, has something else than is in the new one: credentials, or the domains of
/// the target cluster. `None` if it has all of it.
pub fn outdated_at_linkerd(old: &KubernetesSecret, new: &KubernetesSecret) -> Option<&'static str> {
    if !have_same_kubeconfig(old, new) {
        return Some("credentials");
    }
    let domains = [labels::TRUST_DOMAIN, labels::CLUSTER_DOMAIN];
    let differs = |key: &&str| old.annotations().get(*key) != new.annotations().get(*key);
    domains.iter().any(differs).then_some("domains")
}

/// What credentials that were applied earlier say about the cluster that they lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    Same,
    Elsewhere,
    /// The user may not read them.
    Unreadable,
}

/// The ServiceAccount in a token's claims, which are not verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenAccount {
    pub namespace: String,
    pub name: String,
    /// The UID of the ServiceAccount, which tells clusters apart.
    pub uid: Option<String>,
    /// The Secret that has the token, or to which it is bound: without it, the token is not valid.
    pub secret: Option<String>,
    /// The UID of the Secret to which it is bound.
    pub bound_to: Option<String>,
    /// When the token was issued. Tokens in Secrets do not have this claim.
    pub issued: Option<Timestamp>,
    /// When it expires, if it does.
    pub expires: Option<Timestamp>,
}

impl TokenAccount {
    /// The account with this name, of which nothing else is known.
    pub fn named(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: None,
            secret: None,
            bound_to: None,
            issued: None,
            expires: None,
        }
    }

    /// The ServiceAccount of a token, if it belongs to one.
    pub fn of(token: &Secret) -> Option<Self> {
        let claims = token_claims(token.expose())?;
        let (namespace, name) = service_account(&claims)?;
        let time = |claim: &str| Timestamp::from_second(claims.get(claim)?.as_i64()?).ok();
        // The first is of tokens in Secrets, the second of requested tokens.
        let uid = claims
            .get("kubernetes.io/serviceaccount/service-account.uid")
            .or_else(|| claims.pointer("/kubernetes.io/serviceaccount/uid"));
        let stored = claims.get("kubernetes.io/serviceaccount/secret.name");
        let text = |claim: Option<&Value>| claim.and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: text(uid),
            secret: text(stored.or_else(|| claims.pointer("/kubernetes.io/secret/name"))),
            bound_to: text(claims.pointer("/kubernetes.io/secret/uid")),
            issued: time("iat"),
            expires: time("exp"),
        })
    }

    /// How long a token that expires is valid from the start.
    pub fn lifetime(&self) -> Option<Duration> {
        Duration::try_from(self.expires?.duration_since(self.issued?)).ok()
    }

    /// What stands in for a token of this account that a dry run does not request. It has the claims of one, and nobody
    /// accepts it.
    pub fn stand_in(&self, expires: Option<Timestamp>) -> Secret {
        let subject = format!("system:serviceaccount:{}:{}", self.namespace, self.name);
        let claims = json!({ "sub": subject, "exp": expires.map(Timestamp::as_second) });
        let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        Secret::new(format!("e30.{claims}."))
    }

    /// Whether `token` belongs to an account of the same name in another cluster, as far as is known.
    pub fn is_elsewhere(&self, token: &Secret) -> bool {
        let uid = Self::of(token).and_then(|account| account.uid);
        self.uid.is_some() && uid.is_some() && self.uid != uid
    }
}

/// Whether a token is what stands in for one in a dry run: it has no signature.
pub fn is_stand_in(token: &Secret) -> bool {
    token.expose().ends_with('.')
}

/// What the recorded UID of a cluster says, if it can be compared with that of the cluster that is meant.
pub fn by_uid(recorded: Option<&str>, actual: Option<&str>) -> Option<Evidence> {
    let is_same = recorded? == actual?;
    Some(if is_same {
        Evidence::Same
    } else {
        Evidence::Elsewhere
    })
}

/// Compares credentials that were applied earlier with a cluster, as the user's kubeconfig has it. `recorded` is the UID
/// of the cluster that they are for. Nothing is sent to the address in the credentials.
pub async fn compare(
    old: &KubeconfigTarget,
    recorded: Option<&str>,
    entry: &ClusterEntry,
    target: &Cluster,
) -> Evidence {
    let actual = target.uid().await;
    let uids = (recorded, actual.as_deref());
    let is_known = by_uid(uids.0, uids.1).is_some() || old.is_at(entry);
    let Some(account) = old.account.as_ref().filter(|_| !is_known) else {
        return old.leads_to(uids, entry, None);
    };
    let accounts = target.api::<ServiceAccount>(&account.namespace);
    let read = accounts.get_opt(&account.name);
    // Without an answer, nothing says that it is the same cluster.
    let known = target.request("read the ServiceAccount", read).await.ok();
    old.leads_to(uids, entry, known.flatten().as_ref())
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
    fn kubeconfigs_are_compared_by_what_they_say() {
        let secret = |text: &str| -> KubernetesSecret {
            serde_json::from_value(serde_json::json!({ "stringData": {}, "data": {
                "kubeconfig": base64::prelude::BASE64_STANDARD.encode(text),
            }}))
            .unwrap()
        };
        let one = "clusters: [{name: c, cluster: {server: 'https://a'}}]\nusers: [{name: u, user: {token: t}}]\n";
        let again = "users:\n- user: {token: t}\n  name: u\nclusters:\n- name: c\n  cluster:\n    server: https://a\n";
        assert!(have_same_kubeconfig(&secret(one), &secret(again)));
        assert!(!have_same_kubeconfig(
            &secret(one),
            &secret(&again.replace("token: t", "token: x"))
        ));
        let unsafe_ = again.replace(
            "    server:",
            "    insecure-skip-tls-verify: true\n    server:",
        );
        assert!(!have_same_kubeconfig(&secret(one), &secret(&unsafe_)));
        assert!(!have_same_kubeconfig(&secret("no"), &secret("other")));
        assert!(have_same_kubeconfig(&secret("no"), &secret("no")));
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
    fn credentials_are_for_a_cluster_with_their_server_and_authority() {
        let here = "https://192.0.2.1:6443";
        let entry = ClusterEntry {
            server: here.to_owned(),
            certificate_authority_data: Some("a".into()),
            ..ClusterEntry::default()
        };
        for (server, authority, expected) in [
            (here, "a", true),
            ("https://192.0.2.1:6443/", "a", true),
            // One server may be in front of several clusters, and an authority may have signed for several.
            ("https://192.0.2.1:6443/c2", "a", false),
            (here, "b", false),
            ("https://192.0.2.2:6443", "a", false),
        ] {
            let text = json!({ "clusters": [{ "cluster": {
                "server": server, "certificate-authority-data": authority,
            } }] });
            let old = KubeconfigTarget::of(text.to_string().as_bytes()).unwrap();
            assert_eq!(old.is_at(&entry), expected, "{server} {authority}");
        }
        for nowhere in ["another", "users: [", ""] {
            assert!(
                KubeconfigTarget::of(nowhere.as_bytes()).is_none(),
                "{nowhere}"
            );
        }
    }

    #[test]
    fn account_is_what_the_token_says() {
        let of = |claims: &str| {
            let read = KubeconfigTarget::of(kubeconfig(&token(claims)).as_bytes());
            read.unwrap().account
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
        let opaque = KubeconfigTarget::of(kubeconfig("opaque").as_bytes()).unwrap();
        assert_eq!(opaque.account, None);
    }

    #[test]
    fn another_token_changes_nothing_else() {
        let before = KubeconfigTarget::of(kubeconfig("old").as_bytes()).unwrap();
        let after = before.with_token(&Secret::new("new")).unwrap();
        let after = KubeconfigTarget::of(after.expose().as_bytes()).unwrap();
        assert_eq!(after.token.as_ref().unwrap().expose(), "new");
        let back = after.with_token(before.token.as_ref().unwrap()).unwrap();
        let back = KubeconfigTarget::of(back.expose().as_bytes()).unwrap();
        assert_eq!(back.document, before.document);
    }
}
