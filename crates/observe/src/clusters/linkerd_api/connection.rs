//! Connections to Linkerd's controllers: by a port-forward, or to an address.

use std::{io, time::Duration};

use client::{ReadError, ReadErrorKind, requests};
use futures::future::BoxFuture;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use mirror_core::api::text::in_brief;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::service_fn;

use super::error::LinkerdApiError;
use crate::clusters::{
    port_forward::{PortForward, port_forward},
    workloads::DESTINATION_PODS,
};

/// Port of the destination controller.
pub const DESTINATION: u16 = 8086;
/// Port of the policy controller.
pub const POLICY: u16 = 8090;

/// Maximum number of Pods of the controllers that are asked.
const REPLICAS: usize = 5;

/// Addresses of the controllers that a person gives, such as `10.0.0.1:8086`. Names are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ControllerAddresses {
    /// The destination controller.
    pub destination: Option<String>,
    /// The policy controller.
    pub policy: Option<String>,
}

/// Where the controllers are.
#[derive(Clone)]
pub enum Controllers {
    /// In this Pod.
    Pod { pods: Box<Api<Pod>>, name: String },
    /// At these addresses.
    At(ControllerAddresses),
}

impl Controllers {
    /// Finds the ready Pods of the controllers; at least one.
    pub async fn find(
        client: &Client,
        namespace: &str,
        deadline: Duration,
    ) -> Result<Vec<Self>, LinkerdApiError> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let of_component = ListParams::default().labels(DESTINATION_PODS);
        let found = requests::within(deadline, pods.list(&of_component)).await;
        let found = found.map_err(|error: ReadError| no_answer(namespace, error))?;
        let ready = found.into_iter().filter(is_ready).map(|pod| Self::Pod {
            pods: Box::new(pods.clone()),
            name: pod.name_any(),
        });
        let ready: Vec<Self> = ready.take(REPLICAS).collect();
        if ready.is_empty() {
            return Err(LinkerdApiError::NoController(namespace.to_owned()));
        }
        Ok(ready)
    }

    /// The name of the Pod; empty if addresses were given.
    pub fn pod(&self) -> &str {
        match self {
            Self::Pod { name, .. } => name,
            Self::At(_) => "",
        }
    }

    /// Connects to the controller with this port.
    pub async fn connect(&self, port: u16) -> Result<(Channel, Connection), LinkerdApiError> {
        match self {
            Self::Pod { pods, name } => forward(pods, name, port).await,
            Self::At(addresses) => {
                let address = if port == DESTINATION {
                    &addresses.destination
                } else {
                    &addresses.policy
                };
                let missing = || no_connection(&format!("port {port}"), "no address was given");
                let address = address.as_ref().ok_or_else(missing)?;
                let stream = TcpStream::connect(address).await;
                let stream = stream.map_err(|error| no_connection(address, error.to_string()))?;
                let connection = Connection {
                    place: address.clone(),
                    refused: None,
                };
                Ok((channel(address, stream).await?, connection))
            }
        }
    }
}

fn is_ready(pod: &Pod) -> bool {
    let status = pod.status.as_ref();
    let mut conditions = status.iter().flat_map(|s| s.conditions.iter().flatten());
    let ends = pod.metadata.deletion_timestamp.is_some();
    !ends && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// A connection that is in use.
pub struct Connection {
    place: String,
    /// Ends with the reason if the port-forward fails.
    refused: Option<BoxFuture<'static, Option<String>>>,
}

impl Connection {
    /// Waits for the end of a call, or of the connection.
    pub async fn during<T>(
        self,
        call: impl Future<Output = Result<T, LinkerdApiError>>,
    ) -> Result<T, LinkerdApiError> {
        let Some(refused) = self.refused else {
            return call.await;
        };
        tokio::select! {
            // First, because the call fails too then, without the reason.
            biased;
            Some(why) = refused => Err(no_connection(&self.place, why)),
            answer = call => answer,
        }
    }
}

/// Forwards to a port of a Pod.
async fn forward(
    pods: &Api<Pod>,
    name: &str,
    port: u16,
) -> Result<(Channel, Connection), LinkerdApiError> {
    let place = format!("port {port} of Pod {name}");
    let opened = port_forward(pods, name, port).await;
    let PortForward { stream, refused } = opened.map_err(|why| no_answer(&place, why))?;
    let channel = channel(&place, stream).await?;
    Ok((channel, Connection { place, refused }))
}

/// A channel over this connection. When it ends, there is no other one.
async fn channel(
    place: &str,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<Channel, LinkerdApiError> {
    let mut stream = Some(TokioIo::new(stream));
    let connector = service_fn(move |_: Uri| {
        let stream = stream.take();
        async move { stream.ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)) }
    });
    let endpoint = Endpoint::from_static("http://linkerd-destination");
    let connected = endpoint.connect_with_connector(connector).await;
    connected.map_err(|error| no_connection(place, error.to_string()))
}

/// Why the API server does not lead to a place.
fn no_answer(place: &str, why: impl Into<ReadError>) -> LinkerdApiError {
    let why = why.into();
    match why.kind {
        ReadErrorKind::Forbidden => LinkerdApiError::Forbidden(why.to_string()),
        _ => no_connection(place, why.text()),
    }
}

fn no_connection(place: &str, why: impl AsRef<str>) -> LinkerdApiError {
    let why = in_brief(why.as_ref());
    LinkerdApiError::Unreachable(place.to_owned(), why)
}
