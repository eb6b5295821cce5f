//! What every answer is held to, whatever the server: an API server, what stands before it, or somebody hostile.
//!
//! - Its head comes within [`HEAD`]. A proxy that answers pings and has lost its server would else be waited for, for
//!   ever.
//! - Its body ends within [`LARGEST`] bytes, and is never silent for longer than [`SILENCE`], but for that of a watch.
//! - HTTP/1.1 has no pings. A watch over it asks the API server to end after [`SHORT_WATCH`], and is given up when it is
//!   silent for longer than [`SHORT_SILENCE`]. An end in time is no failure: whoever watches goes on where it ended.
//! - A refusal that says when to come back is one that callers can read: kube passes no header on, so `Retry-After`
//!   becomes the `details.retryAfterSeconds` of a `Status`.

use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, StatusCode, Uri, Version, header, uri::PathAndQuery};
use http_body_util::{BodyExt as _, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes, Frame};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::BoxError;

/// How long the head of an answer may take.
const HEAD: Duration = Duration::from_secs(30);
/// How long the body of an answer may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// Size of one answer, bytes, at most. A page holds 500 objects: 128 KiB each, where a few are usual. A watch that has
/// brought so much is opened again.
const LARGEST: usize = 64 << 20;
/// Size of a refusal that is read, bytes, at most.
const LARGEST_REFUSAL: usize = 64 << 10;
/// How long a watch may last where no pings tell whether the peer is there.
pub(super) const SHORT_WATCH: Duration = Duration::from_secs(25);
/// How long such a watch may be silent: as long as it may last, and what its end may take.
pub(super) const SHORT_SILENCE: Duration = Duration::from_secs(30);

/// What is known of the connections of one client.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// Whether the last answer came over HTTP/1.
    without_pings: AtomicBool,
    /// Whether that is so in any case.
    never_pings: bool,
}

impl Connections {
    /// Of a client that sends no pings, whatever the server speaks.
    pub(super) fn without_pings() -> Self {
        Self {
            without_pings: true.into(),
            never_pings: true,
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
        let silence = match (watches, self.without_pings.load(Ordering::Relaxed)) {
            (true, true) => Some(SHORT_SILENCE),
            (true, false) => None,
            (false, _) => Some(SILENCE),
        };
        Ok(answer.map(|body| Bounded::new(body, LARGEST, silence).boxed_unsync()))
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

/// An answer that broke off, or went beyond its bounds: there was one.
#[derive(Debug)]
pub(super) struct BrokenAnswer(BoxError);

impl fmt::Display for BrokenAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for BrokenAnswer {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source()
    }
}

/// A body that ends in an error when it is too long or too slow.
struct Bounded<B> {
    body: B,
    left: usize,
    silence: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl<B> Bounded<B> {
    fn new(body: B, largest: usize, silence: Option<Duration>) -> Self {
        Self {
            body,
            left: largest,
            silence: silence.map(|limit| (limit, Box::pin(sleep(limit)))),
        }
    }
}

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            if let Some((limit, silence)) = &mut self.silence
                && silence.as_mut().poll(context).is_ready()
            {
                let what = format!("the answer broke off: silence for {} s", limit.as_secs());
                return Poll::Ready(Some(Err(broken(what))));
            }
            return Poll::Pending;
        };
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(broken(error)))),
            None => return Poll::Ready(None),
        };
        let size = frame.data_ref().map_or(0, Bytes::len);
        let Some(left) = self.left.checked_sub(size) else {
            return Poll::Ready(Some(Err(broken("the answer is too large"))));
        };
        self.left = left;
        if let Some((limit, silence)) = &mut self.silence {
            let until = Instant::now() + *limit;
            silence.as_mut().reset(until);
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

fn broken(error: impl Into<BoxError>) -> BoxError {
    BrokenAnswer(error.into()).into()
}

#[cfg(test)]
mod tests;
