//! Tests of elections whose lease somebody deletes, with an API server in memory.

use std::sync::{Arc, Mutex};

use client::{TestBody, of_test_server};
use futures::stream::{self, StreamExt as _};
use http::{Request, Response};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::sleep;
use tower::BoxError;

use super::*;

/// Compiles only if callers can spawn these futures.
#[expect(dead_code, reason = "checked by the compiler")]
fn elections_can_be_spawned(client: Client, settings: LeaseSettings, mut leader: Leadership) {
    fn send(_: impl Send) {}
    send(acquire(client, settings, CancellationToken::new()));
    send(async move {
        leader.lost().await;
        leader.release().await;
    });
}

/// The lease in an API server, and the number of writes so far.
#[derive(Clone, Default)]
struct Stored(Arc<Mutex<(Option<Value>, u64)>>);

impl Stored {
    fn delete(&self) {
        self.0.lock().unwrap().0 = None;
    }

    /// Waits until this replica leads.
    async fn lead(&self, identity: &str) -> Leadership {
        let stored = self.clone();
        let client = of_test_server(move |request| stored.clone().answer(request));
        let settings = LeaseSettings::new("mc", identity);
        let acquired = acquire(client, settings, CancellationToken::new()).await;
        acquired.unwrap().expect("the leadership")
    }

    async fn answer(self, request: Request<Body>) -> Result<Response<TestBody>, BoxError> {
        let verb = request.method().as_str().to_owned();
        let body = request.into_body().collect_bytes().await?;
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let (code, answer) = self.done(&verb, body);
        let frame = Ok(Frame::data(Bytes::from(answer.to_string())));
        let body = StreamBody::new(stream::iter([frame]).boxed());
        Ok(Response::builder().status(code).body(body)?)
    }

    /// Executes a request. Returns the code and the body of the response.
    fn done(&self, verb: &str, mut sent: Value) -> (u16, Value) {
        let mut stored = self.0.lock().unwrap();
        let (lease, writes) = &mut *stored;
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        match (verb, &lease) {
            ("GET", Some(lease)) => return (200, lease.clone()),
            ("GET" | "PUT", None) => return refused(404, "NotFound"),
            ("POST", Some(_)) => return refused(409, "AlreadyExists"),
            ("PUT", Some(lease)) if version(lease) != version(&sent) => {
                return refused(409, "Conflict");
            }
            _ => {}
        }
        *writes += 1;
        sent["metadata"]["resourceVersion"] = json!(writes.to_string());
        *lease = Some(sent.clone());
        (200, sent)
    }
}

fn refused(code: u16, reason: &str) -> (u16, Value) {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "made up", "reason": reason, "code": code,
    });
    (code, status)
}

#[tokio::test(start_paused = true)]
async fn leader_whose_lease_is_deleted_stops_at_its_next_renewal() {
    let stored = Stored::default();
    let mut leader = stored.lead("a").await;
    let fence = leader.fence();
    sleep(Duration::from_secs(60)).await;
    assert!(fence.holds());
    stored.delete();
    let lost = timeout(Duration::from_secs(3), leader.lost()).await;
    let why = lost.expect("an end").to_string();
    assert!(why.contains("deleted"), "{why}");
    assert!(!fence.holds());
}

#[tokio::test(start_paused = true)]
async fn deleted_lease_of_another_replica_is_created_after_its_duration() {
    let stored = Stored::default();
    let leader = stored.lead("a").await;
    let candidate = stored.clone();
    let candidate = tokio::spawn(async move {
        let _leader = candidate.lead("b").await;
        Instant::now()
    });
    sleep(Duration::from_secs(60)).await;
    // The process of the leader is stopped, and does not notice.
    drop(leader);
    stored.delete();
    let deleted = Instant::now();
    let waited = candidate.await.unwrap().duration_since(deleted).as_secs();
    assert!((30..=34).contains(&waited), "{waited} s");
}
