//! The proxies of meshed Pods: what their admin servers say, read through the API server (`pods/proxy`).
//!
//! The admin server of Linkerd's proxy listens on port 4191. No port-forward and no kubelet is needed: the API server
//! connects to the Pod itself. The user needs the verb `get` for `pods` and `pods/proxy`. Linkerd's inbound policy applies
//! to this port too, so a Pod whose policy denies unauthenticated clients answers 403 ([`ProxyError::Denied`]).
//!
//! # What the proxy of a client counts
//!
//! Names and labels as of edge-26.8, from the proxy's sources and from the proxies of `tests/mesh`. Counters start at zero
//! with the proxy, and a series disappears when it has been idle for ten minutes (`LINKERD2_PROXY_METRICS_RETAIN_IDLE`).
//!
//! | Sample | Labels | Meaning |
//! | --- | --- | --- |
//! | `request_total` | endpoint | HTTP requests sent to an endpoint |
//! | `response_total` | endpoint, `status_code`, `classification` (`success`, `failure`), `grpc_status`, `error` | Responses that ended. A request that got none has no `status_code` |
//! | `response_latency_ms_bucket`, `_count`, `_sum` | endpoint, `status_code`, `le` for buckets | Time from the request to the end of the response |
//! | `tcp_open_connections`, `tcp_open_total`, `tcp_close_total` (also `errno`), `tcp_read_bytes_total`, `tcp_write_bytes_total` | `peer="dst"` and endpoint; `peer="src"` and `target_addr` for the application's own connections | Connections |
//! | `outbound_http_errors_total` | `error`: `failfast`, `loadshed`, `identity required`, `i/o`, `response timeout`, `unexpected` | Requests that failed before they had an endpoint. They are in no `response_total`, and name no Service |
//! | `outbound_tcp_errors_total` | `target_addr` (the original destination), `error` | The same for connections |
//! | `outbound_http_route_backend_requests_total` | `parent_*`, `route_*`, `backend_*`, each with `group`, `kind`, `namespace`, `name`; parents and backends also `port`, `section_name` | Requests by outbound policy |
//! | `outbound_http_route_request_statuses_total`, `outbound_http_route_backend_response_statuses_total` | the same, and `http_status`, `error` | Responses by outbound policy, without latency by endpoint |
//! | `outbound_http_balancer_endpoints` | `endpoint_state` (`ready`, `pending`), `parent_*`, `backend_*` | Size of the balancer |
//!
//! The labels *endpoint* are `direction="outbound"`, `authority` (`<service>.<namespace>.svc.<domain>:<port>` of the
//! Service in this cluster), `target_addr`, `target_ip`, `target_port`, `tls`, `server_id` (the identity of the server),
//! and what Linkerd's destination controller says about the endpoint, each prefixed with `dst_`:
//!
//! | Endpoint | Labels |
//! | --- | --- |
//! | of a slice with `mirror.linkerd.io/cluster-name`: gateway mode | `dst_namespace`, `dst_service` (in this cluster), `dst_target_cluster`, `dst_target_service`, `dst_target_service_namespace` |
//! | of a target cluster by remote discovery, federated or not | `dst_namespace`, `dst_service` (in the *target* cluster), `dst_pod`, `dst_serviceaccount` and the workload. Nothing names the cluster |
//! | of this cluster | the same as the line above, for this cluster |
//!
//! Labels of the Service belong to all endpoints of an update of Linkerd's controller, and are those of one of its slices.
//! A federated Service that is made of slices has slices of several clusters, so there `dst_target_cluster` may be missing,
//! or be that of another endpoint. `target_ip` is always right.

mod exposition;

use std::time::Duration;

use client::{
    ReadError, ReadErrorKind,
    requests::{RequestError, explain, within},
};
use futures::future::join;
use http::{Request, Response, StatusCode, header::HOST};
use http_body_util::{BodyExt as _, Limited};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, client::Body, core::Status};
use mirror_core::api::{metadata::ResourceId, text::in_brief};
use serde_json::Value;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};

pub use self::exposition::Sample;
use self::exposition::{MalformedLine, SampleReader};
use super::{
    port_forward::port_forward,
    workloads::{PROXY, containers},
};

/// Label of meshed Pods; its value is the namespace of Linkerd's control plane.
pub const MESHED: &str = "linkerd.io/control-plane-ns";
/// Name of the admin server's port.
const ADMIN_PORT_NAME: &str = "linkerd-admin";
/// Number of the admin server's port, unless the Pod names another one.
const ADMIN_PORT: u16 = 4191;
/// Maximum size of the metrics of one proxy in bytes: about 1000 endpoints with one status each. Whoever controls a Pod
/// chooses what its proxy's port answers.
const MAX_METRICS: usize = 8 << 20;
/// Maximum size of any other answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// Why nothing is known about a proxy, or not what was asked.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProxyError {
    /// The user may not read it.
    #[error("{0}")]
    Forbidden(String),
    /// There is no such Pod.
    #[error("Pod {0} does not exist")]
    NoPod(ResourceId),
    /// The Pod has no container of this name.
    #[error("Pod {0} has no container {PROXY}: it is not in the mesh")]
    NoProxy(ResourceId),
    /// The Pod does not run.
    #[error("Pod {0} is {1}")]
    NotRunning(ResourceId, String),
    /// The API server cannot connect to the admin server.
    #[error("the API server cannot reach the proxy's admin port: {0}")]
    Unreachable(String),
    /// The proxy's inbound policy denies the API server's request.
    #[error(
        "the Pod's inbound policy denies requests to the proxy's admin port, with HTTP status {0}"
    )]
    Denied(StatusCode),
    /// The admin server answers with an unexpected status.
    #[error("the proxy answers with HTTP status {0}")]
    Status(StatusCode),
    /// There was no answer, or not all of it.
    #[error("{0}")]
    Unanswered(String),
    /// The answer is too large.
    #[error("the answer of the proxy is larger than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// The answer is not what a proxy sends.
    #[error("cannot read the answer of the proxy: {0}")]
    Malformed(String),
}

impl From<ReadError> for ProxyError {
    fn from(error: ReadError) -> Self {
        Self::Unanswered(error.to_string())
    }
}

/// The admin server of a Pod's proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProxy {
    /// The Pod of the proxy.
    pub pod: ResourceId,
    /// Port of the admin server.
    port: u16,
}

impl PodProxy {
    /// The proxy of a running Pod.
    pub fn of(pod: &Pod) -> Result<Self, ProxyError> {
        let id = ResourceId::of(pod);
        let Some(proxy) = containers(pod).find(|container| container.name == PROXY) else {
            return Err(ProxyError::NoProxy(id));
        };
        let status = pod.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref());
        match phase {
            Some("Running") => {}
            Some(phase) => return Err(ProxyError::NotRunning(id, phase.to_owned())),
            None => return Err(ProxyError::NotRunning(id, "Pending".to_owned())),
        }
        let mut ports = proxy.ports.iter().flatten();
        let port = ports.find(|port| port.name.as_deref() == Some(ADMIN_PORT_NAME));
        let port = port.and_then(|port| u16::try_from(port.container_port).ok());
        Ok(Self {
            pod: id,
            port: port.unwrap_or(ADMIN_PORT),
        })
    }

    /// Reads a Pod, and finds its proxy.
    pub async fn find(
        client: &Client,
        pod: &ResourceId,
        deadline: Duration,
    ) -> Result<Self, ProxyError> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace);
        match within(deadline, pods.get(&pod.name)).await {
            Ok(found) => Self::of(&found),
            Err(RequestError::Status(status)) => Err(refused(pod, &status)),
            Err(RequestError::Unanswered(why)) => Err(why.into()),
        }
    }

    /// Whether the proxy is ready: it has its identity, and has heard from Linkerd's control plane.
    pub async fn ready(&self, client: &Client, deadline: Duration) -> Result<bool, ProxyError> {
        match within(deadline, self.get(client, "ready")).await {
            Ok(_) => Ok(true),
            Err(ProxyError::Status(StatusCode::SERVICE_UNAVAILABLE)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads the proxy's metrics, and passes on each sample with one of these names, such as
    /// `response_latency_ms_bucket`. The metrics are not held in memory.
    pub async fn metrics(
        &self,
        client: &Client,
        names: &[&str],
        deadline: Duration,
        each: impl FnMut(&Sample<'_>),
    ) -> Result<(), ProxyError> {
        let read = async {
            let answer = self.get(client, "metrics").await?;
            samples(answer.into_body(), explain, names, each).await
        };
        within(deadline, read).await
    }

    /// The same from loopback in the Pod, by a port-forward. The policy of a gateway refuses its metrics to the API server.
    /// The user needs the verb `create` for `pods/portforward`.
    pub async fn forwarded_metrics(
        &self,
        client: &Client,
        names: &[&str],
        deadline: Duration,
        each: impl FnMut(&Sample<'_>),
    ) -> Result<(), ProxyError> {
        let read = async {
            let stream = self.forwarded(client).await?;
            let unanswered = |error: hyper::Error| ProxyError::Unanswered(error.to_string());
            let opened = http1::handshake(TokioIo::new(stream)).await;
            let (mut sender, connection) = opened.map_err(unanswered)?;
            let request = Request::get("/metrics").header(HOST, "localhost");
            let request = request.body(Body::empty());
            let request = request.map_err(|error| ProxyError::Unanswered(error.to_string()))?;
            let exchange = async move {
                let answer = sender.send_request(request).await.map_err(unanswered)?;
                match answer.status() {
                    code if code.is_success() => {
                        let told = hyper::Error::to_string;
                        samples(answer.into_body(), told, names, each).await
                    }
                    code => Err(ProxyError::Status(code)),
                }
            };
            // The connection ends with the exchange; why it ends earlier, the exchange says.
            join(exchange, connection).await.0
        };
        within(deadline, read).await
    }

    /// A connection to the admin server from loopback in the Pod.
    async fn forwarded(
        &self,
        client: &Client,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + use<>, ProxyError> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.pod.namespace);
        let opened = port_forward(&pods, &self.pod.name, self.port).await;
        let opened = opened.map_err(|why| match why.kind {
            ReadErrorKind::Forbidden => ProxyError::Forbidden(why.to_string()),
            _ => ProxyError::Unreachable(why.to_string()),
        })?;
        Ok(opened.stream)
    }

    /// Asks the admin server for a path. An answer without success is an error.
    async fn get(&self, client: &Client, path: &str) -> Result<Response<Body>, ProxyError> {
        let ResourceId { namespace, name } = &self.pod;
        let path = format!(
            "/api/v1/namespaces/{namespace}/pods/{name}:{}/proxy/{path}",
            self.port
        );
        let request = Request::get(path).body(Body::empty());
        let request = request.map_err(|error| ProxyError::Unanswered(error.to_string()))?;
        let answer = client.send(request).await;
        let answer = answer.map_err(|error| ProxyError::Unanswered(explain(&error)))?;
        let code = answer.status();
        if code.is_success() {
            return Ok(answer);
        }
        let text = body(answer, MAX_ANSWER).await.unwrap_or_default();
        Err(match status_of(&text) {
            Some(status) if code == StatusCode::SERVICE_UNAVAILABLE => {
                ProxyError::Unreachable(in_brief(&status.message))
            }
            Some(status) => refused(&self.pod, &status),
            None if code == StatusCode::FORBIDDEN => ProxyError::Denied(code),
            None => ProxyError::Status(code),
        })
    }
}

/// The API server's own answer. What the proxy answers is no `Status`.
fn status_of(text: &[u8]) -> Option<Status> {
    let value: Value = serde_json::from_slice(text).ok()?;
    (value["kind"] == "Status").then(|| serde_json::from_value(value).ok())?
}

fn refused(pod: &ResourceId, status: &Status) -> ProxyError {
    let message = || match in_brief(&status.message) {
        message if message.is_empty() => format!("HTTP status {}", status.code),
        message => message,
    };
    match status.code {
        403 => ProxyError::Forbidden(message()),
        404 => ProxyError::NoPod(pod.clone()),
        _ => ProxyError::Unanswered(message()),
    }
}

fn malformed(why: &str) -> ProxyError {
    ProxyError::Malformed(in_brief(why))
}

/// Reads metrics of up to [`MAX_METRICS`] bytes, and passes on the samples with these names.
async fn samples<B: hyper::body::Body<Data = Bytes> + Unpin>(
    mut body: B,
    told: impl Fn(&B::Error) -> String,
    names: &[&str],
    mut each: impl FnMut(&Sample<'_>),
) -> Result<(), ProxyError> {
    let malformed = |error: MalformedLine| malformed(&error.to_string());
    let (mut reader, mut size) = (SampleReader::new(names), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| ProxyError::Unanswered(told(&error)))?;
        let data = frame.into_data().unwrap_or_default();
        size += data.len();
        if size > MAX_METRICS {
            return Err(ProxyError::TooLarge(MAX_METRICS));
        }
        reader.read(&data, &mut each).map_err(malformed)?;
    }
    reader.finish(&mut each).map_err(malformed)
}

/// The body of an answer, which may have this size in bytes.
async fn body(answer: Response<Body>, max: usize) -> Result<Vec<u8>, ProxyError> {
    let body = Limited::new(answer.into_body(), max).collect().await;
    let body = body.map_err(|error| match error.downcast::<kube::Error>() {
        Ok(error) => ProxyError::Unanswered(explain(&error)),
        Err(_) => ProxyError::TooLarge(max),
    })?;
    Ok(body.to_bytes().to_vec())
}

/// A line of metrics.
#[cfg(test)]
pub fn sampled<'t>(name: &'t str, labels: &[(&'t str, &'t str)], value: f64) -> Sample<'t> {
    let labels = labels.iter();
    Sample {
        name,
        labels: labels
            .map(|(name, value)| (*name, (*value).into()))
            .collect(),
        value,
    }
}

#[cfg(test)]
mod tests;
