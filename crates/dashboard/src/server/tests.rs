//! Attacks over sockets, and what a browser is sent.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::*;
use crate::facts::PageFacts;

/// Long enough for an answer on any machine.
const SOON: Duration = Duration::from_secs(20);

pub(crate) struct Running {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) hub: Arc<Hub>,
    served: tokio::task::JoinHandle<()>,
    pub(crate) asked: tokio::sync::mpsc::Receiver<crate::hub::Question>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.served.abort();
    }
}

pub(crate) async fn start() -> Running {
    let server = Server::bind(0).await.unwrap();
    let url = server.url();
    let (host, path) = url["http://".len()..].split_once('/').unwrap();
    let (hub, asked) = Hub::new();
    Running {
        host: host.to_owned(),
        path: format!("/{path}"),
        hub: Arc::clone(&hub),
        served: tokio::spawn(server.serve(hub)),
        asked,
    }
}

impl Running {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.host).await.unwrap()
    }

    /// Sends a head, and returns the whole answer.
    async fn ask(&self, line: &str, headers: &str) -> String {
        let mut stream = self.connect().await;
        let head = format!("{line} HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        timeout(SOON, read).await.unwrap().unwrap();
        String::from_utf8(answer).unwrap()
    }

    fn own_host(&self) -> String {
        format!("Host: {}\r\n", self.host)
    }

    /// A stream of events, after its head.
    async fn events(&self) -> TcpStream {
        let mut stream = self.connect().await;
        let head = format!(
            "GET {}events HTTP/1.1\r\n{}\r\n",
            self.path,
            self.own_host()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream
    }
}

/// Reads until this text was read, and returns what was read last.
async fn read_until(stream: &mut TcpStream, text: &str) -> String {
    let mut last = String::new();
    let reading = async {
        while !last.contains(text) {
            let mut part = vec![0; 65_536];
            let length = stream.read(&mut part).await.unwrap();
            assert!(length > 0, "ended before {text}");
            let kept = last.len().saturating_sub(20_000);
            let kept = (kept..last.len()).find(|at| last.is_char_boundary(*at));
            last.drain(..kept.unwrap_or_default());
            last.push_str(&String::from_utf8_lossy(&part[..length]));
        }
    };
    timeout(SOON, reading).await.expect(text);
    last
}

fn titled(title: &str) -> PageFacts {
    PageFacts {
        title: title.to_owned(),
        read: "2026-01-01T00:00:00Z".parse().unwrap(),
        ..PageFacts::default()
    }
}

#[tokio::test]
async fn only_the_page_itself_gets_answers_and_each_answer_has_all_headers() {
    let server = start().await;
    let (own, path) = (server.own_host(), &server.path);
    let evil = "Origin: http://evil.example\r\n";
    for (line, headers, status) in [
        (format!("GET {path}"), own.clone(), "200"),
        (format!("HEAD {path}"), own.clone(), "200"),
        (format!("HEAD {path}events"), own.clone(), "200"),
        (format!("POST {path}"), own.clone(), "405"),
        (format!("DELETE {path}"), own.clone(), "405"),
        (format!("CONNECT {}", server.host), own.clone(), "405"),
        // DNS rebinding: the browser thinks that the page is of another host.
        (
            format!("GET {path}"),
            "Host: evil.example\r\n".to_owned(),
            "421",
        ),
        (format!("GET {path}"), String::new(), "421"),
        (format!("GET {path}events"), format!("{own}{evil}"), "403"),
        (
            format!("GET {path}"),
            format!("{own}Sec-Fetch-Site: cross-site\r\n"),
            "403",
        ),
        ("GET /".to_owned(), own.clone(), "404"),
        ("GET /x/events".to_owned(), own.clone(), "404"),
    ] {
        let answer = server.ask(&line, &headers).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{line} {headers}: {answer}"
        );
        for header in [
            "cache-control: no-store",
            "content-security-policy: default-src 'none'; style-src 'sha256-",
            "frame-ancestors 'none'",
            "referrer-policy: no-referrer",
            "x-content-type-options: nosniff",
            "x-frame-options: DENY",
            "cross-origin-resource-policy: same-origin",
        ] {
            assert!(answer.contains(header), "{line}: {header}\n{answer}");
        }
        assert!(!answer.contains("access-control"), "{answer}");
        if status != "200" {
            assert!(!answer.contains("linkerd"), "{answer}");
        }
    }
    assert!(!server.hub.is_watched());
}

#[tokio::test]
async fn a_tab_gets_everything_and_then_what_has_changed() {
    let server = start().await;
    server.hub.show(titled("first"));
    let mut tab = server.events().await;
    let all = read_until(&mut tab, "\nevent: problems").await;
    assert!(
        all.contains("content-type: text/event-stream") && all.contains("first"),
        "{all}"
    );
    timeout(SOON, server.hub.watched()).await.unwrap();
    server.hub.show(titled("second"));
    let news = read_until(&mut tab, "second").await;
    let sent: Vec<&str> = news
        .lines()
        .filter(|line| line.starts_with("event: "))
        .collect();
    assert_eq!(sent, ["event: now"]);
    drop(tab);
    let closed = async {
        while server.hub.is_watched() {
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, closed).await.unwrap();
}

#[tokio::test]
async fn a_thousand_connections_that_say_nothing_are_closed_and_the_page_is_there() {
    let server = start().await;
    let mut silent = Vec::new();
    for _ in 0..1_000 {
        silent.push(server.connect().await);
    }
    let closed = silent.iter_mut().map(async |stream| {
        let read = stream.read(&mut [0]).await;
        assert!(matches!(read, Ok(0) | Err(_)));
    });
    let closed = futures::future::join_all(closed);
    timeout(SOON, closed).await.expect("some are still open");
    let answer = server
        .ask(&format!("GET {}", server.path), &server.own_host())
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn a_head_that_is_slow_or_too_long_ends_the_connection() {
    let server = start().await;
    let mut slow = server.connect().await;
    slow.write_all(b"GET / HTTP/1.1\r\nHo").await.unwrap();
    let mut long = server.connect().await;
    let head = format!("GET / HTTP/1.1\r\nX: {}\r\n", "a".repeat(2 * HEAD_BYTES));
    let _ = long.write_all(head.as_bytes()).await;
    for stream in [&mut slow, &mut long] {
        let mut rest = Vec::new();
        let ended = timeout(SOON, stream.read_to_end(&mut rest));
        let _ = ended.await.expect("the connection is still open");
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_no_one_up_and_costs_little() {
    let server = start().await;
    let idle = server.events().await;
    let mut tab = server.events().await;
    read_until(&mut tab, "\nevent: problems").await;
    // Far more than the sockets between hold.
    for number in 0..100 {
        server
            .hub
            .show(titled(&format!("{}-{number}", "x".repeat(100_000))));
        tokio::task::yield_now().await;
    }
    server.hub.show(titled("the last one"));
    read_until(&mut tab, "the last one").await;
    drop(idle);
}

#[tokio::test]
async fn streams_are_few() {
    let server = start().await;
    let mut tabs = Vec::new();
    for _ in 0..STREAMS {
        let mut tab = server.events().await;
        read_until(&mut tab, "\nevent: problems").await;
        tabs.push(tab);
    }
    let mut more = server.events().await;
    read_until(&mut more, "503 Service Unavailable").await;
}
