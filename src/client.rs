//! Kubeconfigs, contexts and credential Secrets → clients with deadlines.
//!
//! Every client of the program is made here, so that none lacks a read deadline, none retries behind our
//! back, and no text of a credentials Secret can reach an error message.

mod bounds;
mod credentials;
mod multiplexed;

use std::{collections::BTreeSet, path::PathBuf, time::Duration};

use anyhow::Context as _;
use http::header::{HeaderValue, USER_AGENT};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

pub use self::credentials::{
    CredentialsError, credentials_expiry, credentials_identity, from_credentials,
    watcher_from_credentials,
};
pub use self::multiplexed::multiplexed;
use crate::hint::{HintExt as _, fail};

/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(10);
/// Which cluster a command talks to, and as whom.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Path of the kubeconfig; without it `$KUBECONFIG`, then `~/.kube/config`, then in-cluster.
    pub kubeconfig: Option<PathBuf>,
    /// Context; without it the kubeconfig's current one.
    pub context: Option<String>,
    /// User to impersonate.
    pub as_user: Option<String>,
    /// Groups to impersonate.
    pub as_groups: Vec<String>,
    /// Address of the API server, instead of the kubeconfig's.
    pub api_addr: Option<String>,
}

impl Access {
    /// The same access through another context.
    #[must_use]
    pub fn with_context(&self, context: &str) -> Self {
        Self {
            context: Some(context.to_owned()),
            ..self.clone()
        }
    }

    /// The kubeconfig that this access uses, whole.
    ///
    /// Fails when there is none (also where an in-cluster configuration would do).
    pub fn kubeconfig(&self) -> anyhow::Result<Kubeconfig> {
        match &self.kubeconfig {
            Some(path) => Kubeconfig::read_from(path).hint(
                || format!("cannot read the kubeconfig {}", path.display()),
                || "--kubeconfig takes the path of a kubeconfig file".into(),
            ),
            None => Kubeconfig::read().hint(
                || "cannot read a kubeconfig".into(),
                || "set KUBECONFIG, or pass --kubeconfig".into(),
            ),
        }
    }

    /// Configuration of a client for this access.
    pub async fn config(&self) -> anyhow::Result<Config> {
        let from_file = self.kubeconfig.is_some()
            || self.context.is_some()
            || std::env::var_os("KUBECONFIG").is_some();
        let mut config = match self.kubeconfig() {
            Ok(kubeconfig) => {
                let context = self.context_name(&kubeconfig)?;
                let options = KubeConfigOptions {
                    context: Some(context.clone()),
                    ..Default::default()
                };
                Config::from_custom_kubeconfig(kubeconfig, &options)
                    .await
                    .with_context(|| format!("context {context:?} of the kubeconfig is unusable"))?
            }
            Err(error) if from_file => return Err(error),
            Err(error) => Config::incluster().map_err(|_| error)?,
        };
        if let Some(address) = &self.api_addr {
            let url = if address.contains("://") {
                address.clone()
            } else {
                format!("https://{address}")
            };
            config.cluster_url = url
                .parse()
                .with_context(|| format!("--api-addr {address:?} is no address"))?;
        }
        config.auth_info.impersonate.clone_from(&self.as_user);
        config.auth_info.impersonate_groups =
            (!self.as_groups.is_empty()).then(|| self.as_groups.clone());
        Ok(config)
    }

    /// A client for this access, for one-shot requests: each of them ends within `deadline`.
    pub async fn client(&self, deadline: Duration) -> anyhow::Result<Client> {
        build(self.config().await?, deadline)
    }

    /// Name of the context in use. Fails with the known names when it is not in `kubeconfig`.
    pub fn context_name(&self, kubeconfig: &Kubeconfig) -> anyhow::Result<String> {
        let Some(name) = self
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone())
        else {
            return Err(fail(
                "the kubeconfig has no current context",
                "pass --context, or choose one with `kubectl config use-context`",
            ));
        };
        if kubeconfig
            .contexts
            .iter()
            .any(|context| context.name == name)
        {
            return Ok(name);
        }
        let known: Vec<_> = kubeconfig
            .contexts
            .iter()
            .map(|c| c.name.as_str())
            .collect();
        let hint = if known.is_empty() {
            "the kubeconfig has no contexts at all; is KUBECONFIG right?".to_owned()
        } else {
            format!("known contexts: {}", known.join(", "))
        };
        Err(fail(
            format!("context {name:?} is not in the kubeconfig"),
            hint,
        ))
    }
}

/// A client whose requests end within `deadline` when the server falls silent.
pub fn build(mut config: Config, deadline: Duration) -> anyhow::Result<Client> {
    config.connect_timeout = Some(CONNECT.min(deadline));
    config.read_timeout = Some(deadline);
    config.write_timeout = Some(deadline);
    config.reset_reader_on_write = true;
    config.default_retry = false;
    introduce(&mut config);
    Client::try_from(config).context("failed to set up a client")
}

/// Says who asks: API servers write it into their audit logs.
fn introduce(config: &mut Config) {
    let agent = HeaderValue::from_static(concat!("linkerd-mc/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
}

/// What tells one cluster from another without asking it: where its API server is, and what vouches for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Host (lower case) and port of the API server.
    pub server: String,
    /// Certificate authorities of the API server, DER.
    pub authorities: BTreeSet<Vec<u8>>,
}

impl Identity {
    /// The identity of the cluster that a configuration leads to.
    pub fn of(config: &Config) -> Self {
        let url = &config.cluster_url;
        let port = url.port_u16().unwrap_or_else(|| {
            if url.scheme_str() == Some("http") {
                80
            } else {
                443
            }
        });
        let host = url.host().unwrap_or_default().to_ascii_lowercase();
        Self {
            server: format!("{host}:{port}"),
            authorities: config.root_cert.iter().flatten().cloned().collect(),
        }
    }
}

/// The reason of a failed request in one line: the API server's message, or the innermost cause.
pub fn explain(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return if status.message.is_empty() {
            format!("HTTP status {} {}", status.code, status.reason)
        } else {
            status.message.clone()
        };
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    let text = cause.to_string();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.split_once(" (os error") {
        Some((line, _)) => line.to_lowercase(),
        // The words of the timers that sit between us and the socket.
        None if line == "deadline has elapsed" => "no answer in time".to_owned(),
        None => line,
    }
}
