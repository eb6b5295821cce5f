//! An API server in memory: answers requests from its [`Objects`], unless a test makes it fail.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use client::TestBody;
use futures::{StreamExt as _, future::pending, stream};
use http::{Method, Request, Response, StatusCode, Version, header};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tower::BoxError;

use super::{
    objects::{Id, Objects, Selection},
    refusal::{AnswerOrRefusal, Refusal},
};

/// What happens to a request.
pub enum Verdict {
    /// It is answered.
    Forward,
    /// It is refused.
    Refuse(Refusal),
    /// It is refused after a while.
    RefuseLate(Duration, Refusal),
    /// It is never answered.
    Hold,
    /// The server cannot be reached.
    Unreachable,
}

/// A request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// As RBAC names it: `get`, `list`, `watch`, `create`, `patch`, `delete`.
    pub verb: &'static str,
    /// As in the path: `services`, `links/status`.
    pub resource: String,
    pub namespace: String,
    /// Empty for lists and watches.
    pub name: String,
    pub at: Instant,
}

impl Asked {
    pub fn writes(&self) -> bool {
        ["create", "patch", "delete"].contains(&self.verb)
    }

    /// Whether it is this verb on this resource.
    pub fn is(&self, verb: &str, resource: &str) -> bool {
        self.verb == verb && self.resource == resource
    }
}

/// The resource of a heartbeat: the version of the server.
const VERSION: &str = "version";

type Judge = Box<dyn Fn(&Asked) -> Verdict + Send>;

/// An API server in memory. A clone is the same server.
#[derive(Clone)]
pub struct ApiServer(Arc<Shared>);

struct Shared {
    inner: Mutex<Inner>,
    /// Wakes open watches.
    changed: watch::Sender<()>,
}

struct Inner {
    objects: Objects,
    judge: Judge,
    asked: Vec<Asked>,
    /// The writes that were accepted, in short, each with the index of its request.
    written: Vec<(usize, String)>,
    /// The token that requests must have.
    token: Option<String>,
    http: Version,
    /// Number of times that all connections were cut, and that they fell silent.
    cuts: u64,
    silences: u64,
}

/// The number of cuts and silences before a connection was opened.
type Opened = (u64, u64);

impl ApiServer {
    /// A server with these namespaces. With a token, it refuses requests without it.
    pub fn new(namespaces: &[&str], token: Option<&str>) -> Self {
        let mut objects = Objects::new();
        for name in namespaces {
            let namespace = json!({ "metadata": { "name": name } });
            objects
                .create("namespaces", namespace)
                .expect("a namespace");
        }
        Self(Arc::new(Shared {
            inner: Mutex::new(Inner {
                objects,
                judge: Box::new(|_| Verdict::Forward),
                asked: Vec::new(),
                written: Vec::new(),
                token: token.map(str::to_owned),
                http: Version::HTTP_2,
                cuts: 0,
                silences: 0,
            }),
            changed: watch::Sender::new(()),
        }))
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().expect("no panic")
    }

    /// Changes the server's objects, as others than the controller do, and wakes watches.
    pub fn change<T>(&self, change: impl FnOnce(&mut Objects) -> AnswerOrRefusal<T>) -> T {
        let changed = change(&mut self.inner().objects);
        self.0.changed.send_replace(());
        changed.expect("a change that is possible")
    }

    /// The object of this name.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Option<Value> {
        let id = (namespace.to_owned(), name.to_owned());
        self.inner().objects.get(resource, &id).cloned()
    }

    /// Names of the objects of a resource in a namespace.
    pub fn names(&self, resource: &str, namespace: &str) -> Vec<String> {
        let all = Selection::new(resource, namespace, "", "");
        let objects = self.inner().objects.list(&all).into_iter();
        let name = |object: Value| object["metadata"]["name"].as_str().map(str::to_owned);
        objects.filter_map(name).collect()
    }

    /// Decides from now on what happens to requests. Open watches stay as they are.
    pub fn judge(&self, judge: impl Fn(&Asked) -> Verdict + Send + 'static) {
        self.inner().judge = Box::new(judge);
    }

    /// Answers all requests again.
    pub fn forward(&self) {
        self.judge(|_| Verdict::Forward);
    }

    /// Breaks all connections: watches, and requests that are held.
    pub fn cut(&self) {
        self.inner().cuts += 1;
        self.0.changed.send_replace(());
    }

    /// Open watches stay open, and deliver nothing any more: their connection is half-open.
    pub fn silence(&self) {
        self.inner().silences += 1;
        self.0.changed.send_replace(());
    }

    /// Accepts only this token from now on.
    pub fn accept_only(&self, token: &str) {
        self.inner().token = Some(token.to_owned());
    }

    /// Answers with this version of HTTP from now on.
    pub fn speak(&self, http: Version) {
        self.inner().http = http;
    }

    /// The number of requests so far.
    pub fn mark(&self) -> usize {
        self.inner().asked.len()
    }

    /// The requests since a mark that a filter selects.
    pub fn asked(&self, since: usize, filter: impl Fn(&Asked) -> bool) -> Vec<Asked> {
        let inner = self.inner();
        let asked = inner.asked[since..].iter().filter(|asked| filter(asked));
        asked.cloned().collect()
    }

    /// The accepted writes since a mark, in short: `create services web-east`.
    pub fn writes(&self, since: usize) -> Vec<String> {
        let inner = self.inner();
        let written = inner.written.iter().filter(|(at, _)| *at >= since);
        written.map(|(_, write)| write.clone()).collect()
    }

    /// Answers a request.
    pub async fn answer(self, request: Request<Body>) -> Result<Response<TestBody>, BoxError> {
        let (head, body) = request.into_parts();
        let query = head.uri.query().unwrap_or_default();
        let query: HashMap<&str, String> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key, decoded(value)))
            .collect();
        let watches = query.contains_key("watch");
        let body = body.collect_bytes().await?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let mut asked = asked(&head.method, head.uri.path(), watches);
        if asked.verb == "create" {
            let name = body["metadata"]["name"].as_str();
            name.unwrap_or_default().clone_into(&mut asked.name);
        }
        let verdict = {
            let mut inner = self.inner();
            inner.asked.push(asked.clone());
            let token = head.headers.get(header::AUTHORIZATION);
            let known = inner.token.as_ref().map(|known| format!("Bearer {known}"));
            match (inner.judge)(&asked) {
                Verdict::Forward
                    if known.is_some_and(|known| token.is_none_or(|t| *t != *known)) =>
                {
                    Verdict::Refuse(Refusal::of(401))
                }
                verdict => verdict,
            }
        };
        match verdict {
            Verdict::Forward => {}
            Verdict::Refuse(refusal) => return Ok(self.refused(&refusal)),
            Verdict::RefuseLate(after, refusal) => {
                sleep(after).await;
                return Ok(self.refused(&refusal));
            }
            Verdict::Hold => return Err(self.held().await),
            Verdict::Unreachable => return Err("connection refused".into()),
        }
        let parameter = |name: &str| query.get(name).cloned().unwrap_or_default();
        let selection = Selection::new(
            &asked.resource,
            &asked.namespace,
            &parameter("labelSelector"),
            &parameter("fieldSelector"),
        );
        if watches {
            let since = parameter("resourceVersion").parse()?;
            let lasts = Duration::from_secs(parameter("timeoutSeconds").parse()?);
            return Ok(self.watched(selection, since, lasts));
        }
        Ok(match self.done(&asked, &selection, body) {
            Ok(answer) => self.answered(StatusCode::OK, &answer),
            Err(refusal) => self.refused(&refusal),
        })
    }

    /// Executes a request other than a watch.
    fn done(&self, asked: &Asked, selection: &Selection, body: Value) -> AnswerOrRefusal<Value> {
        let id: Id = (asked.namespace.clone(), asked.name.clone());
        let (resource, subresource) = match asked.resource.split_once('/') {
            Some((resource, _)) => (resource, true),
            None => (asked.resource.as_str(), false),
        };
        let mut inner = self.inner();
        let objects = &mut inner.objects;
        let done = match asked.verb {
            "get" if resource == VERSION => Ok(version()),
            "list" => Ok(json!({
                "metadata": { "resourceVersion": objects.version().to_string() },
                "items": objects.list(selection),
            })),
            "get" => {
                let found = objects.get(resource, &id).cloned();
                found.ok_or_else(|| Refusal::not_found(resource, &id.1))
            }
            "create" => objects.create(resource, body),
            "patch" => objects.patch(resource, &id, &body, subresource),
            _ => {
                let uid = body.pointer("/preconditions/uid").and_then(Value::as_str);
                let deleted = objects.delete(resource, &id, uid);
                deleted
                    .map(|()| json!({ "kind": "Status", "apiVersion": "v1", "status": "Success" }))
            }
        };
        if asked.writes() && done.is_ok() {
            let write = format!("{} {} {}", asked.verb, asked.resource, asked.name);
            let at = inner.asked.len() - 1;
            inner.written.push((at, write));
            self.0.changed.send_replace(());
        }
        done
    }

    /// Waits until connections are cut, without an answer.
    async fn held(&self) -> BoxError {
        let (mut changed, (cuts, _)) = (self.0.changed.subscribe(), self.opened());
        while self.opened().0 == cuts {
            changed.changed().await.ok();
        }
        "connection reset".into()
    }

    fn opened(&self) -> Opened {
        let inner = self.inner();
        (inner.cuts, inner.silences)
    }

    /// A watch, which ends after this time, with a bookmark.
    fn watched(&self, selection: Selection, since: u64, lasts: Duration) -> Response<TestBody> {
        if let Err(refusal) = self.inner().objects.events(&selection, since) {
            return self.refused(&refusal);
        }
        let open = Watch {
            server: self.clone(),
            changed: self.0.changed.subscribe(),
            opened: self.opened(),
            ends: Instant::now() + lasts,
            selection,
            since,
        };
        let frames = stream::unfold(Some(open), |open| async move {
            let mut open: Watch = open?;
            let (lines, ends) = open.next().await;
            let frame = lines.map(|lines| Frame::data(Bytes::from(lines)));
            Some((frame, (!ends).then_some(open)))
        });
        self.response(StatusCode::OK, StreamBody::new(frames.boxed()))
    }

    fn answered(&self, status: StatusCode, answer: &Value) -> Response<TestBody> {
        let frame = Ok(Frame::data(Bytes::from(answer.to_string())));
        self.response(status, StreamBody::new(stream::iter([frame]).boxed()))
    }

    fn refused(&self, refusal: &Refusal) -> Response<TestBody> {
        let mut response = self.answered(refusal.code, &refusal.status());
        if let Some(seconds) = refusal.retry_after {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    fn response(&self, status: StatusCode, body: TestBody) -> Response<TestBody> {
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.version_mut() = self.inner().http;
        response
    }
}

/// An open watch.
struct Watch {
    server: ApiServer,
    changed: watch::Receiver<()>,
    opened: Opened,
    ends: Instant,
    selection: Selection,
    since: u64,
}

impl Watch {
    /// The next events as lines of JSON, and whether they are the last ones.
    async fn next(&mut self) -> (Result<String, BoxError>, bool) {
        loop {
            self.changed.mark_unchanged();
            let (cuts, silences) = self.server.opened();
            if silences > self.opened.1 {
                return pending().await;
            }
            if cuts > self.opened.0 {
                return (Err("connection reset".into()), true);
            }
            let (events, version) = {
                let inner = self.server.inner();
                let events = inner.objects.events(&self.selection, self.since);
                (events, inner.objects.version())
            };
            let events = match events {
                Ok(events) => events,
                Err(refusal) => {
                    let error = json!({ "type": "ERROR", "object": refusal.status() });
                    return (Ok(format!("{error}\n")), true);
                }
            };
            self.since = version;
            if !events.is_empty() {
                let lines = events.iter().map(|event| format!("{event}\n"));
                return (Ok(lines.collect()), false);
            }
            tokio::select! {
                _ = self.changed.changed() => {}
                () = sleep_until(self.ends) => {
                    let bookmark = json!({ "type": "BOOKMARK", "object": {
                        "kind": "Bookmark", "apiVersion": "v1",
                        "metadata": { "resourceVersion": version.to_string() },
                    } });
                    return (Ok(format!("{bookmark}\n")), true);
                }
            }
        }
    }
}

/// What a request asks for.
fn asked(method: &Method, path: &str, watches: bool) -> Asked {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let parts = match *parts {
        ["api", _, ref parts @ ..] | ["apis", _, _, ref parts @ ..] => parts,
        _ => &[VERSION, ""],
    };
    let (namespace, parts) = match *parts {
        ["namespaces", namespace, ref parts @ ..] if !parts.is_empty() => (namespace, parts),
        _ => ("", parts),
    };
    let name = parts.get(1).copied().unwrap_or_default();
    let verb = match *method {
        Method::GET if watches => "watch",
        Method::GET if name.is_empty() && parts != [VERSION, ""] => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PATCH => "patch",
        _ => "delete",
    };
    let resource = match *parts {
        [resource, _, subresource] => format!("{resource}/{subresource}"),
        _ => parts.first().copied().unwrap_or_default().to_owned(),
    };
    Asked {
        verb,
        resource,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        at: Instant::now(),
    }
}

/// A value of a query, decoded.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                let digits = String::from_utf8(digits).expect("two digits");
                u8::from_str_radix(&digits, 16).expect("hexadecimal digits")
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).expect("UTF-8")
}

/// The answer to a heartbeat.
fn version() -> Value {
    let fields = [
        "major",
        "minor",
        "gitVersion",
        "gitCommit",
        "gitTreeState",
        "buildDate",
    ];
    let fields = fields
        .into_iter()
        .chain(["goVersion", "compiler", "platform"]);
    fields.map(|field| (field.to_owned(), json!("1"))).collect()
}
