//! Serves the page to browsers of this machine, over HTTP/1.1 on the loopback interface.
//!
//! Other programs of this machine may open connections too, so all is bounded: connections, the time for a head, the time
//! for which a reader may not read, and what waits for it: a tab that falls behind gets the newest state, not each one.

pub mod gate;

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};

use self::gate::{PageRoute, RequestGate, RequestRefusal};
use crate::{
    hub::{Hub, events},
    page,
};

/// Open connections. Further ones are closed at once.
const CONNECTIONS: usize = 64;
/// Open streams of events. A browser has at most six connections to a server.
const STREAMS: usize = 16;
/// Time for the head of a request, also of the next one on a connection.
const HEAD: Duration = Duration::from_secs(5);
/// Longest head of a request.
const HEAD_BYTES: usize = 16 * 1024;
/// How long a reader may not read. Longer than several diagnoses take, one after the other.
const UNREAD: Duration = Duration::from_secs(90);
/// Interval in which a stream says that it is there.
const BEAT: Duration = Duration::from_secs(15);
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// A server that is bound.
pub struct Server {
    listener: TcpListener,
    gate: Arc<RequestGate>,
}

/// What all connections share.
#[derive(Clone)]
struct ServedPage {
    hub: Arc<Hub>,
    gate: Arc<RequestGate>,
    streams: Arc<Semaphore>,
}

impl Server {
    /// Binds this port of the loopback interface; 0 is any port that is free.
    pub async fn bind(port: u16) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let host = listener.local_addr()?.to_string();
        let gate = Arc::new(RequestGate::new(host, secret()?));
        Ok(Self { listener, gate })
    }

    /// The address of the page. Who knows it can see the page.
    pub fn url(&self) -> String {
        self.gate.url()
    }

    /// Serves the page until it is dropped.
    pub async fn serve(self, hub: Arc<Hub>) {
        let served = ServedPage {
            hub,
            gate: self.gate,
            streams: Arc::new(Semaphore::new(STREAMS)),
        };
        // A JoinSet, so that the connections end if this future is dropped.
        let mut connections = JoinSet::new();
        loop {
            let accepted = self.listener.accept().await;
            while connections.try_join_next().is_some() {}
            match accepted {
                Ok((stream, _)) if connections.len() < CONNECTIONS => {
                    connections.spawn(connection(stream, served.clone()));
                }
                Ok(_) => {}
                // Such as too many open files, which a pause may solve.
                Err(_) => sleep(ACCEPT_PAUSE).await,
            }
        }
    }
}

/// 128 random bits, as text.
fn secret() -> anyhow::Result<String> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes).ok();
    filled.context("this machine has no random numbers")?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

async fn connection(stream: TcpStream, served: ServedPage) {
    let progress = ReadProgress::default();
    let service = service_fn(|request: Request<Incoming>| {
        let (served, progress) = (served.clone(), progress.clone());
        async move {
            progress.note();
            let response = respond(&request, &served).await;
            // hyper asks for more of a body only when the reader has read.
            let noted = response.map(|body| {
                body.map_frame(move |frame| {
                    progress.note();
                    frame
                })
            });
            Ok::<_, Infallible>(noted)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        // Errors here are the peer's fault: half a request, a reset, a timeout.
        _ = served => {}
        () = progress.ended() => {}
    }
}

/// When a connection last got further.
#[derive(Clone)]
struct ReadProgress(Arc<Mutex<Instant>>);

impl Default for ReadProgress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }
}

impl ReadProgress {
    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Waits until there was none for too long.
    async fn ended(&self) {
        loop {
            let last = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if last.elapsed() >= UNREAD {
                return;
            }
            sleep_until(last + UNREAD).await;
        }
    }
}

/// The answer to a request. A body of the request is not read.
async fn respond<B>(request: &Request<B>, served: &ServedPage) -> Response<Body> {
    let shown = || served.hub.shown();
    let mut response = match served.gate.admit(request) {
        Err(refusal) => refused(refusal),
        Ok(PageRoute::Page) => html(page::whole(&shown().fragments)),
        // A HEAD has no body, so there is nothing to wait for.
        Ok(PageRoute::Events) if *request.method() == Method::HEAD => stream_of(stream::empty()),
        Ok(PageRoute::Events) => match Arc::clone(&served.streams).try_acquire_owned() {
            Ok(turn) => {
                let changes = changes(&served.hub);
                stream_of(changes.map(move |change| {
                    let _ = &turn; // as long as the stream is open
                    change
                }))
            }
            Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "too many tabs are open\n"),
        },
        Ok(PageRoute::Search(text)) => html(page::search(&shown(), &text)),
        Ok(PageRoute::Service(service)) => html(page::service(&shown(), &service)),
        Ok(PageRoute::Diagnosis(_)) if *request.method() == Method::HEAD => html(String::new()),
        Ok(PageRoute::Diagnosis(service)) => match served.hub.diagnose(service).await {
            Some(diagnosis) => html(page::diagnosis(&diagnosis)),
            None => text(StatusCode::SERVICE_UNAVAILABLE, "too many questions wait\n"),
        },
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, page::policy());
    response
}

/// Headers of every answer.
const HEADERS: [(&str, &str); 6] = [
    ("cache-control", "no-store"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// What a tab is sent: everything, and then what has changed.
fn changes(hub: &Hub) -> impl Stream<Item = String> + use<> {
    stream::unfold((hub.open(), None), |(mut opened, sent)| async move {
        loop {
            let now = Arc::clone(&opened.borrow_and_update());
            let last = sent.as_ref();
            let news = events(
                last.map(|last: &Arc<crate::page::Shown>| &last.fragments),
                &now.fragments,
            );
            if !news.is_empty() {
                return Some((news, (opened, Some(now))));
            }
            tokio::select! {
                changed = opened.changed() => changed.ok()?,
                () = sleep(BEAT) => return Some((":\n\n".to_owned(), (opened, sent))),
            }
        }
    })
}

fn refused(refusal: RequestRefusal) -> Response<Body> {
    let (status, why) = refusal.answer();
    let mut response = text(status, why);
    if refusal == RequestRefusal::Method {
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(header::ALLOW, allowed);
    }
    response
}

fn html(text: String) -> Response<Body> {
    answer(StatusCode::OK, "text/html; charset=utf-8", text)
}

fn text(status: StatusCode, text: &str) -> Response<Body> {
    answer(status, "text/plain; charset=utf-8", text.to_owned())
}

fn answer(status: StatusCode, kind: &'static str, body: String) -> Response<Body> {
    with_kind(status, kind, Full::new(Bytes::from(body)).boxed_unsync())
}

fn stream_of(events: impl Stream<Item = String> + Send + 'static) -> Response<Body> {
    let frames = events.map(|event| Ok(Frame::data(Bytes::from(event))));
    let body = StreamBody::new(frames).boxed_unsync();
    with_kind(StatusCode::OK, "text/event-stream", body)
}

fn with_kind(status: StatusCode, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
pub(crate) mod tests;
