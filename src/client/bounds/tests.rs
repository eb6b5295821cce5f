//! Bounds: how large, how slow and how silent an answer may be, and how a refusal is told.

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
fn refusal_says_in_its_header_when_to_come_back() {
    let answer = |status: u16, after: Option<&str>| {
        let mut answer = Response::builder().status(status);
        if let Some(after) = after {
            answer = answer.header("retry-after", after);
        }
        come_back(&answer.body(()).unwrap())
    };
    assert_eq!(answer(429, Some("3")), Some(3));
    assert_eq!(answer(503, Some(" 60 ")), Some(60));
    assert_eq!(answer(429, None), None);
    assert_eq!(answer(429, Some("Wed, 21 Oct 2026")), None);
    assert_eq!(answer(404, Some("3")), None);
    assert_eq!(answer(200, Some("3")), None);
}

#[tokio::test]
async fn time_to_wait_becomes_part_of_the_status() {
    let status = async |body: &str| {
        let answer = refusal(StatusCode::TOO_MANY_REQUESTS, 7, body.as_bytes());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<kube::core::Status>(&body).unwrap()
    };
    let made = status("Too many requests, please try again later.").await;
    assert_eq!((made.code, made.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(made.message, "too many requests, come back in 7 s");
    assert_eq!(made.details.unwrap().retry_after_seconds, 7);
    let own = |details: Value| json!({ "kind": "Status", "message": "slow down", "code": 429, "details": details });
    for (details, expected) in [
        (json!(null), 7),
        (json!({ "kind": "services" }), 7),
        (json!({ "retryAfterSeconds": 3 }), 3),
    ] {
        let passed_on = status(&own(details).to_string()).await;
        assert_eq!(passed_on.message, "slow down");
        assert_eq!(passed_on.details.unwrap().retry_after_seconds, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn watch_over_http_1_is_short_and_may_not_be_silent() {
    let asked = async |connections: &Connections, path: &str, version: Version| {
        let mut seen = String::new();
        let request = Request::get(path).body(()).unwrap();
        let answer = connections.ask(request, |request| {
            seen = request.uri().to_string();
            let silent = stream::pending::<Result<Frame<Bytes>, Infallible>>();
            let mut answer = Response::new(StreamBody::new(silent));
            *answer.version_mut() = version;
            async { Ok::<_, Infallible>(answer) }
        });
        let began = Instant::now();
        let body = answer.await.unwrap().into_body();
        let ended = timeout(Duration::from_secs(600), body.collect()).await;
        (seen, ended.is_ok().then(|| began.elapsed().as_secs()))
    };
    let (list, watch) = (
        "https://east/services?limit=500",
        "https://east/services?watch=true&timeoutSeconds=290&a=b",
    );
    let short = "https://east/services?watch=true&a=b&timeoutSeconds=25";
    let (http1, http2) = (Version::HTTP_11, Version::HTTP_2);
    let connections = Connections::default();
    assert_eq!(
        asked(&connections, list, http2).await,
        (list.into(), Some(30))
    );
    assert_eq!(
        asked(&connections, watch, http2).await,
        (watch.into(), None)
    );
    assert_eq!(
        asked(&connections, list, http1).await,
        (list.into(), Some(30))
    );
    assert_eq!(
        asked(&connections, watch, http1).await,
        (short.into(), Some(30))
    );
    assert_eq!(
        asked(&connections, watch, http2).await,
        (short.into(), None)
    );
    assert_eq!(
        asked(&connections, watch, http2).await,
        (watch.into(), None)
    );
    let proxied = Connections::without_pings();
    assert_eq!(
        asked(&proxied, watch, http2).await,
        (short.into(), Some(30))
    );
    assert_eq!(
        asked(&proxied, watch, http2).await,
        (short.into(), Some(30))
    );
}
