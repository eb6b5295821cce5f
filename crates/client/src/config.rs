//! Checks and settings of all client configurations, and which cluster they are for.

use std::collections::BTreeSet;

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{
    header::{HeaderValue, USER_AGENT},
    uri::Scheme,
};
use jiff::Timestamp;
use kube::{Config, config::AuthInfo};

use hints::hint::{fail, misuse};

/// Whether requests are encrypted.
pub fn is_encrypted(config: &Config) -> bool {
    config.cluster_url.scheme() == Some(&Scheme::HTTPS)
}

/// Removes the credentials of a user whose requests would not be encrypted: everybody on the way could read them. As
/// for kubectl, who is impersonated stays.
pub fn without_credentials_in_clear(config: &mut Config) {
    if is_encrypted(config) {
        return;
    }
    let AuthInfo {
        impersonate,
        impersonate_uid,
        impersonate_groups,
        impersonate_user_extra,
        ..
    } = std::mem::take(&mut config.auth_info);
    config.auth_info = AuthInfo {
        impersonate,
        impersonate_uid,
        impersonate_groups,
        impersonate_user_extra,
        ..AuthInfo::default()
    };
}

/// Whom requests act as: the user of the kubeconfig, unless `user` names another, who has neither its groups nor its UID.
/// `groups` replace those of the kubeconfig. Fails for groups, a UID or extra of nobody, as kubectl.
pub fn impersonate(
    info: &mut AuthInfo,
    user: Option<&str>,
    groups: &[String],
) -> anyhow::Result<()> {
    if let Some(user) = user.filter(|user| !user.is_empty()) {
        info.impersonate = Some(user.to_owned());
        info.impersonate_groups = None;
        info.impersonate_uid = None;
        info.impersonate_user_extra = None;
    }
    if !groups.is_empty() {
        info.impersonate_groups = Some(groups.to_owned());
    }
    // For kubectl, an empty name is none.
    for name in [&mut info.impersonate, &mut info.impersonate_uid] {
        *name = name.take().filter(|name| !name.is_empty());
    }
    if info.impersonate.is_some() {
        return Ok(());
    }
    if !groups.is_empty() {
        return Err(misuse(
            "--as-group needs a user",
            "pass the user with --as; groups alone cannot be impersonated",
        ));
    }
    let has_groups = info
        .impersonate_groups
        .as_ref()
        .is_some_and(|of| !of.is_empty());
    let has_extra = info
        .impersonate_user_extra
        .as_ref()
        .is_some_and(|of| !of.is_empty());
    let alone = [
        (has_groups, "as-groups"),
        (info.impersonate_uid.is_some(), "as-uid"),
        (has_extra, "as-user-extra"),
    ];
    match alone.into_iter().find(|(is_there, _)| *is_there) {
        None => Ok(()),
        Some((_, field)) => Err(fail(
            format!("there is {field} without as"),
            "add the user to impersonate with `as`, or pass --as",
        )),
    }
}

/// A secret of a user, such as its `token`. Its type exposes it only through serde.
pub fn secret_text(user: &AuthInfo, field: &str) -> Option<String> {
    match serde_json::to_value(user).ok()?.get_mut(field)?.take() {
        serde_json::Value::String(text) if !text.is_empty() => Some(text),
        _ => None,
    }
}

/// When a JWT expires, which is not verified.
pub fn expiry_of(token: &str) -> Option<Timestamp> {
    Timestamp::from_second(token_claims(token)?.get("exp")?.as_i64()?).ok()
}

/// The claims of a JWT, which is not verified.
pub fn token_claims(token: &str) -> Option<serde_json::Value> {
    let claims = token.split('.').nth(1)?;
    let claims = BASE64_URL_SAFE_NO_PAD.decode(claims).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// A short hash of a secret, such as the kubeconfig of a credentials Secret: the start of its SHA-256, 16 hexadecimal
/// digits. Tokens have far too many possible values for a brute-force search.
pub fn fingerprint(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let (start, _) = digest
        .as_ref()
        .split_first_chunk::<8>()
        .unwrap_or((&[0; 8], &[]));
    format!("{:016x}", u64::from_be_bytes(*start))
}

/// Sets the user agent, which is in the audit logs of API servers.
pub fn set_user_agent(config: &mut Config) {
    let agent = HeaderValue::from_static(concat!("linkerd-mc/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
}

/// Identifies a cluster without a request, by the way that leads to it. Two that are equal are of one cluster. Others may
/// be of one, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Host (lower case), port and path of the API server. Rancher has several clusters at one host.
    pub server: String,
    /// Certificate authorities of the API server, DER.
    pub authorities: BTreeSet<Vec<u8>>,
    /// A hash of the proxy and of the name in the certificate. Behind other proxies, an address may be of another cluster.
    pub way: String,
    /// A hash of the credentials. Teleport has several clusters at one address, and sees by them which one is meant.
    pub user: String,
}

impl Identity {
    /// The identity of a configuration's cluster.
    pub fn of(config: &Config) -> Self {
        let proxy = config.proxy_url.as_ref().map(ToString::to_string);
        let way = format!("{proxy:?} {:?}", config.tls_server_name);
        Self {
            server: server_of(&config.cluster_url),
            authorities: config.root_cert.iter().flatten().cloned().collect(),
            way: fingerprint(way.as_bytes()),
            user: fingerprint(&credentials(&config.auth_info)),
        }
    }

    /// Whether both lead to one API server in one way, perhaps with other credentials.
    pub fn has_way_of(&self, other: &Self) -> bool {
        let parts = |of: &Self| (of.server.clone(), of.authorities.clone(), of.way.clone());
        parts(self) == parts(other)
    }
}

/// Host (lower case), port and path of an address, so that its spellings are equal.
pub fn server_of(url: &http::Uri) -> String {
    let is_http = url.scheme_str() == Some("http");
    let port = url.port_u16().unwrap_or(if is_http { 80 } else { 443 });
    let host = url.host().unwrap_or_default().to_ascii_lowercase();
    let path = url.path().trim_end_matches('/');
    format!("{host}:{port}{path}")
}

/// All that a user sends to be recognized. Who is impersonated is another question.
fn credentials(user: &AuthInfo) -> Vec<u8> {
    let user = AuthInfo {
        impersonate: None,
        impersonate_uid: None,
        impersonate_groups: None,
        impersonate_user_extra: None,
        ..user.clone()
    };
    // As a `Value`, its keys are in order.
    let user = serde_json::to_value(user).unwrap_or_default();
    user.to_string().into_bytes()
}

/// A cluster as far as it can be told apart from others.
#[derive(Clone, Debug, Default)]
pub struct IdentifiedCluster {
    /// What identifies its API server.
    pub identity: Identity,
    /// The UID of its Namespace kube-system, if the user may read it. No other cluster has it.
    pub uid: Option<String>,
}

impl IdentifiedCluster {
    /// Whether both are certainly the same cluster.
    pub fn is(&self, other: &Self) -> bool {
        self.has_uid_of(other)
            .unwrap_or_else(|| self.identity == other.identity)
    }

    /// Whether nothing shows that they are two clusters, and the same way leads to both.
    pub fn may_be(&self, other: &Self) -> bool {
        self.has_uid_of(other)
            .unwrap_or_else(|| self.identity.has_way_of(&other.identity))
    }

    fn has_uid_of(&self, other: &Self) -> Option<bool> {
        Some(self.uid.as_ref()? == other.uid.as_ref()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(server: &str, way: &str, user: &str, uid: &str) -> IdentifiedCluster {
        IdentifiedCluster {
            identity: Identity {
                server: server.to_owned(),
                way: way.to_owned(),
                user: user.to_owned(),
                ..Identity::default()
            },
            uid: Some(uid.to_owned()).filter(|uid| !uid.is_empty()),
        }
    }

    #[test]
    fn clusters_are_told_apart_by_their_uids_or_else_by_the_way_to_them() {
        let east = || known("east:443", "direct", "me", "1");
        for (other, is, may_be) in [
            (east(), true, true),
            (known("other:443", "proxy", "you", "1"), true, true),
            (known("east:443", "direct", "me", "2"), false, false),
            (known("east:443", "direct", "me", ""), true, true),
            (known("east:443", "direct", "you", ""), false, true),
            (known("east:443", "proxy", "me", ""), false, false),
            (known("east:443/a", "direct", "me", ""), false, false),
        ] {
            assert_eq!(east().is(&other), is, "{other:?}");
            assert_eq!(east().may_be(&other), may_be, "{other:?}");
        }
    }

    #[test]
    fn identity_is_the_way_and_the_user_and_not_who_is_impersonated() {
        let of = |change: &dyn Fn(&mut Config)| {
            let mut config = Config::new("https://EAST.example/a/".parse().unwrap());
            config.auth_info.token = Some("t".to_owned().into());
            change(&mut config);
            Identity::of(&config)
        };
        let east = of(&|_| {});
        assert_eq!(east.server, "east.example:443/a");
        assert_eq!(
            east,
            of(&|to| to.auth_info.impersonate = Some("me".to_owned()))
        );
        assert_ne!(east, of(&|to| to.auth_info.token = None));
        assert_ne!(east, of(&|to| to.tls_server_name = Some("x".to_owned())));
        assert_ne!(
            east,
            of(&|to| to.proxy_url = Some("http://p".parse().unwrap()))
        );
        assert_ne!(east, of(&|to| to.root_cert = Some(vec![vec![1]])));
        assert_ne!(
            east,
            of(&|to| to.cluster_url = "https://east.example/b".parse().unwrap())
        );
    }
}
