//! Tests of watches of servers that respond with errors.

use std::{
    future::{Ready, ready},
    sync::{Arc, Mutex},
    time::Duration,
};

use client::{TestBody, of_test_server};
use futures::stream::{self, StreamExt as _};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, client::Body};
use serde_json::json;
use tokio::time::{Instant, timeout};
use tower::BoxError;

use super::*;

type Answer = Response<TestBody>;

/// The requests and events of a watch, with seconds since its start.
#[derive(Default)]
struct Told {
    lists: Vec<f32>,
    watches: Vec<f32>,
    contacts: Vec<(f32, Option<String>)>,
    changes: Vec<(f32, usize)>,
}

#[derive(Clone)]
struct Record(Arc<Mutex<Told>>, Instant);

impl Record {
    fn note(&self, note: impl FnOnce(&mut Told, f32)) {
        note(&mut self.0.lock().unwrap(), self.1.elapsed().as_secs_f32());
    }
}

impl EventHandler<ConfigMap> for Record {
    async fn on_event(&mut self, change: Event<ConfigMap>) -> bool {
        let objects = match change {
            Event::List { objects, .. } => objects.len(),
            Event::Apply(_) | Event::Delete(_) => 1,
        };
        self.note(|told, now| told.changes.push((now, objects)));
        true
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        let now = match connection {
            ConnectionStatus::Alive => None,
            ConnectionStatus::Lost(loss) => Some(loss.why),
        };
        self.note(|told, at| {
            if told.contacts.last().map(|(_, last)| last) != Some(&now) {
                told.contacts.push((at, now));
            }
        });
    }
}

/// Watches a server for this number of seconds of virtual time. The arguments set how it responds to lists and watches.
async fn watched(
    seconds: u64,
    list: impl Fn(usize) -> Result<Answer, BoxError> + Send + Sync + 'static,
    watch_answer: impl Fn(usize) -> Answer + Send + Sync + 'static,
) -> Told {
    let record = Record(Arc::default(), Instant::now());
    let seen = record.clone();
    let answers = Arc::new((list, watch_answer));
    let server = move |request: Request<Body>| -> Ready<Result<Answer, BoxError>> {
        let (list, watch_answer) = &*answers;
        let watches = request.uri().query().is_some_and(|q| q.contains("watch="));
        let mut count = 0;
        seen.note(|told, now| {
            let asked = if watches {
                &mut told.watches
            } else {
                &mut told.lists
            };
            asked.push(now);
            count = asked.len();
        });
        let answer = if watches {
            Ok(watch_answer(count))
        } else {
            list(count)
        };
        ready(answer.map(|mut answer| {
            *answer.version_mut() = http::Version::HTTP_2;
            answer
        }))
    };
    let api: Api<ConfigMap> = Api::all(of_test_server(server));
    let watching = watch(Watched::all(api), record.clone());
    timeout(Duration::from_secs(seconds), watching)
        .await
        .unwrap_err();
    std::mem::take(&mut *record.0.lock().unwrap())
}

fn answer(status: u16, frames: Vec<Result<Frame<Bytes>, BoxError>>, stays: bool) -> Answer {
    let frames = stream::iter(frames);
    let body = if stays {
        frames.chain(stream::pending()).boxed()
    } else {
        frames.boxed()
    };
    Response::builder()
        .status(status)
        .body(StreamBody::new(body))
        .unwrap()
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "other pieces of a body are errors"
)]
fn text(text: &str) -> Result<Frame<Bytes>, BoxError> {
    Ok(Frame::data(Bytes::from(text.to_owned())))
}

fn nothing() -> Answer {
    let list = json!({
        "kind": "ConfigMapList", "apiVersion": "v1", "items": [], "metadata": { "resourceVersion": "7" },
    });
    answer(200, vec![text(&list.to_string())], false)
}

/// An error response that asks for a pause of this number of seconds.
fn no(code: u16, wait: u32) -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "made up", "reason": "No", "code": code, "details": { "retryAfterSeconds": wait },
    });
    answer(code, vec![text(&status.to_string())], false)
}

fn bookmark() -> Result<Frame<Bytes>, BoxError> {
    let bookmark = json!({ "type": "BOOKMARK", "object": {
        "kind": "ConfigMap", "apiVersion": "v1", "metadata": { "resourceVersion": "8" },
    } });
    text(&format!("{bookmark}\n"))
}

fn broken() -> Result<Frame<Bytes>, BoxError> {
    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into())
}

#[tokio::test(start_paused = true)]
async fn refused_watch_is_retried_with_backoff_and_reported_once() {
    for code in [403, 429, 500, 503] {
        let told = watched(60, |_| Ok(nothing()), move |_| no(code, 0)).await;
        assert!(told.lists.len() <= 9, "{code}: {} lists", told.lists.len());
        assert_eq!(told.contacts.len(), 1, "{code}: {:?}", told.contacts);
        let why = told.contacts[0].1.as_ref().unwrap();
        assert!(why.contains("made up"), "{why}");
        // The lists are reported nevertheless.
        assert_eq!(told.changes.len(), told.lists.len());
        let long = watched(3600, |_| Ok(nothing()), move |_| no(code, 0)).await;
        assert!(
            (60..=130).contains(&long.lists.len()),
            "{} lists",
            long.lists.len()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn refused_watch_whose_body_never_ends_is_reported_and_retried() {
    let stalls = |_| answer(500, vec![text("{")], true);
    let told = watched(600, |_| Ok(nothing()), stalls).await;
    assert_eq!(told.contacts.len(), 1, "{:?}", told.contacts);
    let (at, why) = &told.contacts[0];
    assert!(*at < 31.0 && why.is_some(), "{at} s: {why:?}");
    // Each try takes 30 s, and the pause after it up to a minute.
    let lists = told.lists.len();
    assert!((6..=20).contains(&lists), "{lists} lists");
}

#[tokio::test(start_paused = true)]
async fn list_whose_page_always_breaks_is_retried_with_backoff() {
    let torn = |_| Ok(answer(200, vec![text("{"), broken()], false));
    let told = watched(60, torn, |_| no(500, 0)).await;
    assert!(told.lists.len() <= 9, "{} lists", told.lists.len());
    assert_eq!(told.contacts.len(), 1, "{:?}", told.contacts);
}

#[tokio::test(start_paused = true)]
async fn watch_that_always_breaks_is_retried_with_backoff_and_reported() {
    let told = watched(
        600,
        |_| Ok(nothing()),
        |_| answer(200, vec![broken()], false),
    )
    .await;
    assert!(told.lists.len() <= 25, "{} lists", told.lists.len());
    let lost = told
        .contacts
        .iter()
        .filter(|(_, why)| why.is_some())
        .count();
    assert_eq!((told.contacts.len(), lost), (1, 1), "{:?}", told.contacts);
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_immediately_is_not_retried_in_a_loop() {
    let told = watched(60, |_| Ok(nothing()), |_| answer(200, vec![], false)).await;
    assert!(told.watches.len() <= 9, "{} watches", told.watches.len());
}

#[tokio::test(start_paused = true)]
async fn watch_that_ends_after_its_time_is_resumed_without_a_list() {
    let ends = |_| {
        let late = stream::once(async {
            tokio::time::sleep(Duration::from_secs(25)).await;
            bookmark()
        });
        Response::new(StreamBody::new(late.boxed()))
    };
    let told = watched(600, |_| Ok(nothing()), ends).await;
    assert_eq!((told.lists.len(), told.watches.len()), (1, 24));
    assert!(told.contacts.iter().all(|(_, why)| why.is_none()));
}

#[tokio::test(start_paused = true)]
async fn retry_after_of_the_server_is_respected() {
    let told = watched(60, |_| Ok(nothing()), |_| no(429, 20)).await;
    assert_eq!(told.lists.len(), 3, "{:?}", told.lists);
    assert!(
        told.lists.is_sorted_by(|a, b| b - a >= 20.0),
        "{:?}",
        told.lists
    );
    let told = watched(60, |_| Ok(no(503, 20)), |_| no(500, 0)).await;
    assert_eq!(told.lists.len(), 3, "{:?}", told.lists);
}

#[tokio::test(start_paused = true)]
async fn long_watch_is_retried_soon() {
    // First refused until the backoff is long; then open, with a bookmark or just for a long time; then refused once.
    for alive in [vec![bookmark()], vec![]] {
        let alive = Mutex::new(Some(alive));
        let told = watched(
            600,
            |_| Ok(nothing()),
            move |count| match count {
                8 => {
                    let frames = alive.lock().unwrap().take().unwrap();
                    let later = stream::once(async {
                        tokio::time::sleep(Duration::from_secs(30)).await;
                        broken()
                    });
                    let body = stream::iter(frames).chain(later).boxed();
                    Response::new(StreamBody::new(body))
                }
                _ => no(403, 0),
            },
        )
        .await;
        let pause = told.lists[8] - told.watches[7] - 30.0;
        assert!(pause < 1.0, "{pause} s after a watch that lived");
        let states: Vec<bool> = told.contacts.iter().map(|(_, why)| why.is_none()).collect();
        assert_eq!(states, [false, true, false]);
    }
}

#[tokio::test(start_paused = true)]
async fn unresponsive_server_is_retried_every_few_seconds_indefinitely() {
    let gone = |_| Err("connection refused".into());
    let told = watched(600, gone, |_| no(500, 0)).await;
    let last: Vec<f32> = told
        .lists
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(last.iter().all(|pause| *pause <= 5.0), "{last:?}");
    assert!(told.lists.len() <= 300);
    assert_eq!(told.contacts.len(), 1);
    // Also if it responded with errors before, and when it is reachable again.
    let told = watched(
        600,
        |count| {
            if (6..100).contains(&count) {
                Err("connection refused".into())
            } else {
                Ok(nothing())
            }
        },
        |count| {
            if count < 6 {
                no(503, 0)
            } else {
                answer(200, vec![bookmark()], true)
            }
        },
    )
    .await;
    assert_eq!(told.lists.len(), 100);
    let pauses: Vec<f32> = told.lists[6..]
        .windows(2)
        .map(|pair| pair[1] - pair[0])
        .collect();
    assert!(pauses.iter().all(|pause| *pause <= 5.0), "{pauses:?}");
}
