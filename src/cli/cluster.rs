//! A cluster as one-shot commands use it: requests with deadlines, and errors that name the server.

use std::{future::Future, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};

use crate::{
    api::{
        labels::{LINKERD_CONFIG, LINKERD_CONFIG_KEY},
        link::LinkerdConfig,
    },
    client::{Access, build},
    hint::{HintExt as _, fail, in_brief},
    manifests::yaml,
};

/// Longest time that one request may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs a command that talks to clusters. Commands that do not, start no runtime.
pub(crate) fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?
        .block_on(command)
}

/// A cluster to talk to.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    server: String,
}

impl Cluster {
    /// Sets up a client. Nothing is sent yet.
    pub(crate) async fn connect(access: &Access) -> anyhow::Result<Self> {
        let config = access.config().await?;
        Ok(Self {
            server: config
                .cluster_url
                .to_string()
                .trim_end_matches('/')
                .to_owned(),
            client: build(config, DEADLINE)?,
        })
    }

    /// Waits for a request, at most for [`DEADLINE`]. `what` completes "cannot …".
    pub(crate) async fn request<T>(
        &self,
        what: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> anyhow::Result<T> {
        match tokio::time::timeout(DEADLINE, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(kube::Error::Api(status))) => Err(anyhow::anyhow!(in_brief(&status.message)))
                .hint(
                    || format!("cannot {what} ({})", self.server),
                    || rejected_hint(status.code).to_owned(),
                ),
            Ok(Err(error)) => self.unreachable(innermost(&error)),
            Err(_) => self.unreachable(format!("no answer within {} s", DEADLINE.as_secs())),
        }
    }

    /// Like [`Self::request`]; what is not there, or is of a kind that the server does not know, is `None`.
    pub(crate) async fn request_opt<T>(
        &self,
        what: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> anyhow::Result<Option<T>> {
        let optional = async {
            match request.await {
                Ok(answer) => Ok(Some(answer)),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
                Err(error) => Err(error),
            }
        };
        self.request(what, optional).await
    }

    /// Linkerd's configuration. Fails when Linkerd is not installed.
    pub(crate) async fn linkerd_config(&self, namespace: &str) -> anyhow::Result<LinkerdConfig> {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), namespace);
        let config = self
            .request("read Linkerd's configuration", api.get_opt(LINKERD_CONFIG))
            .await?
            .ok_or_else(|| {
                fail(
                    format!(
                        "there is no ConfigMap {LINKERD_CONFIG} in the namespace {namespace:?}"
                    ),
                    "install Linkerd first, or say with --linkerd-namespace where it is",
                )
            })?;
        let broken = || format!("the ConfigMap {namespace}/{LINKERD_CONFIG} is broken");
        let repair = || "`linkerd check` and `linkerd upgrade` repair it".to_owned();
        let text = config
            .data
            .as_ref()
            .and_then(|data| data.get(LINKERD_CONFIG_KEY))
            .with_context(|| format!("it has no key {LINKERD_CONFIG_KEY:?}"))
            .hint(broken, repair)?;
        yaml::from_yaml(text).hint(broken, repair)
    }

    fn unreachable<T>(&self, cause: String) -> anyhow::Result<T> {
        let hint = if cause.contains("certificate") {
            "the context's certificate authority must be the one that signed the server's certificate, and --api-addr a name in it"
        } else {
            "is the cluster up, and --context the right one?"
        };
        Err(anyhow::Error::msg(cause)).hint(
            || format!("cannot reach the API server {}", self.server),
            || hint.into(),
        )
    }
}

fn rejected_hint(code: u16) -> &'static str {
    match code {
        401 => "the server does not accept these credentials; log in again",
        403 => "this needs more rights; --context, --as and --as-group choose another identity",
        _ => "the API server refused the request for the cause above",
    }
}

/// The cause at the bottom of an error; the layers above it only repeat where it came through.
fn innermost(error: &kube::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let io = cause.downcast_ref::<std::io::Error>();
    if io.is_some_and(|io| io.kind() == std::io::ErrorKind::TimedOut) {
        return "no answer in time".to_owned();
    }
    in_brief(&cause.to_string())
}
