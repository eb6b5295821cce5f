//! Tests of how many Events are created, and that a silent cluster does not delay those about others.

use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use http::{Request, Response};
use kube::client::Body;
use tower::service_fn;

use super::*;

/// A client whose API server counts requests and grants them.
fn granting(asked: Arc<AtomicUsize>) -> Client {
    let server = service_fn(move |request: Request<Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        async move {
            let event = request.into_body().collect_bytes().await;
            Ok::<_, Infallible>(Response::new(Body::from(event.unwrap().to_vec())))
        }
    });
    Client::new(server, "default")
}

/// A client whose API server counts requests and never answers.
fn silent(asked: Arc<AtomicUsize>) -> Client {
    let server = service_fn(move |_: Request<Body>| {
        asked.fetch_add(1, Ordering::Relaxed);
        pending::<Result<Response<Body>, Infallible>>()
    });
    Client::new(server, "default")
}

fn skipped(link: &str, service: &str, client: Option<Client>) -> EventRequest {
    EventRequest {
        link: ("extension".into(), link.into()),
        link_uid: None,
        kind: EventKind::Skipped {
            remote: RemoteRef {
                cluster: link.into(),
                namespace: "shop".into(),
                service: service.into(),
            },
            uid: None,
            client,
            problem: Problem {
                reason: Reason::MissingNamespace,
                message: String::new(),
            },
        },
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_does_not_answer_delays_no_events() {
    let (here, there) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (sender, receiver) = mpsc::channel(16);
    for service in ["a", "b", "c"] {
        let request = skipped("silent", service, Some(silent(there.clone())));
        sender.send(request).await.ok().unwrap();
    }
    let request = skipped("other", "a", Some(granting(there.clone())));
    sender.send(request).await.ok().unwrap();
    drop(sender);

    let started = Instant::now();
    run(granting(here.clone()), receiver).await;
    assert!(started.elapsed() < Duration::from_secs(1));
    assert_eq!(here.load(Ordering::Relaxed), 4);
    // One to the silent cluster, which is still under way, and one to the other.
    tokio::task::yield_now().await;
    assert_eq!(there.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn a_link_with_many_problems_does_not_silence_another() {
    let here = Arc::<AtomicUsize>::default();
    let (sender, receiver) = mpsc::channel(200);
    for number in 0..100 {
        let request = skipped("noisy", &format!("web-{number}"), None);
        sender.send(request).await.ok().unwrap();
    }
    let request = skipped("other", "web", None);
    sender.send(request).await.ok().unwrap();
    drop(sender);
    run(granting(here.clone()), receiver).await;
    assert_eq!(here.load(Ordering::Relaxed), 21);
}

#[test]
fn a_problem_is_reported_once_an_hour_and_problems_at_a_limited_rate() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let mut reported = EventHistory::nothing(start);
    assert!(reported.permits("first", start));
    assert!(!reported.permits("first", after(3600)));
    assert!(reported.permits("first", after(3601)));

    let mut reported = EventHistory::nothing(start);
    let at = |reported: &mut EventHistory, seconds: u64| {
        let all = 0..100;
        let permitted = all.filter(|n| reported.permits(&format!("{seconds} {n}"), after(seconds)));
        permitted.count()
    };
    assert_eq!(at(&mut reported, 0), 20);
    assert_eq!(at(&mut reported, 4), 0);
    assert_eq!(at(&mut reported, 10), 2);
    assert_eq!(at(&mut reported, 1000), 20);
}
