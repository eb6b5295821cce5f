//! Tests of the limits on the size, duration and idle time of a response, and of the `Status` of a refusal.

use std::convert::Infallible;

use futures::stream;
use http_body_util::StreamBody;
use hyper::body::Frame;
use mirror_core::budget::Budget;
use tokio::time::{Instant, sleep};

use super::{
    limits::{MAX_EVENT, MAX_WATCH, Meter, SMALL},
    *,
};

type Frames = Vec<Result<Frame<Bytes>, Infallible>>;

fn frames(sizes: &[usize]) -> Frames {
    let frame = |size: &usize| Ok(Frame::data(Bytes::from(vec![b' '; *size])));
    sizes.iter().map(frame).collect()
}

/// A body of these frames, with a limit of this number of bytes.
fn whole(
    sizes: &[usize],
    max_size: usize,
    total: &Budget,
) -> BoundedBody<impl Body<Data = Bytes, Error = Infallible>> {
    let limits = ResponseLimits {
        max_size,
        total: total.clone(),
        ..ResponseLimits::of_pages()
    };
    let end = Instant::now() + limits.timeout;
    let body = StreamBody::new(stream::iter(frames(sizes)));
    BoundedBody::whole(body, end, &limits)
}

/// What a body ended in.
async fn end(body: impl Body<Data = Bytes, Error = BoxError>) -> String {
    match body.collect().await {
        Ok(body) => format!("{} bytes", body.to_bytes().len()),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn response_may_be_as_large_as_the_limit() {
    let all = Budget::new(0);
    for (sizes, ended) in [
        (&[4, 3, 3][..], "10 bytes"),
        (&[], "0 bytes"),
        (&[10, 1], "the response is too large"),
        (&[11], "the response is too large"),
    ] {
        assert_eq!(end(whole(sizes, 10, &all)).await, ended, "{sizes:?}");
    }
}

#[tokio::test]
async fn concurrent_responses_share_a_limit_and_small_ones_are_exempt() {
    let all = Budget::new(10);
    let mut first = whole(&[SMALL, 6, 0], usize::MAX, &all);
    first.frame().await.unwrap().unwrap();
    first.frame().await.unwrap().unwrap();
    assert_eq!(all.used(), 6);
    let together = "the responses that are being received are too large together";
    let second = || whole(&[SMALL + 3, 2], usize::MAX, &all);
    assert_eq!(end(second()).await, together);
    assert_eq!(
        end(whole(&[SMALL], usize::MAX, &all)).await,
        format!("{SMALL} bytes")
    );
    drop(first);
    assert_eq!(all.used(), 0);
    assert_eq!(end(second()).await, format!("{} bytes", SMALL + 5));
    assert_eq!(all.used(), 0);
}

#[tokio::test]
async fn pages_of_one_link_leave_room_for_others_and_for_the_local_cluster() {
    let pages = ResponseLimits::of_pages();
    let (east, west, local) = (pages.of_link(), pages.of_link(), pages.of_local());
    let whole = |limits: &ResponseLimits| {
        let frame = Bytes::from(vec![b' '; 7 << 20]);
        let frames = [Ok::<_, Infallible>(Frame::data(frame))];
        let body = StreamBody::new(stream::iter(frames));
        let limits = ResponseLimits {
            meter: None,
            ..limits.clone()
        };
        BoundedBody::whole(body, Instant::now() + limits.timeout, &limits)
    };
    // East begins pages and does not end them.
    let mut held = Vec::new();
    for _ in 0..8 {
        let mut page = whole(&east);
        let _ = page.frame().await.unwrap();
        held.push(page);
    }
    let bytes = format!("{} bytes", 7 << 20);
    assert_eq!(end(whole(&west)).await, bytes);
    assert_eq!(end(whole(&local)).await, bytes);
    let together = "the responses that are being received are too large together";
    assert_eq!(end(whole(&east)).await, together);
    drop(held);
    assert_eq!(end(whole(&east)).await, bytes);
    // Many Links together have a limit. The local cluster is trusted and has none.
    let links: Vec<ResponseLimits> = (0..8).map(|_| pages.of_link()).collect();
    let mut held = Vec::new();
    let mut ended = 0;
    for link in &links {
        let mut page = whole(link);
        ended += usize::from(page.frame().await.unwrap().is_err());
        held.push(page);
    }
    assert_eq!(ended, 4);
    assert_eq!(end(whole(&local)).await, bytes);
}

#[tokio::test]
async fn watch_fails_at_an_event_that_is_too_large() {
    let watch = |chunks: Vec<Vec<u8>>| {
        let frames = chunks
            .into_iter()
            .map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::from(chunk))));
        let body = StreamBody::new(stream::iter(frames));
        BoundedBody::watch(body, None, &ResponseLimits::of_pages())
    };
    let part = |size: usize| vec![b'x'; size];
    let with_end = |mut part: Vec<u8>| {
        part.push(b'\n');
        part
    };
    let half = MAX_EVENT / 2;
    let good = vec![
        part(half),
        with_end(part(half)),
        part(half),
        with_end(part(half)),
    ];
    assert!(end(watch(good)).await.ends_with("bytes"));
    let bad = vec![with_end(part(1)), part(half), part(half), part(1)];
    assert_eq!(end(watch(bad)).await, "the response is too large");
    let many = vec![with_end(part(half)); MAX_WATCH / half];
    assert_eq!(end(watch(many)).await, "the response is too large");
}

#[tokio::test(start_paused = true)]
async fn responses_of_a_server_share_its_data_rate() {
    let limits = ResponseLimits {
        meter: Some(Meter::new()),
        ..ResponseLimits::of_pages()
    };
    let body = |mib: usize| {
        let lines = Bytes::from(vec![b'\n'; 1 << 20]);
        let frames = (0..mib).map(move |_| Ok::<_, Infallible>(Frame::data(lines.clone())));
        let body = StreamBody::new(stream::iter(frames));
        // Its own pause for the data rate does not count as idle time.
        BoundedBody::watch(body, Some(Duration::from_secs(1)), &limits)
    };
    let began = Instant::now();
    assert!(end(body(16)).await.ends_with("bytes"));
    assert_eq!(began.elapsed(), Duration::ZERO);
    let (one, other) = tokio::join!(end(body(8)), end(body(8)));
    assert!(one.ends_with("bytes") && other.ends_with("bytes"), "{one}");
    assert_eq!(began.elapsed().as_secs(), 4);
}

#[tokio::test(start_paused = true)]
async fn slow_response_succeeds_but_silent_or_endless_one_fails() {
    let slow = |times: u64| {
        let slow = stream::unfold(0_u64, move |n| async move {
            sleep(Duration::from_secs(29)).await;
            (n < times).then(|| (frames(&[1]).remove(0), n + 1))
        });
        StreamBody::new(Box::pin(slow))
    };
    let limits = |timeout| ResponseLimits {
        timeout,
        ..ResponseLimits::of_pages()
    };
    let long = Duration::from_secs(600);
    let held = |times, timeout| {
        let end = Instant::now() + timeout;
        BoundedBody::whole(slow(times), end, &limits(timeout))
    };
    assert_eq!(end(held(5, long)).await, "5 bytes");
    let too_long = "the response took longer than 60 s";
    assert_eq!(end(held(5, Duration::from_secs(60))).await, too_long);
    let silent = || {
        let one = stream::iter(frames(&[1]));
        StreamBody::new(Box::pin(futures::StreamExt::chain(one, stream::pending())))
    };
    let whole = BoundedBody::whole(silent(), Instant::now() + long, &limits(long));
    let error = end(whole).await;
    assert!(error.contains("no data for 30 s"), "{error}");
    let second = Duration::from_secs(1);
    let watch = |idle_timeout| BoundedBody::watch(silent(), idle_timeout, &limits(long));
    let error = end(watch(Some(second))).await;
    assert!(error.contains("no data for 1 s"), "{error}");
    assert!(timeout(1000 * second, end(watch(None))).await.is_err());
}

#[test]
fn watches_are_distinguished_from_lists() {
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
fn retry_after_header_of_a_refusal_is_read() {
    let answer = |status: u16, after: Option<&str>| {
        let mut answer = Response::builder().status(status);
        if let Some(after) = after {
            answer = answer.header("retry-after", after);
        }
        retry_after(&answer.body(()).unwrap())
    };
    assert_eq!(answer(429, Some("3")), Some(3));
    assert_eq!(answer(503, Some(" 60 ")), Some(60));
    assert_eq!(answer(429, None), None);
    assert_eq!(answer(429, Some("Wed, 21 Oct 2026")), None);
    assert_eq!(answer(404, Some("3")), None);
    assert_eq!(answer(200, Some("3")), None);
}

#[tokio::test]
async fn retry_after_becomes_part_of_the_status() {
    let status = async |body: &str| {
        let answer = with_retry_after(StatusCode::TOO_MANY_REQUESTS, 7, body.as_bytes());
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice::<kube::core::Status>(&body).unwrap()
    };
    let made = status("Too many requests, please try again later.").await;
    assert_eq!((made.code, made.reason.as_str()), (429, "TooManyRequests"));
    assert_eq!(made.message, "too many requests, retry after 7 s");
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
async fn watch_over_http_1_is_short_and_fails_when_silent() {
    let asked = async |connections: &Connections, path: &str, version: Version| {
        let mut seen = String::new();
        let request = Request::get(path).body(()).unwrap();
        let answer = connections.send(request, |request| {
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
    let connections = Connections::new(ResponseLimits::of_pages());
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
}

#[tokio::test(start_paused = true)]
async fn refusal_of_a_watch_fails_when_silent_over_http_2_too() {
    let connections = Connections::new(ResponseLimits::of_pages());
    let request = Request::get("https://east/services?watch=true").body(());
    let refused = connections.send(request.unwrap(), |_| {
        let silent = stream::pending::<Result<Frame<Bytes>, Infallible>>();
        let mut refused = Response::new(StreamBody::new(silent));
        *refused.version_mut() = Version::HTTP_2;
        *refused.status_mut() = StatusCode::FORBIDDEN;
        async { Ok::<_, Infallible>(refused) }
    });
    let body = refused.await.unwrap().into_body();
    let error = timeout(Duration::from_secs(31), end(body)).await.unwrap();
    assert!(error.contains("no data for 30 s"), "{error}");
}
