//! Clients whose transport is a function, for tests.

use kube::{Client, Config};

use crate::{
    CredentialsError, bounds, bounds::ResponseLimits, credentials, login, multiplexed, transport,
};
pub use crate::{credentials::config as config_of_credentials, multiplexed::build};

/// A client of a test server, with the limits of [`multiplexed`].
pub fn of_test_server<F>(
    send: impl Fn(http::Request<kube::client::Body>) -> F + Clone + Send + Sync + 'static,
) -> Client
where
    F: Future<Output = Result<http::Response<TestBody>, tower::BoxError>> + Send + 'static,
{
    let connections = bounds::Connections::new(ResponseLimits::of_pages());
    Client::new(multiplexed::limited(connections, send), "default")
}

/// A client for the kubeconfig of a credentials Secret, as [`watcher_from_credentials`] makes it, except that `send` is
/// its transport. Requests have the address of the server and the token.
pub fn of_test_credentials<F>(
    kubeconfig: &[u8],
    limits: ResponseLimits,
    send: impl Fn(http::Request<kube::client::Body>) -> F + Clone + Send + Sync + 'static,
) -> Result<Client, CredentialsError>
where
    F: Future<Output = Result<http::Response<TestBody>, tower::BoxError>> + Send + 'static,
{
    let config = credentials::config(kubeconfig)?;
    let unusable = |error: anyhow::Error| CredentialsError::Unusable(error.to_string());
    let login = login::Login::without_plugin(&config.auth_info).map_err(unusable)?;
    let service = multiplexed::limited(bounds::Connections::new(limits), move |request| {
        multiplexed::authorized(login.clone(), request, send.clone())
    });
    multiplexed::identified(&config, service).map_err(unusable)
}

/// A client like that of [`multiplexed`], except that `connector` opens its connections.
pub fn of_test_connections<C>(
    config: &Config,
    limits: ResponseLimits,
    connector: C,
) -> anyhow::Result<Client>
where
    C: hyper_util::client::legacy::connect::Connect + Clone + Send + Sync + 'static,
{
    let client = transport::pinging(connector);
    let login = login::Login::without_plugin(&config.auth_info)?;
    let service = multiplexed::limited(bounds::Connections::new(limits), move |request| {
        let client = client.clone();
        multiplexed::authorized(login.clone(), request, move |request| {
            client.request(request)
        })
    });
    multiplexed::identified(config, service)
}

/// The body of a response of such a server.
pub type TestBody = http_body_util::StreamBody<
    futures::stream::BoxStream<
        'static,
        Result<hyper::body::Frame<hyper::body::Bytes>, tower::BoxError>,
    >,
>;
