//! Port-forwards: connections that come from loopback in a Pod, so that no policy of its proxy applies.

use futures::{FutureExt, future::BoxFuture};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::io::{AsyncRead, AsyncWrite};

use super::snapshot::Known;

/// A connection to a port of a Pod.
pub struct PortForward<S> {
    /// The connection.
    pub stream: S,
    /// Ends with the reason if the port-forward fails.
    pub refused: Option<BoxFuture<'static, Option<String>>>,
}

/// Connects to a port of a Pod. The user needs the verb `create` for `pods/portforward`.
pub async fn port_forward(
    pods: &Api<Pod>,
    name: &str,
    port: u16,
) -> Known<PortForward<impl AsyncRead + AsyncWrite + Send + Unpin + use<>>> {
    let mut forwarder = pods.portforward(name, &[port]).await?;
    let refused = forwarder.take_error(port).map(FutureExt::boxed);
    let stream = forwarder.take_stream(port).ok_or("there is no stream")?;
    Ok(PortForward { stream, refused })
}
