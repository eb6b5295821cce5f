//! A cluster: what the user calls it, which one it is, and requests to it whose errors name the server.

use std::{fmt::Debug, time::Duration};

use hints::{
    console::Console,
    hint::caused,
    suggest::{ClusterFlags, Suggested},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, Resource, ResourceExt as _, core::NamespaceResourceScope};
use mirror_core::api::labels;
use serde::de::DeserializeOwned;
use tokio::sync::OnceCell;

use crate::{
    Access, IdentifiedCluster, Identity, ReadError, ReadErrorKind,
    requests::{self, DEADLINE},
    timing,
};

/// A cluster that commands send requests to.
#[derive(Clone)]
pub struct Cluster {
    /// What the user calls the cluster.
    pub name: String,
    /// Where its API server is.
    pub identity: Identity,
    /// Its client, for one-shot requests.
    pub client: Client,
    /// The flags that name it, for commands that the user should run.
    pub flags: ClusterFlags,
    /// Timeout of a request, and of all requests to one target cluster together.
    pub deadline: Duration,
    /// Namespace of Linkerd's control plane.
    pub linkerd_namespace: String,
    /// Who tells the user what goes on.
    pub console: &'static dyn Console,
    server: String,
    ahead: Box<OnceCell<SignedDuration>>,
    uid: Box<OnceCell<Option<String>>>,
}

impl Cluster {
    /// Sets up a client, whose requests end within [`DEADLINE`]. Sends no request, but runs the exec plugin of the
    /// kubeconfig.
    pub async fn connect(access: &Access) -> anyhow::Result<Self> {
        let name = access.context.clone().unwrap_or_default();
        Self::new(&name, access, DEADLINE).await
    }

    /// The same for a cluster with this name, and with this deadline.
    pub async fn new(name: &str, access: &Access, deadline: Duration) -> anyhow::Result<Self> {
        let config = access.config()?;
        let server = config.cluster_url.to_string();
        Ok(Self {
            name: name.to_owned(),
            identity: Identity::of(&config),
            flags: access.flags(),
            deadline,
            linkerd_namespace: access.linkerd_namespace.clone(),
            console: access.console,
            server: server.trim_end_matches('/').to_owned(),
            ahead: Box::default(),
            uid: Box::default(),
            client: Box::pin(access.client_of(config, deadline)).await?,
        })
    }

    /// A cluster whose API server is `client`.
    #[cfg(any(test, feature = "fixtures"))]
    pub fn of_test_server(client: Client) -> Self {
        Self {
            name: "east".to_owned(),
            identity: Identity::default(),
            client,
            flags: ClusterFlags::of_context("east"),
            deadline: DEADLINE,
            linkerd_namespace: String::new(),
            console: Default::default(),
            server: "https://east.example".to_owned(),
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
            identity: self.identity.clone(),
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
                self.console.warning(&warning);
            }
            ahead
        });
        timing::now() + *ahead.await
    }

    /// Address of the API server, without a slash at its end.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Waits for a request, at most for its deadline. `what` completes "cannot …".
    pub async fn request<T>(
        &self,
        what: &str,
        request: impl Future<Output = kube::Result<T>>,
    ) -> anyhow::Result<T> {
        let answer = requests::within(self.deadline, request).await;
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

    /// The error of a request. `what` completes "cannot …".
    pub fn failed(&self, what: &str, why: ReadError) -> anyhow::Error {
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

/// The UID of the Namespace kube-system, which no other cluster has; `None` if there is none.
pub async fn kube_system_uid(client: &Client) -> kube::Result<Option<String>> {
    let api: Api<Namespace> = Api::all(client.clone());
    let found = api.get_metadata_opt("kube-system").await?;
    Ok(found.and_then(|namespace| namespace.uid()))
}

/// What to say about clocks that differ by more than a minute. `server` names the API server.
pub fn clock_differs(ahead: SignedDuration, server: &str) -> Option<String> {
    let way = if ahead.is_negative() {
        "ahead of"
    } else {
        "behind"
    };
    (ahead.abs() > SignedDuration::from_mins(1)).then(|| {
        let seconds = ahead.abs().as_secs();
        format!("the clock of this machine is {seconds} s {way} that of {server}, which counts")
    })
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use jiff::{fmt::rfc2822, tz::TimeZone};

    use super::*;
    use crate::of_test_server;

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
