//! Limits of all responses, from API servers, proxies in front of them, and hostile servers:
//!
//! - The head of a response must arrive within the time that the client's [`Size`] has for it. Otherwise a proxy that
//!   answers pings but has lost its server would block a request forever.
//! - The duration of a request is limited as a whole: credentials, connection, head and body. Requests of commands have
//!   one deadline for all of it. Watches have none.
//! - The size of a body is limited, and the time without data ([`SILENCE`]). Bodies that arrive at the same time share
//!   a [`Budget`](crate::budget::Budget); small ones are exempt.
//! - The data rate of target clusters is limited ([`Size::of_link`]), because parsing a full page takes processor time
//!   that other clusters need.
//! - A watch ends after [`LARGEST_WATCH`](size::LARGEST_WATCH) bytes. None of its events may be larger than
//!   [`LARGEST_EVENT`](size::LARGEST_EVENT).
//! - HTTP/1.1 has no pings. A watch over it asks the API server to end it after [`SHORT_WATCH`], and fails after
//!   [`SHORT_SILENCE`] without data. The end of such a watch is not a failure: the watcher continues from there.
//! - A `Retry-After` header becomes `details.retryAfterSeconds` of a `Status`, because kube does not pass on headers.

mod body;
mod meter;
mod size;

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

pub(super) use self::body::{BrokenAnswer, TooMuch};
pub use self::size::Size;
use self::{
    body::{Bounded, Bounds},
    size::SILENCE,
};

/// Maximum size of an error response that is read, in bytes.
const LARGEST_REFUSAL: usize = 64 << 10;
/// Duration of a watch without pings.
pub(super) const SHORT_WATCH: Duration = Duration::from_secs(25);
/// Maximum time without data of such a watch: its duration, and time for its end.
pub(super) const SHORT_SILENCE: Duration = Duration::from_secs(30);

/// The state of one client's connections.
#[derive(Debug)]
pub(super) struct Connections {
    size: Size,
    /// Whether the last response came over HTTP/1.
    without_pings: AtomicBool,
    /// Whether the client never sends pings.
    never_pings: bool,
}

impl Connections {
    /// For a client with these size limits.
    pub(super) fn new(size: Size) -> Self {
        Self {
            size,
            without_pings: false.into(),
            never_pings: false,
        }
    }

    /// The same, for a client that never sends pings.
    pub(super) fn without_pings(self) -> Self {
        Self {
            without_pings: true.into(),
            never_pings: true,
            ..self
        }
    }

    fn note(&self, version: Version) {
        let without = self.never_pings || version < Version::HTTP_2;
        self.without_pings.store(without, Ordering::Relaxed);
    }

    /// Sends a request, and applies the limits to the response.
    pub(super) async fn ask<R, B, E, F>(
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
        let watches = is_watch(request.uri());
        if watches
            && self.without_pings.load(Ordering::Relaxed)
            && let Some(short) = shortened(request.uri())
        {
            *request.uri_mut() = short;
        }
        let Size { head, longest, .. } = self.size;
        let end = Instant::now() + longest;
        let Ok(answer) = timeout(head, send(request)).await else {
            return Err(format!("timed out after {} s", head.as_secs_f32()).into());
        };
        let answer = answer.map_err(Into::into)?;
        self.note(answer.version());
        if let Some(seconds) = come_back(&answer) {
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LARGEST_REFUSAL).collect();
            let end = end.min(Instant::now() + SILENCE);
            let body = timeout_at(end, body).await.ok().and_then(Result::ok);
            let body = body.map(http_body_util::Collected::to_bytes);
            return Ok(refusal(status, seconds, &body.unwrap_or_default()));
        }
        let size = if watches {
            let silence = self.without_pings.load(Ordering::Relaxed);
            Bounds::Watch {
                silence: silence.then_some(SHORT_SILENCE),
            }
        } else {
            Bounds::Whole(self.size.clone(), end)
        };
        let meter = self.size.meter.clone();
        Ok(answer.map(|body| Bounded::new(body, size, meter).boxed_unsync()))
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
fn come_back<B>(answer: &Response<B>) -> Option<u32> {
    let status = answer.status();
    if !(status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()) {
        return None;
    }
    let after = answer.headers().get(header::RETRY_AFTER)?;
    after.to_str().ok()?.trim().parse().ok()
}

/// The `Status` of such a response: from its body, or a new one if the body has none.
fn refusal(
    status: StatusCode,
    seconds: u32,
    body: &[u8],
) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
    let said = serde_json::from_slice::<Value>(body).ok();
    let said = said.filter(|said| said.get("kind") == Some(&json!("Status")));
    let mut said = said.unwrap_or_else(|| {
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
    let own = said.pointer("/details/retryAfterSeconds");
    if own.and_then(Value::as_u64).unwrap_or_default() == 0 {
        if !said["details"].is_object() {
            said["details"] = json!({});
        }
        said["details"]["retryAfterSeconds"] = json!(seconds);
    }
    let body = Full::new(Bytes::from(said.to_string())).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    answer
}

#[cfg(test)]
mod tests;
