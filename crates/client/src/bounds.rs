//! Limits of all responses, from API servers, proxies in front of them, and hostile servers:
//!
//! - The head of a response must arrive within the time that the client's [`ResponseLimits`] have for it. Otherwise a
//!   proxy that answers pings but has lost its server would block a request forever.
//! - The duration of a request is limited as a whole: credentials, connection, head and body. Requests of commands have
//!   one deadline for all of it. Watches have none.
//! - The size of a body is limited, and the time without data ([`IDLE_TIMEOUT`]). Bodies that arrive at the same time share
//!   a [`Budget`](mirror_core::budget::Budget); small ones are exempt.
//! - The data rate of target clusters is limited ([`ResponseLimits::of_link`]), because parsing a full page takes processor
//!   time that other clusters need.
//! - A watch ends after [`MAX_WATCH`](limits::MAX_WATCH) bytes. None of its events may be larger than
//!   [`MAX_EVENT`](limits::MAX_EVENT). A watch that is refused has the limits of other requests.
//! - HTTP/1.1 has no pings. A watch over it asks the API server to end it after [`SHORT_WATCH`], and fails after
//!   [`SHORT_IDLE_TIMEOUT`] without data. The end of such a watch is not a failure: the watcher continues from there.
//! - A `Retry-After` header becomes `details.retryAfterSeconds` of a `Status`, because kube does not pass on headers.

mod body;
mod limits;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use http::{Request, Response, StatusCode, Uri, Version, header, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};
use tower::BoxError;

pub use self::body::{BrokenResponse, OverLimit};
pub use self::limits::ResponseLimits;
use self::{body::BoundedBody, limits::IDLE_TIMEOUT};

/// Maximum size of an error response that is read, in bytes.
const MAX_ERROR: usize = 64 << 10;
/// Duration of a watch without pings.
pub const SHORT_WATCH: Duration = Duration::from_secs(25);
/// Maximum time without data of such a watch: its duration, and time for its end.
pub const SHORT_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// The state of one client's connections.
#[derive(Debug)]
pub struct Connections {
    limits: ResponseLimits,
    /// Whether the last response came over HTTP/1.
    without_pings: AtomicBool,
}

impl Connections {
    /// For a client with these limits.
    pub fn new(limits: ResponseLimits) -> Self {
        Self {
            limits,
            without_pings: false.into(),
        }
    }

    fn record(&self, version: Version) {
        self.without_pings
            .store(version < Version::HTTP_2, Ordering::Relaxed);
    }

    /// Sends a request, and applies the limits to the response.
    pub async fn send<R, B, E, F>(
        &self,
        mut request: Request<R>,
        send: impl FnOnce(Request<R>) -> F,
    ) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>
    where
        F: Future<Output = Result<Response<B>, E>>,
        E: Into<BoxError>,
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError>,
    {
        let limits = &self.limits;
        let is_watch = is_watch(request.uri());
        if is_watch
            && self.without_pings.load(Ordering::Relaxed)
            && let Some(short) = shortened(request.uri())
        {
            *request.uri_mut() = short;
        }
        let end = Instant::now() + limits.timeout;
        let Ok(response) = timeout(limits.head_timeout, send(request)).await else {
            let seconds = limits.head_timeout.as_secs_f32();
            return Err(format!("timed out after {seconds} s").into());
        };
        let response = response.map_err(Into::into)?;
        self.record(response.version());
        if let Some(seconds) = retry_after(&response) {
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ERROR).collect();
            let end = end.min(Instant::now() + IDLE_TIMEOUT);
            let body = timeout_at(end, body).await.ok().and_then(Result::ok);
            let body = body.map(http_body_util::Collected::to_bytes);
            return Ok(with_retry_after(status, seconds, &body.unwrap_or_default()));
        }
        // The body of a refusal is not one of a watch: it has an end.
        let has_events = is_watch && response.status().is_success();
        Ok(response.map(|body| {
            if has_events {
                let without_pings = self.without_pings.load(Ordering::Relaxed);
                let idle_timeout = without_pings.then_some(SHORT_IDLE_TIMEOUT);
                BoundedBody::watch(body, idle_timeout, limits).boxed_unsync()
            } else {
                BoundedBody::whole(body, end, limits).boxed_unsync()
            }
        }))
    }
}

fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|part| part == "watch=true")
}

/// The URI of a watch, with a short timeout.
fn shortened(uri: &Uri) -> Option<Uri> {
    let key = "timeoutSeconds=";
    let parts = uri
        .query()?
        .split('&')
        .filter(|part| !part.starts_with(key));
    let query: Vec<&str> = parts.collect();
    let (path, query) = (uri.path(), query.join("&"));
    let text = format!("{path}?{query}&{key}{}", SHORT_WATCH.as_secs());
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::try_from(text).ok()?);
    Uri::from_parts(parts).ok()
}

/// The value of `Retry-After` in an error response, in seconds.
pub fn retry_after<B>(response: &Response<B>) -> Option<u32> {
    let status = response.status();
    if !(status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()) {
        return None;
    }
    let after = response.headers().get(header::RETRY_AFTER)?;
    after.to_str().ok()?.trim().parse().ok()
}

/// The `Status` of such a response: from its body, or a new one if the body has none.
fn with_retry_after(
    status: StatusCode,
    seconds: u32,
    body: &[u8],
) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
    let sent = serde_json::from_slice::<Value>(body).ok();
    let sent = sent.filter(|sent| sent.get("kind") == Some(&json!("Status")));
    let mut sent = sent.unwrap_or_else(|| {
        let reason = status.canonical_reason().unwrap_or_default();
        json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": format!("{}, retry after {seconds} s", reason.to_lowercase()),
            "reason": reason.replace(' ', ""),
            "code": status.as_u16(),
        })
    });
    let own = sent.pointer("/details/retryAfterSeconds");
    if own.and_then(Value::as_u64).unwrap_or_default() == 0 {
        if !sent["details"].is_object() {
            sent["details"] = json!({});
        }
        sent["details"]["retryAfterSeconds"] = json!(seconds);
    }
    let body = Full::new(Bytes::from(sent.to_string())).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests;
