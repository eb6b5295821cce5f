//! Tests of pages that are too large or too slow.

use std::sync::{Arc, Mutex};

use client::{TestBody, of_test_server};
use futures::stream::{self, StreamExt as _};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, client::Body};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::*;

/// Records failures.
#[derive(Default)]
struct Told(Vec<String>);

impl EventHandler<ConfigMap> for Told {
    async fn on_event(&mut self, _: Event<ConfigMap>) -> bool {
        true
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        if let ConnectionStatus::Lost(loss) = connection {
            self.0.push(loss.why);
        }
    }
}

/// The body of the response for a page.
type Page = fn(Vec<u8>) -> TestBody;

fn at_once(page: Vec<u8>) -> TestBody {
    StreamBody::new(stream::iter([Ok(Frame::data(Bytes::from(page)))]).boxed())
}

/// Nine megabytes.
fn huge(_: Vec<u8>) -> TestBody {
    let megabyte = || Ok::<_, BoxError>(Frame::data(Bytes::from(vec![b' '; 1 << 20])));
    StreamBody::new(stream::iter((0..9).map(move |_| megabyte())).boxed())
}

/// One byte every ten seconds.
fn dripping(page: Vec<u8>) -> TestBody {
    let bytes = stream::iter(page).then(|byte| async move {
        sleep(Duration::from_secs(10)).await;
        Ok::<_, BoxError>(Frame::data(Bytes::from(vec![byte])))
    });
    StreamBody::new(bytes.boxed())
}

/// Lists 1,000 objects of a server whose pages succeed up to this number of objects. Returns the number of objects in
/// the list, the sizes of the requested pages, the reported failures, and the duration in seconds.
async fn listed(good: u32, otherwise: Page) -> (Result<usize, String>, Vec<u32>, Vec<String>, u64) {
    let asked = Arc::<Mutex<Vec<u32>>>::default();
    let seen = asked.clone();
    let server = move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let number = |key: &str| {
            let found = query.split('&').find_map(|part| part.strip_prefix(key));
            found.map_or(0, |number| number.parse::<u32>().unwrap())
        };
        let (limit, from) = (number("limit="), number("continue="));
        seen.lock().unwrap().push(limit);
        let to = (from + limit).min(1000);
        let names = (from..to).map(|n| json!({ "metadata": { "name": n.to_string() } }));
        let next = if to < 1000 {
            to.to_string()
        } else {
            String::new()
        };
        let page = json!({
            "kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": { "resourceVersion": "7", "continue": next },
            "items": names.collect::<Vec<_>>(),
        });
        let page = page.to_string().into_bytes();
        let body = if limit <= good {
            at_once(page)
        } else {
            otherwise(page)
        };
        async { Ok::<_, BoxError>(Response::new(body)) }
    };
    let watched = Watched::all(Api::all(of_test_server(server)));
    let (mut told, began) = (Told::default(), Instant::now());
    let (mut limit, mut pages) = (Limit::default(), Pages::default());
    let mut backoff = WatchBackoff::default();
    let ended = list(&watched, &mut limit, &mut pages, &mut told, &mut backoff).await;
    let count = |change: Event<ConfigMap>| match change {
        Event::List { objects, .. } => objects.len(),
        _ => 0,
    };
    let ended = ended.map(|(change, _)| count(change));
    let asked = asked.lock().unwrap().clone();
    (
        ended.map_err(|failure| failure.to_string()),
        asked,
        told.0,
        began.elapsed().as_secs(),
    )
}

#[tokio::test(start_paused = true)]
async fn pages_that_are_too_large_are_halved_until_they_succeed() {
    let (ended, asked, told, _) = listed(u32::MAX, huge).await;
    assert_eq!((ended, asked, told), (Ok(1000), vec![500, 500], vec![]));
    let (ended, asked, told, _) = listed(130, huge).await;
    assert_eq!(ended, Ok(1000));
    assert_eq!(asked[..4], [500, 250, 125, 125]);
    assert_eq!(
        asked.len(),
        2 + 8,
        "those that came were not asked for again"
    );
    assert_eq!(told, [""; 0]);
    let (ended, asked, _, _) = listed(0, huge).await;
    let why = "failed to list: the response is too large";
    assert!(
        ended.clone().unwrap_err().starts_with("failed to list"),
        "{ended:?} {why}"
    );
    assert_eq!(asked, [500, 250, 125, 62, 31, 15, 7, 3, 1]);
}

#[tokio::test(start_paused = true)]
async fn slow_pages_are_halved_and_reported() {
    let (ended, asked, told, took) = listed(200, dripping).await;
    assert_eq!(ended, Ok(1000));
    assert_eq!(asked[..4], [500, 250, 125, 125]);
    assert_eq!(told, ["a list takes longer than 60 s"]);
    assert!((120..130).contains(&took), "{took} s");
    let (ended, _, told, took) = listed(0, dripping).await;
    assert!(
        ended
            .unwrap_err()
            .contains("the response took longer than 60 s")
    );
    assert_eq!((told.len(), took / 60), (1, 9));
}

#[tokio::test(start_paused = true)]
async fn page_of_very_many_tiny_objects_is_refused() {
    let tiny = |_| {
        let items = vec![r#"{"metadata":{}}"#; 500_000].join(",");
        at_once(format!(r#"{{"metadata":{{}},"items":[{items}]}}"#).into_bytes())
    };
    let (ended, asked, ..) = listed(0, tiny).await;
    let message = ended.unwrap_err();
    assert!(
        message.starts_with("failed to list: the page has more than 8192 objects"),
        "{message}"
    );
    assert_eq!(asked, [500]);
}

#[test]
fn pages_grow_again_with_the_next_list() {
    let mut pages = Pages::default();
    assert!(pages.halve() && pages.halve());
    assert_eq!(pages.0, 125);
    pages.begin();
    assert_eq!(pages.0, 250);
    pages.begin();
    pages.begin();
    assert_eq!(pages.0, PAGE);
}

#[tokio::test(start_paused = true)]
async fn list_that_never_comes_to_an_object_is_given_up() {
    let asked = Arc::<Mutex<usize>>::default();
    let seen = asked.clone();
    let server = move |_: Request<Body>| {
        *seen.lock().unwrap() += 1;
        let page = json!({
            "kind": "ConfigMapList", "apiVersion": "v1",
            "metadata": { "resourceVersion": "7", "continue": "more" },
            "items": [],
        });
        let body = at_once(page.to_string().into_bytes());
        async { Ok::<_, BoxError>(Response::new(body)) }
    };
    let watched = Watched::all(Api::all(of_test_server(server)));
    let (mut told, mut backoff) = (Told::default(), WatchBackoff::default());
    let (mut limit, mut pages) = (Limit::default(), Pages::default());
    let ended = list(&watched, &mut limit, &mut pages, &mut told, &mut backoff);
    let ended = tokio::time::timeout(Duration::from_secs(1), ended).await;
    let failure = ended
        .expect("an end")
        .err()
        .map(|failure| failure.to_string());
    assert_eq!(
        failure.as_deref(),
        Some("the list has page after page without an object")
    );
    assert!(*asked.lock().unwrap() <= 20);
}
