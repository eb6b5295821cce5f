//! What every answer is held to, whatever the server: an API server, what stands before it, or somebody hostile.
//!
//! - Its head comes within [`HEAD`]. A proxy that answers pings and has lost its server would else be waited for, for
//!   ever.
//! - Its body has at most so many bytes as the [`Size`]s of its client say, has come in time, and is never silent for
//!   longer than [`SILENCE`]. Bodies that come at the same time have so many bytes together as their
//!   [`Budget`](crate::mirror::Budget) says; what is small comes in any case.
//! - What target clusters send comes at a bounded rate ([`Size::metered`]): a full page costs the processor time that
//!   others wait for.
//! - A watch ends after [`LARGEST_WATCH`](size::LARGEST_WATCH) bytes, and none of its events is larger than [`LARGEST_EVENT`](size::LARGEST_EVENT).
//! - HTTP/1.1 has no pings. A watch over it asks the API server to end after [`SHORT_WATCH`], and is given up when it is
//!   silent for longer than [`SHORT_SILENCE`]. An end in time is no failure: whoever watches goes on where it ended.
//! - A refusal that says when to come back is one that callers can read: kube passes no header on, so `Retry-After`
//!   becomes the `details.retryAfterSeconds` of a `Status`.

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
use tokio::time::timeout;
use tower::BoxError;

pub(super) use self::body::{BrokenAnswer, TooMuch};
pub use self::size::Size;
use self::{
    body::{Bounded, Bounds},
    size::SILENCE,
};

/// How long the head of an answer may take.
const HEAD: Duration = Duration::from_secs(30);
/// Size of a refusal that is read, bytes, at most.
const LARGEST_REFUSAL: usize = 64 << 10;
/// How long a watch may last where no pings tell whether the peer is there.
pub(super) const SHORT_WATCH: Duration = Duration::from_secs(25);
/// How long such a watch may be silent: as long as it may last, and what its end may take.
pub(super) const SHORT_SILENCE: Duration = Duration::from_secs(30);

/// What is known of the connections of one client.
#[derive(Debug)]
pub(super) struct Connections {
    size: Size,
    /// Whether the last answer came over HTTP/1.
    without_pings: AtomicBool,
    /// Whether that is so in any case.
    never_pings: bool,
}

impl Connections {
    /// Of a client whose answers are of this size.
    pub(super) fn new(size: Size) -> Self {
        Self {
            size,
            without_pings: false.into(),
            never_pings: false,
        }
    }

    /// The same, of a client that sends no pings, whatever the server speaks.
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

    /// Sends a request, and holds the answer to the bounds.
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
        let Ok(answer) = timeout(HEAD, send(request)).await else {
            return Err(format!("no answer within {} s", HEAD.as_secs()).into());
        };
        let answer = answer.map_err(Into::into)?;
        self.note(answer.version());
        if let Some(seconds) = come_back(&answer) {
            let status = answer.status();
            let body = Limited::new(answer.into_body(), LARGEST_REFUSAL).collect();
            let body = timeout(SILENCE, body).await.ok().and_then(Result::ok);
            let body = body.map(http_body_util::Collected::to_bytes);
            return Ok(refusal(status, seconds, &body.unwrap_or_default()));
        }
        let size = if watches {
            let silence = self.without_pings.load(Ordering::Relaxed);
            Bounds::Watch {
                silence: silence.then_some(SHORT_SILENCE),
            }
        } else {
            Bounds::Whole(self.size.clone())
        };
        let meter = self.size.meter.clone();
        Ok(answer.map(|body| Bounded::new(body, size, meter).boxed_unsync()))
    }
}

fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|part| part == "watch=true")
}

/// The URI of a watch, with a time that is short enough.
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

/// Seconds after which a refusal wants its caller back.
fn come_back<B>(answer: &Response<B>) -> Option<u32> {
    let status = answer.status();
    if !(status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()) {
        return None;
    }
    let after = answer.headers().get(header::RETRY_AFTER)?;
    after.to_str().ok()?.trim().parse().ok()
}

/// The `Status` that such a refusal means: its own, or one made for a text that is none.
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
            "message": format!("{}, come back in {seconds} s", reason.to_lowercase()),
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
