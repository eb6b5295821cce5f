//! Tests of watches: their events after lists, changes and refusals, and their retries.

use std::sync::{Arc, Mutex};

use futures::stream;
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, client::Body};

use super::*;

/// Records the events of a watch.
struct Notes(Arc<Mutex<Vec<String>>>);

impl EventHandler<ConfigMap> for Notes {
    async fn on_event(&mut self, change: Event<ConfigMap>) -> bool {
        let mut notes = self.0.lock().unwrap();
        notes.push(match change {
            Event::List { objects, .. } => format!("{} objects", objects.len()),
            Event::Apply(_) | Event::Delete(_) => "a change".to_owned(),
        });
        true
    }

    async fn on_connection(&mut self, connection: ConnectionStatus) {
        if let ConnectionStatus::Lost(loss) = connection {
            self.0.lock().unwrap().push(loss.why);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn broken_watch_lists_again_without_reporting_a_failure() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    let server = tower::service_fn(move |request: http::Request<Body>| {
        let watches = request.uri().query().is_some_and(|q| q.contains("watch="));
        let mut asked = seen.lock().unwrap();
        asked.push(if watches { "watch" } else { "list" });
        async move {
            let list = serde_json::json!({
                "kind": "ConfigMapList", "apiVersion": "v1", "items": [],
                "metadata": { "resourceVersion": "7" },
            });
            let broken = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
            let frames = if watches {
                vec![Err(broken)]
            } else {
                vec![Ok(Frame::data(Bytes::from(list.to_string())))]
            };
            let body = StreamBody::new(stream::iter(frames));
            Ok::<_, std::convert::Infallible>(http::Response::new(body))
        }
    });
    let api: Api<ConfigMap> = Api::all(kube::Client::new(server, "default"));
    let notes = Arc::<Mutex<Vec<String>>>::default();
    let watching = watch(Watched::all(api), Notes(notes.clone()));
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, watching).await.unwrap_err();
    let asked = asked.lock().unwrap();
    assert_eq!(asked[..6], ["list", "watch"].repeat(3));
    // Retries have pauses.
    assert!(asked.len() < 20, "{}", asked.len());
    let notes = notes.lock().unwrap();
    assert_eq!(*notes, vec!["0 objects"; asked.len() / 2]);
}
