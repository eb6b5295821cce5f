//! Requests of one-shot commands to a cluster, with timeouts, and with errors that name the server.

use std::{fmt::Debug, future::Future, pin::pin, time::Duration};

use anyhow::Context as _;
use client::{
    Access, IdentifiedCluster, Identity, ReadError, ReadErrorKind,
    requests::{self, DEADLINE},
    timing,
};
use hints::{
    hint::{caused, fail},
    suggest::{ClusterFlags, Suggested},
};
use jiff::{SignedDuration, Timestamp};
use kube::{Api, Client, Resource, core::NamespaceResourceScope};
use mirror_core::api::{
    labels::{self, LINKERD_CONFIG},
    link::LinkerdConfig,
};
use observe::clusters::{
    cluster_client::kube_system_uid, snapshot::clock_differs, target::linkerd_config,
};
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use super::output;

/// How long to wait for an exec plugin of the kubeconfig before the user is told.
const MOMENT: Duration = Duration::from_secs(5);

/// Runs a command that sends requests. Other commands start no runtime.
pub fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    let result = runtime.block_on(command);
    // A name lookup that nobody waits for any more must not delay the exit.
    runtime.shutdown_background();
    result
}

/// Waits for the client of a cluster. On a terminal, a plugin of the kubeconfig may ask a person, and has no deadline.
pub async fn connecting<T>(client: impl Future<Output = T>) -> T {
    let mut client = pin!(client);
    if let Ok(client) = tokio::time::timeout(MOMENT, client.as_mut()).await {
        return client;
    }
    output::note("waiting for credentials from the exec plugin of the kubeconfig");
    client.await
}

/// A connection to a cluster.
#[derive(Clone)]
pub struct Cluster {
    pub client: Client,
    /// The flags that name it, for commands that the user should run.
    pub flags: ClusterFlags,
    server: String,
    identity: Box<Identity>,
    ahead: Box<OnceCell<SignedDuration>>,
    uid: Box<OnceCell<Option<String>>>,
}

impl Cluster {
    /// Sets up a client. Sends no request, but runs the exec plugin of the kubeconfig.
    pub async fn connect(access: &Access) -> anyhow::Result<Self> {
        let config = access.config()?;
        let server = config.cluster_url.to_string();
        let identity = Box::new(Identity::of(&config));
        Ok(Self {
            flags: access.flags(),
            server: server.trim_end_matches('/').to_owned(),
            identity,
            ahead: Box::default(),
            uid: Box::default(),
            client: connecting(Box::pin(access.client_of(config, DEADLINE))).await?,
        })
    }

    /// A cluster whose API server is `client`.
    #[cfg(test)]
    pub fn of_test_server(client: Client) -> Self {
        Self {
            client,
            flags: ClusterFlags::of_context("east"),
            server: "https://east.example".to_owned(),
            identity: Box::default(),
            ahead: Box::default(),
            uid: Box::default(),
        }
    }

    /// The objects of a kind in a namespace.
    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// The objects of a kind in all namespaces, or those without one.
    pub fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    /// The command that installs the extension in it.
    pub fn install(&self) -> Suggested {
        self.flags.install()
    }

    /// The command that creates an account for other clusters in it.
    pub fn allow(&self, namespace: &str, account: &str) -> Suggested {
        if account == labels::REMOTE_ACCESS_ACCOUNT {
            return self.install();
        }
        let allow = self.flags.mc(
            "allow --service-account-name {} --namespace {}",
            &[account, namespace],
        );
        allow.piped(&self.flags.kubectl("apply -f -", &[]))
    }

    /// Asks which cluster it is.
    pub async fn identify(&self) -> IdentifiedCluster {
        IdentifiedCluster {
            identity: Identity::clone(&self.identity),
            uid: self.uid().await,
        }
    }

    /// The UID of the Namespace kube-system, which no other cluster has; `None` if the user may not read it.
    pub async fn uid(&self) -> Option<String> {
        let uid = self.uid.get_or_init(async || {
            let read = kube_system_uid(&self.client);
            let read = self.request("read the Namespace kube-system", read).await;
            read.ok().flatten()
        });
        uid.await.clone()
    }

    /// The time of the API server, by which controllers judge the times that a command writes. Warns if the clock of this
    /// machine differs much.
    pub async fn now(&self) -> Timestamp {
        let ahead = self.ahead.get_or_init(async || {
            let ahead = requests::clock_ahead(&self.client).await;
            if let Some(warning) = clock_differs(ahead, &self.server) {
                output::warning(&warning);
            }
            ahead
        });
        timing::now() + *ahead.await
    }

    /// Address of the API server, without a slash at its end.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Waits for a request, at most for [`DEADLINE`]. `what` completes "cannot …".
    pub async fn request<T>(
        &self,
        what: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> anyhow::Result<T> {
        let answer = requests::within(DEADLINE, request).await;
        answer.map_err(|why| self.failed(what, why))
    }

    /// Like [`Self::request`]; `None` if the object does not exist, or the server does not know its kind.
    pub async fn request_opt<T>(
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

    /// Reads an object; `None` if it does not exist.
    pub async fn get<K>(&self, what: &str, namespace: &str, name: &str) -> anyhow::Result<Option<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.request(what, self.api::<K>(namespace).get_opt(name))
            .await
    }

    /// Linkerd's configuration. Fails when Linkerd is not installed.
    pub async fn linkerd_config(&self, namespace: &str) -> anyhow::Result<LinkerdConfig> {
        let read = linkerd_config(&self.client, namespace).await;
        read.map_err(|why| match why.kind {
            ReadErrorKind::NotFound => fail(
                format!("ConfigMap {LINKERD_CONFIG} not found in namespace {namespace:?}"),
                "install Linkerd first, or pass its namespace with --linkerd-namespace",
            ),
            ReadErrorKind::Other => {
                let upgrade = self.flags.linkerd("upgrade", &[]);
                let upgrade = upgrade.piped(&self.flags.kubectl("apply -f -", &[]));
                let check = self.flags.linkerd("check", &[]);
                caused(
                    "cannot use Linkerd's configuration",
                    format!("run {check}, and repair it with {upgrade}"),
                    why,
                )
            }
            _ => self.failed("read Linkerd's configuration", why),
        })
    }

    /// The error of a request. `what` completes "cannot …".
    fn failed(&self, what: &str, why: ReadError) -> anyhow::Error {
        let server = &self.server;
        let failed = match why.kind {
            ReadErrorKind::Certificate | ReadErrorKind::Unreachable => {
                format!("cannot reach the API server {server}")
            }
            _ => format!("cannot {what} ({server})"),
        };
        caused(failed, hint(why.kind), why)
    }
}

/// What to do if a request fails.
fn hint(kind: ReadErrorKind) -> &'static str {
    match kind {
        ReadErrorKind::Unauthorized => "your login has expired, or is not valid; log in again",
        ReadErrorKind::Forbidden => {
            "your user lacks the permission named above; choose another one with --context, --as or --as-group"
        }
        ReadErrorKind::Conflict => {
            "it has changed meanwhile; run this again, which looks at it as it is now"
        }
        ReadErrorKind::Certificate => {
            "check that the context's certificate authority signed the server's certificate, and that --api-addr is one of its names"
        }
        ReadErrorKind::Unreachable => {
            "check that the cluster is up, and that --context is the right one"
        }
        _ => "the API server rejected the request; see the cause above",
    }
}

#[cfg(test)]
mod tests {
    use client::of_test_server;
    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use jiff::{fmt::rfc2822, tz::TimeZone};

    use super::*;

    #[tokio::test]
    async fn time_is_that_of_the_api_server() {
        for (ahead, said) in [
            (0, None),
            (30, None),
            (7200, Some("7200 s behind that of east, which counts")),
            (-7200, Some("7200 s ahead of that of east, which counts")),
        ] {
            let ahead = SignedDuration::from_secs(ahead);
            let client = of_test_server(move |_| async move {
                let date = rfc2822::to_string(&(timing::now() + ahead).to_zoned(TimeZone::UTC))?;
                let body = stream::iter([Ok(Frame::data(Bytes::from("{}")))]).boxed();
                let answer = http::Response::builder().header(http::header::DATE, date);
                Ok(answer.body(StreamBody::new(body))?)
            });
            let now = Cluster::of_test_server(client).now().await;
            let off = now.duration_since(timing::now() + ahead);
            assert!(off.abs() < SignedDuration::from_secs(10), "{ahead}: {off}");
            let found = clock_differs(ahead, "east");
            let expected = said.map(|said| format!("the clock of this machine is {said}"));
            assert_eq!(found, expected);
        }
    }
}
