//! A portable kubeconfig: one context, one user with a token, no references to files.

use std::{fmt, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use hints::hint::{HintExt as _, fail};
use kube::config::{Cluster, Kubeconfig};
use mirror_core::api::tls::InsecureTls;
use serde::Serialize;

use super::yaml;

/// Text that is never in logs, errors or `Debug` output: a token, or a kubeconfig with one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// The cluster entry of a kubeconfig: address and TLS settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ClusterEntry {
    /// Address of the API server.
    pub server: String,
    /// Certificates to trust, base64 of PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authority_data: Option<String>,
    /// Whether to trust any certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure_skip_tls_verify: Option<bool>,
    /// Name that the certificate must have, instead of the address's host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_server_name: Option<String>,
    /// Proxy on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proxy_url: Option<String>,
}

impl ClusterEntry {
    /// Why a connection to it is not secure; `None` if it is.
    pub fn insecure_tls(&self) -> Option<InsecureTls> {
        InsecureTls::of(&self.server, self.insecure_skip_tls_verify == Some(true))
    }
}

/// One context of a kubeconfig, with all that it refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubeconfigContext {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Name of its cluster.
    pub cluster_name: String,
    /// Its cluster.
    pub cluster: ClusterEntry,
}

impl KubeconfigContext {
    /// Takes the context `name` out of `kubeconfig`; `read` reads a file with certificates.
    ///
    /// Fails if the context refers to a cluster that does not exist or has no server, or if a file cannot be read.
    pub fn take(
        kubeconfig: &Kubeconfig,
        name: &str,
        read: impl Fn(&Path) -> std::io::Result<Vec<u8>>,
    ) -> anyhow::Result<Self> {
        let broken = |what: String| {
            fail(
                what,
                "fix the kubeconfig, or choose another context with --context",
            )
        };
        let context = kubeconfig
            .contexts
            .iter()
            .find(|context| context.name == name)
            .and_then(|named| named.context.as_ref())
            .ok_or_else(|| broken(format!("context {name:?} is not in the kubeconfig")))?;
        let cluster = kubeconfig
            .clusters
            .iter()
            .find(|cluster| cluster.name == context.cluster)
            .and_then(|named| named.cluster.as_ref())
            .ok_or_else(|| {
                broken(format!(
                    "context {name:?} refers to the cluster {:?}, which is not in the kubeconfig",
                    context.cluster
                ))
            })?;
        let server = cluster.server.clone().ok_or_else(|| {
            broken(format!(
                "the cluster {:?} of the kubeconfig has no server",
                context.cluster
            ))
        })?;
        Ok(Self {
            name: name.to_owned(),
            namespace: context.namespace.clone(),
            cluster_name: context.cluster.clone(),
            cluster: ClusterEntry {
                server,
                certificate_authority_data: certificates(cluster, name, read)?,
                insecure_skip_tls_verify: cluster.insecure_skip_tls_verify,
                tls_server_name: cluster.tls_server_name.clone(),
                proxy_url: cluster.proxy_url.clone(),
            },
        })
    }

    /// A kubeconfig of this context alone, for `user` with `token`.
    pub fn kubeconfig(&self, user: &str, token: &Secret) -> anyhow::Result<Secret> {
        let file = File {
            api_version: "v1",
            kind: "Config",
            clusters: [Named {
                name: &self.cluster_name,
                entry: NamedEntry::Cluster(&self.cluster),
            }],
            contexts: [Named {
                name: &self.name,
                entry: NamedEntry::Context {
                    cluster: &self.cluster_name,
                    namespace: self.namespace.as_deref(),
                    user,
                },
            }],
            current_context: &self.name,
            users: [Named {
                name: user,
                entry: NamedEntry::User {
                    token: token.expose(),
                },
            }],
        };
        Ok(Secret::new(yaml::to_yaml(&file)?))
    }
}

#[derive(Serialize)]
struct File<'a> {
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    kind: &'static str,
    clusters: [Named<'a>; 1],
    contexts: [Named<'a>; 1],
    #[serde(rename = "current-context")]
    current_context: &'a str,
    users: [Named<'a>; 1],
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    #[serde(flatten)]
    entry: NamedEntry<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum NamedEntry<'a> {
    Cluster(&'a ClusterEntry),
    Context {
        cluster: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<&'a str>,
        user: &'a str,
    },
    User {
        token: &'a str,
    },
}

/// Whether an address works only on this machine: a loopback or unspecified address.
pub fn is_local_address(server: &str) -> bool {
    let Some(host) = server
        .parse::<http::Uri>()
        .ok()
        .and_then(|uri| uri.host().map(str::to_owned))
    else {
        return false;
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

/// The certificate authority of a cluster in base64, also if the kubeconfig has the path of a file.
fn certificates(
    cluster: &Cluster,
    context: &str,
    read: impl Fn(&Path) -> std::io::Result<Vec<u8>>,
) -> anyhow::Result<Option<String>> {
    let data = &cluster.certificate_authority_data;
    let path = cluster.certificate_authority.as_deref();
    let Some(path) = path.filter(|path| !path.is_empty() && data.is_none()) else {
        return Ok(data.clone());
    };
    let pem = read(Path::new(path)).hint(
        || format!("cannot read {path}, the certificate authority of context {context:?}"),
        || "the source cluster needs these certificates in its credentials Secret".into(),
    )?;
    Ok(Some(BASE64_STANDARD.encode(pem)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r"
apiVersion: v1
kind: Config
current-context: admin@east
clusters:
- name: east
  cluster:
    server: https://10.0.0.1:6443
    certificate-authority: /pki/ca.crt
    tls-server-name: api.east
    proxy-url: http://proxy:3128
    disable-compression: true
- name: bare
  cluster: {}
- name: data
  cluster:
    server: https://10.0.0.2
    certificate-authority: /nowhere
    certificate-authority-data: REFUQQ==
contexts:
- name: admin@east
  context: {cluster: east, user: admin, namespace: shop}
- name: lost
  context: {cluster: gone, user: admin}
- name: bare
  context: {cluster: bare, user: admin}
- name: data
  context: {cluster: data, user: admin}
users:
- name: admin
  user: {client-key-data: a2V5}
";

    fn take(name: &str) -> anyhow::Result<KubeconfigContext> {
        let source: Kubeconfig = yaml::from_yaml(SOURCE).unwrap();
        KubeconfigContext::take(&source, name, |path| match path.to_str() {
            Some("/pki/ca.crt") => Ok(b"PEM".to_vec()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        })
    }

    #[test]
    fn one_context_is_left_with_a_token_and_inlined_certificates() {
        let text = take("admin@east")
            .unwrap()
            .kubeconfig("mirror", &Secret::new("t0ken"))
            .unwrap();
        insta::assert_snapshot!(text.expose(), @r"
        apiVersion: v1
        kind: Config
        clusters:
        - name: east
          cluster:
            server: https://10.0.0.1:6443
            certificate-authority-data: UEVN
            tls-server-name: api.east
            proxy-url: http://proxy:3128
        contexts:
        - name: admin@east
          context:
            cluster: east
            namespace: shop
            user: mirror
        current-context: admin@east
        users:
        - name: mirror
          user:
            token: t0ken
        ");
    }

    #[test]
    fn certificates_in_the_kubeconfig_win_over_a_file() {
        let context = take("data").unwrap();
        assert_eq!(
            context.cluster.certificate_authority_data.as_deref(),
            Some("REFUQQ==")
        );
    }

    #[test]
    fn context_without_cluster_is_an_error() {
        for (name, what) in [
            (
                "lost",
                "context \"lost\" refers to the cluster \"gone\", which is not in the kubeconfig",
            ),
            (
                "bare",
                "the cluster \"bare\" of the kubeconfig has no server",
            ),
            ("none", "context \"none\" is not in the kubeconfig"),
        ] {
            assert_eq!(take(name).unwrap_err().to_string(), what);
        }
    }

    #[test]
    fn debug_shows_no_secret() {
        assert_eq!(format!("{:?}", Secret::new("t0ken")), "Secret(…)");
    }

    #[test]
    fn local_addresses_are_distinguished_from_others() {
        for local in [
            "https://127.0.0.1:6443",
            "https://127.8.8.8",
            "https://0.0.0.0:6443",
            "https://[::1]:6443",
            "https://[::]:6443",
            "https://localhost:1",
            "https://east.localhost",
        ] {
            assert!(is_local_address(local), "{local}");
        }
        for other in [
            "https://10.0.0.1",
            "https://api.east:6443",
            "https://[2001:db8::1]",
            "no address",
        ] {
            assert!(!is_local_address(other), "{other}");
        }
    }
}
