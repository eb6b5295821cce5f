//! The answers of API servers and of proxies behind them, as errors that callers tell apart.

use std::sync::{Arc, Mutex};

use client::{TestBody, of_test_server};
use futures::{StreamExt as _, stream};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use serde_json::json;
use tower::BoxError;

use super::*;

const MIB: usize = 1 << 20;
const SOON: Duration = Duration::from_secs(5);

/// A client of a server that always gives this answer, and the paths that it was asked for.
fn server(code: u16, text: impl Into<Bytes>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let (text, paths) = (text.into(), Arc::new(Mutex::new(Vec::new())));
    let asked = paths.clone();
    let client = of_test_server(move |request: Request<Body>| {
        asked.lock().unwrap().push(request.uri().path().to_owned());
        let text = text.clone();
        async move { answer(code, stream::iter([text])) }
    });
    (client, paths)
}

fn answer(
    code: u16,
    pieces: impl futures::Stream<Item = Bytes> + Send + 'static,
) -> Result<Response<TestBody>, BoxError> {
    let frames = pieces.map(|piece| Ok(Frame::data(piece))).boxed();
    Ok(Response::builder()
        .status(code)
        .body(StreamBody::new(frames))?)
}

fn status(code: u16, message: &str) -> String {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "", "code": code,
    })
    .to_string()
}

fn proxy() -> PodProxy {
    PodProxy {
        pod: ResourceId::new("shop", "cart-1"),
        port: 4191,
    }
}

fn pod(container: &serde_json::Value, phase: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": { "namespace": "shop", "name": "cart-1" },
        "spec": { "containers": [{ "name": "app" }], "initContainers": [container] },
        "status": { "phase": phase },
    }))
    .unwrap()
}

#[test]
fn proxy_of_a_pod_has_the_port_that_its_container_names() {
    let named = |port: u16| {
        json!({ "name": PROXY, "ports": [
            { "name": "linkerd-proxy", "containerPort": 4143 },
            { "name": "linkerd-admin", "containerPort": port },
        ] })
    };
    for (container, port) in [(named(9991), 9991), (json!({ "name": PROXY }), 4191)] {
        let found = PodProxy::of(&pod(&container, "Running")).unwrap();
        assert_eq!(found, PodProxy { port, ..proxy() });
    }
    let other = PodProxy::of(&pod(&json!({ "name": "init" }), "Running"));
    assert_eq!(other, Err(ProxyError::NoProxy(proxy().pod)));
    let ended = PodProxy::of(&pod(&named(4191), "Succeeded"));
    let error = ended.unwrap_err().to_string();
    assert_eq!(error, "Pod shop/cart-1 is Succeeded");
}

#[tokio::test]
async fn answers_that_mean_different_things_are_different_errors() {
    let dial = "error trying to reach service: dial tcp 10.1.2.3:4191: connect: connection refused";
    let denied = "pods \"cart-1\" is forbidden: User \"me\" cannot get resource \"pods/proxy\"";
    let failed = "etcdserver: request timed out";
    for (code, text, expected) in [
        (
            403,
            status(403, denied),
            ProxyError::Forbidden(denied.into()),
        ),
        (
            404,
            status(404, "pods \"cart-1\" not found"),
            ProxyError::NoPod(proxy().pod),
        ),
        (503, status(503, dial), ProxyError::Unreachable(dial.into())),
        (
            500,
            status(500, failed),
            ProxyError::Unanswered(failed.into()),
        ),
        (
            403,
            String::new(),
            ProxyError::Denied(StatusCode::FORBIDDEN),
        ),
        (
            404,
            String::new(),
            ProxyError::Status(StatusCode::NOT_FOUND),
        ),
    ] {
        let (client, paths) = server(code, text.clone());
        let read = proxy().metrics(&client, &["a"], SOON, |_| {}).await;
        assert_eq!(read, Err(expected), "{code} {text}");
        let path = "/api/v1/namespaces/shop/pods/cart-1:4191/proxy/metrics";
        assert_eq!(*paths.lock().unwrap(), [path]);
    }
}

#[tokio::test]
async fn proxy_is_found_in_the_pod() {
    let meshed = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "namespace": "shop", "name": "cart-1" },
        "spec": { "containers": [{ "name": PROXY }] }, "status": { "phase": "Running" },
    });
    let missing = "pods \"cart-1\" not found";
    for (code, text, expected) in [
        (200, meshed.to_string(), Ok(proxy())),
        (
            404,
            status(404, missing),
            Err(ProxyError::NoPod(proxy().pod)),
        ),
    ] {
        let (client, paths) = server(code, text);
        let found = PodProxy::find(&client, &proxy().pod, SOON).await;
        assert_eq!(found, expected, "{code}");
        assert_eq!(
            *paths.lock().unwrap(),
            ["/api/v1/namespaces/shop/pods/cart-1"]
        );
    }
}

#[tokio::test]
async fn readiness_is_the_answer_of_the_proxy_not_of_the_api_server() {
    for (code, text, expected) in [
        (200, "ready\n".to_owned(), Ok(true)),
        (503, "not ready\n".to_owned(), Ok(false)),
        (
            503,
            status(503, "no route"),
            Err(ProxyError::Unreachable("no route".into())),
        ),
    ] {
        let (client, _) = server(code, text);
        assert_eq!(proxy().ready(&client, SOON).await, expected, "{code}");
    }
}

#[tokio::test]
async fn wanted_samples_are_passed_on_whatever_the_pieces() {
    let text = "# HELP a x\n# TYPE a counter\na{b=\"c\"} 1\nother{ 2\na{b=\"d\"} 3\n# EOF\n";
    let client = of_test_server(move |_| async move {
        let pieces = text.as_bytes().chunks(7).map(Bytes::from_static);
        answer(200, stream::iter(pieces))
    });
    let mut found = Vec::new();
    let proxy = proxy();
    let read = proxy.metrics(&client, &["a"], SOON, |sample| {
        found.push((sample.label("b").to_owned(), sample.value));
    });
    read.await.unwrap();
    assert_eq!(found, [("c".to_owned(), 1.0), ("d".to_owned(), 3.0)]);
}

#[tokio::test(start_paused = true)]
async fn metrics_are_bounded_in_size_and_time() {
    let too_large = "the answer of the proxy is larger than 8 MiB";
    for (size, expected) in [(8 * MIB, Ok(())), (8 * MIB + 1, Err(too_large.to_owned()))] {
        let read = samples(Body::from(vec![b'\n'; size]), explain, &["a"], |_| {}).await;
        assert_eq!(read.map_err(|error| error.to_string()), expected);
    }

    let client = of_test_server(|_| async { answer(200, stream::pending()) });
    let read = proxy().metrics(&client, &["a"], SOON, |_| {}).await;
    let error = read.unwrap_err().to_string();
    assert_eq!(error, "timed out after 5 s");
}
