//! What every configuration of a client has to be, and is given.

use std::time::Duration;

use anyhow::Context as _;
use http::header::{HeaderValue, USER_AGENT};
use kube::{Client, Config, config::AuthInfo};

use crate::hint::fail;

/// How long a connection may take to open.
pub(super) const CONNECT: Duration = Duration::from_secs(10);
/// Longest address of an API server, bytes. With a request's path it has to fit into 64 KiB.
const ADDRESS_MAX: usize = 4096;

/// The client that takes answers of any size.
pub(super) fn unbounded(mut config: Config, deadline: Duration) -> anyhow::Result<Client> {
    check(&config)?;
    config.connect_timeout = Some(CONNECT.min(deadline));
    config.read_timeout = Some(deadline);
    config.write_timeout = Some(deadline);
    config.reset_reader_on_write = true;
    config.default_retry = false;
    introduce(&mut config);
    Client::try_from(config).context("failed to set up a client")
}

/// Refuses a configuration that kube's client would panic over: with an address that no request can be made
/// relative to, or a token that no header can hold.
pub(super) fn check(config: &Config) -> anyhow::Result<()> {
    let address = &config.cluster_url;
    let scheme = address.scheme_str().unwrap_or_default();
    let host = address.host().unwrap_or_default();
    if !["https", "http"].contains(&scheme)
        || host.is_empty()
        || address.to_string().len() > ADDRESS_MAX
    {
        return Err(fail(
            "the address of the API server is no URL that begins with https:// and names a host",
            "look at `server` of the cluster in the kubeconfig, and at --api-addr",
        ));
    }
    let token = token(&config.auth_info).unwrap_or_default();
    anyhow::ensure!(
        HeaderValue::from_str(&token).is_ok(),
        fail(
            "the token of the kubeconfig has characters that no token has",
            "is there a line break at its end?",
        )
    );
    Ok(())
}

/// The token in a kubeconfig. Its type hides it from all but serde.
pub(super) fn token(user: &AuthInfo) -> Option<String> {
    match serde_json::to_value(user).ok()?.get_mut("token")?.take() {
        serde_json::Value::String(token) => Some(token),
        _ => None,
    }
}

/// Says who asks: API servers write it into their audit logs.
pub(super) fn introduce(config: &mut Config) {
    let agent = HeaderValue::from_static(concat!("linkerd-mc/", env!("CARGO_PKG_VERSION")));
    config.headers.push((USER_AGENT, agent));
}
