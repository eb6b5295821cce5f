//! The kubeconfig of a credentials Secret, which is untrusted input.
//!
//! No error message or Debug output of this module quotes it.

use std::{net::SocketAddr, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Client, Config, config::Kubeconfig};
use mirror_core::api::{labels::KUBECONFIG_KEY, tls::InsecureTls};

use super::{
    bounds::ResponseLimits,
    config::{Identity, expiry_of, fingerprint, secret_text},
    kubeconfig::{file_of_cluster, of_bytes, program_or_file},
    multiplexed::{build, multiplexed},
    resolve::{Flags, resolve},
};

/// Maximum size of a kubeconfig in bytes, which is that of a Secret.
const CREDENTIALS_MAX: usize = 1 << 20;

/// Why the kubeconfig of a credentials Secret cannot be used. Messages do not quote it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Not a kubeconfig in YAML, or too large.
    #[error("the credentials have no valid kubeconfig")]
    NotAKubeconfig,
    /// No `current-context`, or one that does not exist.
    #[error("the kubeconfig of the credentials has no current context")]
    NoCurrentContext,
    /// Uses a command or a file of the local machine.
    #[error("the kubeconfig of the credentials uses {0}, which is not allowed")]
    Forbidden(&'static str),
    /// The current context's cluster does not exist, or has no `server`.
    #[error("the kubeconfig of the credentials has no server")]
    MissingServer,
    /// An entry that cannot be used, such as an invalid address, certificate or key.
    #[error("the kubeconfig of the credentials cannot be used: {0}")]
    Unusable(String),
}

/// The kubeconfig in a credentials Secret.
pub fn kubeconfig_in(secret: &Secret) -> Option<&ByteString> {
    secret.data.as_ref()?.get(KUBECONFIG_KEY)
}

/// A client for the kubeconfig of a Link's credentials Secret. Each request ends within `deadline`.
///
/// A kubeconfig that would run a command or read a local file is rejected, unlike by Linkerd's service mirror. Only the
/// current context is used.
pub async fn from_credentials(
    kubeconfig_bytes: &[u8],
    deadline: Duration,
) -> Result<Client, CredentialsError> {
    let config = config(kubeconfig_bytes)?;
    let client = build(config, deadline).await;
    client.map_err(|error| unusable(&error))
}

/// The cluster of a credentials Secret. Sends no requests.
pub fn credentials_identity(kubeconfig_bytes: &[u8]) -> Result<Identity, CredentialsError> {
    Ok(Identity::of(&config(kubeconfig_bytes)?))
}

/// A client like that of [`from_credentials`] for watches that never end: see [`multiplexed`]. `at`: the address to
/// connect to, in place of a look-up of the server's host name.
pub async fn watcher_from_credentials(
    kubeconfig_bytes: &[u8],
    at: Option<SocketAddr>,
    limits: ResponseLimits,
) -> Result<Client, CredentialsError> {
    let mut config = config(kubeconfig_bytes)?;
    if let Some(at) = at {
        connect_to(&mut config, at).ok_or_else(|| unusable(&"server: not a URL"))?;
    }
    let client = multiplexed(config, limits).await;
    client.map_err(|error| unusable(&error))
}

/// Lets a client connect to this address, without a proxy. The certificate must have the same name as before.
fn connect_to(config: &mut Config, at: SocketAddr) -> Option<()> {
    let server = config.cluster_url.clone();
    let host = server.host()?.to_owned();
    config.tls_server_name.get_or_insert(host);
    config.proxy_url = None;
    let mut parts = server.into_parts();
    parts.authority = Some(at.to_string().parse().ok()?);
    config.cluster_url = parts.try_into().ok()?;
    Some(())
}

/// The configuration that the kubeconfig of a credentials Secret makes. Fails as [`from_credentials`] does.
pub fn config(kubeconfig_bytes: &[u8]) -> Result<Config, CredentialsError> {
    let kubeconfig = parse_credentials(kubeconfig_bytes)?;
    let current = kubeconfig.current_context.clone().unwrap_or_default();
    let variable = |name: &str| std::env::var(name).ok();
    resolve(&kubeconfig, &current, &Flags::default(), variable)
        .map_err(|error| unusable(&format!("{}: {:#}", error.entry.kind(), error.why)))
}

fn unusable(why: &impl std::fmt::Display) -> CredentialsError {
    CredentialsError::Unusable(format!("{why:#}"))
}

/// When the token of a credentials Secret expires: claim `exp` of the JWT, which is not verified.
///
/// `None` if it never expires, or there is no such token.
pub fn credentials_expiry(kubeconfig_bytes: &[u8]) -> Option<Timestamp> {
    expiry_of(&credentials_token(kubeconfig_bytes)?)
}

/// The namespace of the `ServiceAccount` whose token a credentials Secret has, if the token never expires.
pub fn never_expires_in(kubeconfig_bytes: &[u8]) -> Option<String> {
    let claims = crate::token_claims(&credentials_token(kubeconfig_bytes)?)?;
    let (namespace, _) = service_account(&claims)?;
    claims.get("exp").is_none().then(|| namespace.to_owned())
}

/// What a credentials Secret uses of the machine that reads it: a program, or a file.
pub fn credentials_use(kubeconfig_bytes: &[u8]) -> Option<&'static str> {
    match parse_credentials(kubeconfig_bytes) {
        Err(CredentialsError::Forbidden(uses)) => Some(uses),
        _ => None,
    }
}

/// Why the connection of a credentials Secret is not secure; `None` if it is, or if there is none.
pub fn insecure_tls(kubeconfig_bytes: &[u8]) -> Option<InsecureTls> {
    let kubeconfig = parse_credentials(kubeconfig_bytes).ok()?;
    let cluster = kubeconfig.clusters.first()?.cluster.as_ref()?;
    let skips = cluster.insecure_skip_tls_verify == Some(true);
    InsecureTls::of(cluster.server.as_deref().unwrap_or_default(), skips)
}

/// Namespace and name of the `ServiceAccount` in a token's claims, if it belongs to one.
pub fn service_account(claims: &serde_json::Value) -> Option<(&str, &str)> {
    let subject = claims.get("sub")?.as_str()?;
    subject
        .strip_prefix("system:serviceaccount:")?
        .split_once(':')
}

/// The token of the user of a kubeconfig's current context.
fn credentials_token(kubeconfig_bytes: &[u8]) -> Option<String> {
    let kubeconfig = parse_credentials(kubeconfig_bytes).ok()?;
    let user = kubeconfig.auth_infos.first()?.auth_info.as_ref()?;
    secret_text(user, "token")
}

/// The [`fingerprint`] of the token of a credentials Secret; `None` if there is none.
pub fn token_fingerprint(kubeconfig_bytes: &[u8]) -> Option<String> {
    credentials_token(kubeconfig_bytes).map(|token| fingerprint(token.as_bytes()))
}

/// The kubeconfig in `bytes`, reduced to its current context, without commands and files.
fn parse_credentials(bytes: &[u8]) -> Result<Kubeconfig, CredentialsError> {
    if bytes.len() > CREDENTIALS_MAX {
        return Err(CredentialsError::NotAKubeconfig);
    }
    let mut kubeconfig = of_bytes(bytes).map_err(|_| CredentialsError::NotAKubeconfig)?;

    let current = kubeconfig.current_context.clone();
    keep_one(&mut kubeconfig.contexts, |named| {
        Some(&named.name) == current.as_ref()
    });
    let context = kubeconfig
        .contexts
        .first()
        .and_then(|named| named.context.clone())
        .ok_or(CredentialsError::NoCurrentContext)?;
    keep_one(&mut kubeconfig.clusters, |named| {
        named.name == context.cluster
    });
    keep_one(&mut kubeconfig.auth_infos, |named| {
        Some(&named.name) == context.user.as_ref()
    });

    let cluster = kubeconfig
        .clusters
        .first()
        .and_then(|named| named.cluster.as_ref())
        .filter(|cluster| cluster.server.as_ref().is_some_and(|url| !url.is_empty()))
        .ok_or(CredentialsError::MissingServer)?;
    let user = kubeconfig
        .auth_infos
        .first()
        .and_then(|named| named.auth_info.as_ref());
    match file_of_cluster(cluster).or_else(|| program_or_file(user?)) {
        Some(what) => Err(CredentialsError::Forbidden(what)),
        None => Ok(without_files(kubeconfig)),
    }
}

/// Removes the names of files. They are empty here, because others were refused before.
fn without_files(mut kubeconfig: Kubeconfig) -> Kubeconfig {
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .flat_map(|named| &mut named.cluster)
    {
        cluster.certificate_authority = None;
    }
    for user in kubeconfig
        .auth_infos
        .iter_mut()
        .flat_map(|named| &mut named.auth_info)
    {
        (user.token_file, user.client_certificate, user.client_key) = (None, None, None);
    }
    kubeconfig
}

/// Keeps the first item that `is_it`, as kubectl takes the first of equal names.
fn keep_one<T>(items: &mut Vec<T>, is_it: impl Fn(&T) -> bool) {
    if let Some(at) = items.iter().position(is_it) {
        items.swap(0, at);
        items.truncate(1);
    } else {
        items.clear();
    }
}

#[cfg(test)]
mod tests {
    use base64::{
        Engine as _,
        prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD},
    };

    use super::*;

    /// A kubeconfig whose current context's cluster and user have these fields (YAML flow syntax).
    fn kubeconfig(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1
kind: Config
current-context: east
contexts:
- {{name: other, context: {{cluster: other, user: other}}}}
- {{name: east, context: {{cluster: east, user: mirror}}}}
clusters:
- {{name: other, cluster: {{certificate-authority: /etc/passwd}}}}
- {{name: east, cluster: {{{cluster}}}}}
users:
- {{name: other, user: {{exec: {{command: reboot}}}}}}
- {{name: mirror, user: {{{user}}}}}
"
        )
    }

    #[test]
    fn fingerprint_is_the_start_of_sha_256() {
        assert_eq!(fingerprint(b"abc"), "ba7816bf8f01cfea");
    }

    const SERVER: &str = "server: 'https://192.0.2.1:6443'";

    #[tokio::test]
    async fn complete_credentials_make_a_client() {
        // The entries of another context are ignored.
        let text = kubeconfig(SERVER, "token: s3cret");
        from_credentials(text.as_bytes(), Duration::from_secs(1))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn empty_names_of_files_are_none() {
        let cluster = format!("{SERVER}, certificate-authority: ''");
        let user = "token: x, tokenFile: '', client-certificate: '', client-key: ''";
        let text = kubeconfig(&cluster, user);
        let client = from_credentials(text.as_bytes(), Duration::from_secs(1)).await;
        assert_eq!(client.err(), None);
    }

    #[tokio::test]
    async fn credentials_with_commands_files_or_gaps_are_refused() {
        use CredentialsError::{Forbidden, MissingServer, NoCurrentContext, NotAKubeconfig};
        let cases = [
            (String::new(), NoCurrentContext),
            ("s3cret".into(), NotAKubeconfig),
            ("clusters: [s3cret".into(), NotAKubeconfig),
            ("clusters: {s3cret: 1}".into(), NotAKubeconfig),
            (" ".repeat(CREDENTIALS_MAX + 1), NotAKubeconfig),
            ("current-context: s3cret".into(), NoCurrentContext),
            (
                "contexts: [{name: a, context: {cluster: s3cret}}]".into(),
                NoCurrentContext,
            ),
            (kubeconfig("", "token: s3cret"), MissingServer),
            (kubeconfig("server: ''", "token: s3cret"), MissingServer),
            (
                kubeconfig("server: 's3cret s3cret'", ""),
                unusable(&"cluster: server: not a URL with https:// and a host"),
            ),
            (
                kubeconfig(
                    &format!("{SERVER}, certificate-authority-data: s3cret"),
                    "token: s3cret",
                ),
                unusable(&"cluster: certificate-authority-data: not base64"),
            ),
            (
                kubeconfig(
                    &format!("{SERVER}, certificate-authority: /s3cret"),
                    "token: s3cret",
                ),
                Forbidden("a certificate-authority file"),
            ),
            (
                kubeconfig(SERVER, "exec: {command: s3cret}"),
                Forbidden("an exec plugin"),
            ),
            (
                kubeconfig(SERVER, "auth-provider: {name: s3cret, config: {}}"),
                Forbidden("an auth provider"),
            ),
            (
                kubeconfig(SERVER, "token: s3cret, tokenFile: /s3cret"),
                Forbidden("a tokenFile"),
            ),
            (
                kubeconfig(SERVER, "client-certificate: /s3cret"),
                Forbidden("a client-certificate file"),
            ),
            (
                kubeconfig(SERVER, "client-key: /s3cret"),
                Forbidden("a client-key file"),
            ),
        ];
        for (text, expected) in cases {
            let error = from_credentials(text.as_bytes(), Duration::from_secs(1))
                .await
                .err()
                .unwrap_or_else(|| panic!("accepted: {text}"));
            assert_eq!(error, expected, "{text}");
            assert!(!error.to_string().contains("s3cret"));
        }
    }

    #[tokio::test]
    async fn hostile_credentials_are_refused() {
        let not_a_kubeconfig = "the credentials have no valid kubeconfig";
        let with = |fields: &str| kubeconfig(&format!("{SERVER}, {fields}"), "token: s3cret");
        let server = |url: &str| kubeconfig(&format!("server: '{url}'"), "token: s3cret");
        let before = |text: &str| format!("{text}\n{}", kubeconfig(SERVER, "token: s3cret"));
        let laughs: String =
            ('a'..'i')
                .zip('b'..='i')
                .fold("a: &a [s3cret]\n".to_owned(), |text, (below, name)| {
                    let nine = vec![format!("*{below}"); 9].join(",");
                    format!("{text}{name}: &{name} [{nine}]\n")
                });
        let echoes = format!(
            "a: &a {}\nb: [{}]",
            "s3cret".repeat(80_000),
            "*a,".repeat(150_000)
        );
        let cases = [
            // kube's client would panic at each of these seven.
            (
                kubeconfig(SERVER, r#"token: "s3cret\n""#),
                "invalid characters in the token",
            ),
            (
                kubeconfig(SERVER, r#"token: "s3cret\u0007""#),
                "invalid characters in the token",
            ),
            (
                server("192.0.2.1:6443"),
                "cluster: server: not a URL with https:// and a host",
            ),
            (
                server("api.s3cret"),
                "cluster: server: not a URL with https:// and a host",
            ),
            (
                server("/s3cret"),
                "cluster: server: not a URL with https:// and a host",
            ),
            (
                server("*"),
                "cluster: server: not a URL with https:// and a host",
            ),
            (
                server(&format!("https://a/{}", "a".repeat(65_000))),
                "cluster: server: not a URL with https:// and a host",
            ),
            (
                server("ftp://192.0.2.1"),
                "cluster: server: not a URL with https:// and a host",
            ),
            (
                server("https://:6443"),
                "cluster: server: not a URL with https:// and a host",
            ),
            (
                with("proxy-url: 's3cret s3cret'"),
                "cluster: proxy-url: not a proxy",
            ),
            (
                with("proxy-url: 'ftp://s3cret'"),
                "cluster: proxy-url: not a proxy",
            ),
            (
                with("tls-server-name: 's3cret s3cret'"),
                "tls-server-name: not a name",
            ),
            (
                kubeconfig(SERVER, r#"as: "s3cret\n""#),
                "as: invalid characters",
            ),
            (before(&laughs), not_a_kubeconfig),
            (before(&echoes), not_a_kubeconfig),
            (
                before(&format!("a: {}{}", "[".repeat(9_000), "]".repeat(9_000))),
                not_a_kubeconfig,
            ),
            (
                before(&format!("a: {}", "- ".repeat(9_000))),
                not_a_kubeconfig,
            ),
            (before(&"? ".repeat(9_000)), not_a_kubeconfig),
            (before("a: !!binary s3cret"), not_a_kubeconfig),
        ];
        for (text, expected) in cases {
            let shown: String = text.chars().take(1_000).collect();
            let watcher =
                watcher_from_credentials(text.as_bytes(), None, ResponseLimits::of_pages())
                    .await
                    .map(drop);
            let once = from_credentials(text.as_bytes(), Duration::from_secs(1)).await;
            for made in [watcher, once.map(drop)] {
                let said = made.unwrap_err().to_string();
                assert!(said.contains(expected), "{said}: {shown}");
                assert!(!said.contains("s3cret"), "{said}");
            }
        }
    }

    #[tokio::test]
    async fn connection_settings_come_from_the_secret() {
        for fields in [
            "insecure-skip-tls-verify: true",
            "tls-server-name: api",
            "tls-server-name: 192.0.2.2",
            "proxy-url: 'http://user:s3cret@192.0.2.2:3128'",
            "proxy-url: 'socks5://192.0.2.2'",
            "unknown: s3cret",
        ] {
            let text = kubeconfig(&format!("{SERVER}, {fields}"), "token: s3cret");
            let client =
                watcher_from_credentials(text.as_bytes(), None, ResponseLimits::of_pages())
                    .await
                    .map(drop);
            assert_eq!(client, Ok(()), "{fields}");
        }
    }

    #[tokio::test]
    async fn authority_that_would_be_ignored_is_refused() {
        let authority = rcgen::generate_simple_self_signed(["east".to_owned()]).unwrap();
        let authority = BASE64_STANDARD.encode(authority.cert.pem());
        let both = format!("certificate-authority-data: {authority}, insecure-skip-tls-verify");
        for (server, skips, expected) in [
            (
                "https://192.0.2.1",
                true,
                Err("certificate-authority, which would be ignored, and insecure-skip-tls-verify"),
            ),
            ("https://192.0.2.1", false, Ok(())),
            ("http://192.0.2.1", true, Ok(())),
        ] {
            let text = kubeconfig(&format!("server: '{server}', {both}: {skips}"), "token: x");
            let client = from_credentials(text.as_bytes(), Duration::from_secs(1)).await;
            match (client.map(drop), expected) {
                (Ok(()), Ok(())) => {}
                (Err(error), Err(expected)) => assert!(error.to_string().contains(expected)),
                (found, _) => panic!("{found:?}: {server} {skips}"),
            }
        }
    }

    #[test]
    fn security_of_the_connection_follows_the_current_context() {
        for (cluster, expected) in [
            (SERVER.to_owned(), None),
            (
                format!("{SERVER}, insecure-skip-tls-verify: true"),
                Some(InsecureTls::Unverified),
            ),
            (format!("{SERVER}, insecure-skip-tls-verify: false"), None),
            (
                "server: 'http://192.0.2.1'".to_owned(),
                Some(InsecureTls::Plain),
            ),
            (String::new(), None),
        ] {
            let found = insecure_tls(kubeconfig(&cluster, "token: s3cret").as_bytes());
            assert_eq!(found, expected, "{cluster}");
        }
        assert_eq!(insecure_tls(b"no kubeconfig"), None);
    }

    #[tokio::test]
    async fn spellings_of_an_address_identify_one_cluster() {
        for (server, expected) in [
            ("https://API.example", "api.example:443"),
            ("https://api.example:443/", "api.example:443"),
            ("http://api.example", "api.example:80"),
        ] {
            let text = kubeconfig(&format!("server: '{server}'"), "");
            let identity = credentials_identity(text.as_bytes()).unwrap();
            assert_eq!(identity.server, expected);
        }
    }

    #[test]
    fn expiry_of_a_token_is_read_if_it_has_one() {
        let token = |claims: &str| format!("token: h.{}.s", BASE64_URL_SAFE_NO_PAD.encode(claims));
        let cases = [
            (
                token(r#"{"exp":1700000000,"iss":"x"}"#),
                Some(1_700_000_000),
            ),
            (token(r#"{"iss":"x"}"#), None),
            (token("no json"), None),
            ("token: opaque".into(), None),
            ("token: a.!.c".into(), None),
            (String::new(), None),
        ];
        for (user, expected) in cases {
            let expiry = credentials_expiry(kubeconfig(SERVER, &user).as_bytes());
            assert_eq!(expiry.map(Timestamp::as_second), expected, "{user}");
        }
    }

    #[tokio::test]
    async fn address_replaces_the_look_up_and_the_proxy_and_not_the_name_of_the_certificate() {
        for (fields, address, url, name) in [
            (
                "x: y",
                "10.96.0.9:443",
                "https://10.96.0.9/",
                "east.example",
            ),
            (
                "tls-server-name: kubernetes.default.svc, proxy-url: 'http://192.0.2.2'",
                "[fd00::1]:6443",
                "https://[fd00::1]:6443/",
                "kubernetes.default.svc",
            ),
        ] {
            let server = format!("server: 'https://east.example', {fields}");
            let text = kubeconfig(&server, "token: s3cret");
            let mut config = config(text.as_bytes()).unwrap();
            connect_to(&mut config, address.parse().unwrap()).unwrap();
            let expected: http::Uri = url.parse().unwrap();
            assert_eq!(config.cluster_url.host(), expected.host(), "{address}");
            let port = config.cluster_url.port_u16();
            assert_eq!(port, Some(address.parse::<SocketAddr>().unwrap().port()));
            assert_eq!(config.tls_server_name.as_deref(), Some(name));
            assert_eq!(config.proxy_url, None);
        }
    }
}
