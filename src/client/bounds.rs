//! What every answer is held to, whatever the server: an API server, what stands before it, or somebody hostile.
//!
//! - Its head comes within [`HEAD`]. A proxy that answers pings and has lost its server would else be waited for, for
//!   ever.
//! - Its body ends within [`LARGEST`] bytes, and is never silent for longer than [`SILENCE`], but for that of a watch.
//! - A refusal that says when to come back is one that callers can read: Kubernetes' limits on concurrency say so in a
//!   header, next to a text that is no `Status`.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes, Frame};
use hyper_util::client::legacy::{Client, connect::Connect};
use serde_json::json;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tower::BoxError;

/// How long the head of an answer may take.
const HEAD: Duration = Duration::from_secs(30);
/// How long the body of an answer may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// Size of one answer, bytes, at most. A page holds 500 objects: 128 KiB each, where a few are usual. A watch that has
/// brought so much is opened again.
const LARGEST: usize = 64 << 20;

/// Sends a request, and holds the answer to the bounds.
pub(super) async fn ask<C, B>(
    client: Client<C, B>,
    request: Request<B>,
) -> Result<Response<UnsyncBoxBody<Bytes, BoxError>>, BoxError>
where
    C: Connect + Clone + Send + Sync + 'static,
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let silence = (!is_watch(request.uri())).then_some(SILENCE);
    let Ok(answer) = timeout(HEAD, client.request(request)).await else {
        return Err(format!("no answer within {} s", HEAD.as_secs()).into());
    };
    let answer = answer?;
    if let Some(seconds) = come_back(&answer) {
        return Ok(refusal(answer.status(), seconds));
    }
    Ok(answer.map(|body| Bounded::new(body, LARGEST, silence).boxed_unsync()))
}

fn is_watch(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    query.split('&').any(|part| part == "watch=true")
}

/// Seconds after which to come back, of a refusal whose body does not say so.
fn come_back<B>(answer: &Response<B>) -> Option<u32> {
    let status = answer.status();
    let header = |name| answer.headers().get(name)?.to_str().ok();
    let is_status = header(header::CONTENT_TYPE).is_some_and(|kind| kind.contains("json"));
    if is_status || !(status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error()) {
        return None;
    }
    header(header::RETRY_AFTER)?.trim().parse().ok()
}

/// The `Status` that such a refusal means.
fn refusal(status: StatusCode, seconds: u32) -> Response<UnsyncBoxBody<Bytes, BoxError>> {
    let reason = status.canonical_reason().unwrap_or_default();
    let body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("{}, come back in {seconds} s", reason.to_lowercase()),
        "reason": reason.replace(' ', ""),
        "details": { "retryAfterSeconds": seconds },
        "code": status.as_u16(),
    });
    let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
    let mut answer = Response::new(body.boxed_unsync());
    *answer.status_mut() = status;
    answer
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
                return Poll::Ready(Some(Err(what.into())));
            }
            return Poll::Pending;
        };
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let size = frame.data_ref().map_or(0, Bytes::len);
        let Some(left) = self.left.checked_sub(size) else {
            return Poll::Ready(Some(Err("the answer is too large".into())));
        };
        self.left = left;
        if let Some((limit, silence)) = &mut self.silence {
            let until = Instant::now() + *limit;
            silence.as_mut().reset(until);
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream;
    use http_body_util::StreamBody;

    use super::*;

    type Frames = Vec<Result<Frame<Bytes>, Infallible>>;

    fn frames(sizes: &[usize]) -> Frames {
        let frame = |size: &usize| Ok(Frame::data(Bytes::from(vec![b' '; *size])));
        sizes.iter().map(frame).collect()
    }

    #[tokio::test]
    async fn an_answer_may_be_as_large_as_the_limit_and_no_larger() {
        for (sizes, is_good) in [
            (&[4, 3, 3][..], true),
            (&[], true),
            (&[10, 1], false),
            (&[11], false),
        ] {
            let body = StreamBody::new(stream::iter(frames(sizes)));
            let body = Bounded::new(body, 10, None).collect().await;
            assert_eq!(body.is_ok(), is_good, "{sizes:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_may_be_slow_but_not_silent() {
        let second = Duration::from_secs(1);
        let slow = stream::unfold(0_u64, |n| async move {
            sleep(Duration::from_millis(900)).await;
            (n < 5).then(|| (frames(&[1]).remove(0), n + 1))
        });
        let body = Bounded::new(StreamBody::new(Box::pin(slow)), 10, Some(second));
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), 5);
        let silent = || {
            let one = stream::iter(frames(&[1]));
            StreamBody::new(Box::pin(futures::StreamExt::chain(one, stream::pending())))
        };
        let ended = Bounded::new(silent(), 10, Some(second)).collect().await;
        let error = ended.map(drop).unwrap_err().to_string();
        assert!(error.contains("silence for 1 s"), "{error}");
        let watch = Bounded::new(silent(), 10, None).collect();
        assert!(timeout(10 * second, watch).await.is_err());
    }

    #[test]
    fn watches_are_told_from_lists() {
        for (uri, is) in [
            ("/api/v1/services?watch=true&timeoutSeconds=290", true),
            ("/api/v1/services?limit=500&watch=true", true),
            ("/api/v1/services?limit=500", false),
            (
                "/api/v1/namespaces/watch=true/services?labelSelector=watch%3Dtrue",
                false,
            ),
        ] {
            assert_eq!(is_watch(&uri.parse().unwrap()), is, "{uri}");
        }
    }

    #[test]
    fn only_a_refusal_that_callers_could_not_read_is_translated() {
        let answer = |status: u16, kind: &str, after: Option<&str>| {
            let mut answer = Response::builder()
                .status(status)
                .header("content-type", kind);
            if let Some(after) = after {
                answer = answer.header("retry-after", after);
            }
            come_back(&answer.body(()).unwrap())
        };
        assert_eq!(answer(429, "text/plain", Some("3")), Some(3));
        assert_eq!(answer(503, "text/html", Some("60")), Some(60));
        assert_eq!(answer(429, "application/json", Some("3")), None);
        assert_eq!(answer(429, "text/plain", None), None);
        assert_eq!(answer(429, "text/plain", Some("Wed, 21 Oct 2026")), None);
        assert_eq!(answer(404, "text/plain", Some("3")), None);
        assert_eq!(answer(200, "text/plain", Some("3")), None);
    }

    #[tokio::test]
    async fn a_translated_refusal_is_a_status_with_the_time_to_wait() {
        let answer = refusal(StatusCode::TOO_MANY_REQUESTS, 7);
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        let status: kube::core::Status = serde_json::from_slice(&body).unwrap();
        assert_eq!(
            (status.code, status.reason.as_str()),
            (429, "TooManyRequests")
        );
        assert_eq!(status.message, "too many requests, come back in 7 s");
        assert_eq!(status.details.unwrap().retry_after_seconds, 7);
    }
}
