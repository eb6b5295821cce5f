//! The clients of commands and of the controller: requests with credentials, and limits of their responses.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use hints::console::Console;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Bytes;
use kube::{
    Client, Config,
    client::{Body, ConfigExt as _},
    config::AuthInfo,
};
use serde_json::json;
use tower::{BoxError, Service as _, ServiceBuilder, util::BoxCloneSyncService};

use super::{
    bounds::{Connections, ResponseLimits},
    config::{Identity, set_user_agent, without_credentials_in_clear},
    exec::Plugins,
    kubeconfig::no_client,
    login::Login,
    requests::DEADLINE,
    retry::Patience,
    shared::OnceMap,
    transport::transport,
};

/// The controller's timeout for opening a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// How much longer a command may open a connection than its request may take. The end of the request says how long it
/// took.
const LATER: Duration = Duration::from_secs(1);
/// How long to wait for an exec plugin of the kubeconfig before the user is told.
const MOMENT: Duration = Duration::from_secs(5);

/// A client for long-running watches and many concurrent requests, with these limits of responses.
pub async fn multiplexed(config: Config, limits: ResponseLimits) -> anyhow::Result<Client> {
    let authenticated = Authenticated::new(config, DEADLINE, &Plugins::default()).await?;
    authenticated.with(CONNECT, limits, Patience::none())
}

/// A client for requests and watches of a command. A request ends within `deadline`, and so does the plugin of the
/// kubeconfig before it.
pub async fn build(config: Config, deadline: Duration) -> anyhow::Result<Client> {
    let authenticated = Authenticated::new(config, deadline, &Plugins::default()).await?;
    authenticated.client(deadline)
}

/// The clients and the plugins of a command. Its clones are the same.
#[derive(Clone, Default)]
pub struct CommandClients {
    clients: OnceMap<Client>,
    plugins: Plugins,
    /// Whether the user knows that a plugin is waited for.
    told: Arc<AtomicBool>,
}

impl fmt::Debug for CommandClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandClients")
    }
}

impl CommandClients {
    /// The client of a configuration. Those that ask at the same time wait for the first. If a plugin of the kubeconfig takes
    /// long, `console` says so, once: on a terminal, the plugin may ask a person, and has no deadline.
    pub async fn client(
        &self,
        config: Config,
        deadline: Duration,
        console: &dyn Console,
    ) -> anyhow::Result<Client> {
        let AuthInfo {
            impersonate,
            impersonate_uid,
            impersonate_groups,
            impersonate_user_extra,
            ..
        } = &config.auth_info;
        // As a `Value`, its keys are in order.
        let acts_as = json!([
            impersonate,
            impersonate_uid,
            impersonate_groups,
            impersonate_user_extra
        ]);
        let identity = Identity::of(&config);
        let skips = config.accept_invalid_certs;
        let key = format!("{identity:?} {skips} {acts_as} {deadline:?}");
        let client = self.clients.get(key, async {
            let authenticated = Authenticated::new(config, deadline, &self.plugins);
            Box::pin(authenticated).await?.client(deadline)
        });
        let mut client = pin!(client);
        if let Ok(client) = tokio::time::timeout(MOMENT, client.as_mut()).await {
            return client;
        }
        if !self.told.swap(true, Ordering::Relaxed) {
            console.note("waiting for credentials from the exec plugin of the kubeconfig");
        }
        client.await
    }
}

/// A configuration, and how its user logs in.
#[derive(Clone)]
pub struct Authenticated {
    config: Config,
    login: Login,
}

impl Authenticated {
    /// Runs the plugin of a configuration, if it has one, and if requests are encrypted. Sends no request.
    pub async fn new(
        mut config: Config,
        deadline: Duration,
        plugins: &Plugins,
    ) -> anyhow::Result<Self> {
        without_credentials_in_clear(&mut config);
        let login = Login::of(&mut config, deadline, plugins).await?;
        set_user_agent(&mut config);
        Ok(Self { config, login })
    }

    /// A client for requests of a command, each of which ends within `deadline`, and for its watches.
    pub fn client(&self, deadline: Duration) -> anyhow::Result<Client> {
        self.with(
            deadline + LATER,
            ResponseLimits::of_lists(deadline),
            Patience::of_commands(deadline),
        )
    }

    fn with(
        &self,
        connect: Duration,
        limits: ResponseLimits,
        patience: Patience,
    ) -> anyhow::Result<Client> {
        let transport = transport(&self.config, connect)?;
        let login = self.login.clone();
        let service = limited(Connections::new(limits), move |request| {
            let (transport, login, patience) = (transport.clone(), login.clone(), patience.clone());
            async move {
                let once = |request| {
                    let (mut transport, login) = (transport.clone(), login.clone());
                    authorized(login, request, async move |request| {
                        transport.call(request).await
                    })
                };
                patience.send(request, once).await
            }
        });
        identified(&self.config, service)
    }
}

/// Sends a request with what identifies the user.
pub async fn authorized<R, E, F>(
    login: Login,
    mut request: Request<Body>,
    send: impl FnOnce(Request<Body>) -> F,
) -> Result<R, BoxError>
where
    F: Future<Output = Result<R, E>>,
    E: Into<BoxError>,
{
    login.authorize(&mut request).await?;
    send(request).await.map_err(Into::into)
}

/// A client of a configuration's address, which acts as whom the user impersonates.
pub fn identified(config: &Config, service: LimitedService) -> anyhow::Result<Client> {
    let namespace = config.default_namespace.clone();
    let headers = config.extra_headers_layer();
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .layer(headers.map_err(|error| no_client(&error))?)
        .service(service);
    Ok(Client::new(service, namespace))
}

/// Sends requests, and applies limits to their responses.
pub type LimitedService =
    BoxCloneSyncService<Request<Body>, Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>;

/// Applies limits to the responses of any transport.
pub fn limited<B, E, F>(
    connections: Connections,
    send: impl Fn(Request<Body>) -> F + Clone + Send + Sync + 'static,
) -> LimitedService
where
    F: Future<Output = Result<Response<B>, E>> + Send + 'static,
    E: Into<BoxError> + Send,
    B: hyper::body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    let connections = Arc::new(connections);
    BoxCloneSyncService::new(tower::service_fn(move |request| {
        let (connections, send) = (connections.clone(), send.clone());
        async move { connections.send(request, send).await }
    }))
}
