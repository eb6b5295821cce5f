//! Tests of the admin port.

use hints::hint::hint_of;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;

const DEADLINE: Duration = Duration::from_secs(10);

struct Running {
    address: SocketAddr,
    readiness: Readiness,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

async fn start() -> Running {
    let admin = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let (address, readiness) = (admin.local_addr(), Readiness::default());
    let stop = CancellationToken::new();
    let task = tokio::spawn(admin.serve(
        readiness.clone(),
        Liveliness::default(),
        super::super::metrics::tests::filled(),
        stop.clone(),
    ));
    Running {
        address,
        readiness,
        stop,
        task,
    }
}

async fn ask(address: SocketAddr, request: &str) -> String {
    let exchange = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head = format!("{request} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    timeout(DEADLINE, exchange).await.unwrap()
}

#[tokio::test]
async fn routes_answer_as_documented() {
    let running = start().await;
    for (request, status, body) in [
        ("GET /ping", "200 OK", "pong\n"),
        ("GET /ready", "500 Internal Server Error", "not ready\n"),
        ("GET /live", "200 OK", "ok\n"),
        ("HEAD /ping", "200 OK", ""),
        ("GET /", "404 Not Found", "not found\n"),
        ("POST /", "404 Not Found", "not found\n"),
        (
            "POST /metrics",
            "405 Method Not Allowed",
            "only GET and HEAD\n",
        ),
    ] {
        let answer = ask(running.address, request).await;
        let (head, got) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status}\r\n")),
            "{request}: {head}"
        );
        assert_eq!(got, body, "{request}");
    }
    running.readiness.set(true);
    let answer = ask(running.address, "GET /ready").await;
    assert!(
        answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\nok\n"),
        "{answer}"
    );
    let answer = ask(running.address, "GET /metrics").await;
    assert!(answer.contains("content-type: text/plain; version=0.0.4"));
    assert!(answer.contains("\nlinkerd_mc_leader 1\n"));
}

#[test]
fn a_main_loop_that_hangs_for_a_minute_is_not_live() {
    assert_eq!(live(Duration::from_millis(59_999)).0, StatusCode::OK);
    let (status, body) = live(Duration::from_secs(61));
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(body, "the main loop has not ticked for 61 seconds\n");
}

#[tokio::test(start_paused = true)]
async fn beat_resets_the_age_of_the_main_loop() {
    let liveliness = Liveliness::default();
    tokio::time::advance(BEAT).await;
    assert_eq!(liveliness.age(), BEAT);
    liveliness.beat();
    assert_eq!(liveliness.age(), Duration::ZERO);
}

#[tokio::test]
async fn a_port_in_use_is_one_error_that_names_the_flag() {
    let first = bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let error = bind(first.local_addr()).await.unwrap_err();
    let text = format!("{error:#}");
    assert!(text.contains(&first.local_addr().to_string()), "{text}");
    assert!(text.contains("in use"), "{text}");
    assert!(hint_of(&error).unwrap().contains("--admin-addr"));
}

#[tokio::test]
async fn shutdown_takes_at_most_a_second_even_with_slow_peers() {
    let running = start().await;
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let mut halfway = TcpStream::connect(running.address).await.unwrap();
    halfway.write_all(b"GET /ping HTTP/1.1\r\n").await.unwrap();
    let mut idle = TcpStream::connect(running.address).await.unwrap();
    idle.write_all(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    // A response shows that earlier connections in the queue have been accepted too.
    let mut start_of_answer = [0; 12];
    timeout(DEADLINE, idle.read_exact(&mut start_of_answer))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&start_of_answer, b"HTTP/1.1 200");
    running.stop.cancel();
    // One second, and one more for a machine that is busy with other tests.
    timeout(Duration::from_secs(2), running.task)
        .await
        .unwrap()
        .unwrap();
    let mut rest = Vec::new();
    for stream in [&mut silent, &mut halfway, &mut idle] {
        // Closed or reset, but not left open.
        let _ = timeout(DEADLINE, stream.read_to_end(&mut rest))
            .await
            .unwrap();
    }
    assert!(TcpStream::connect(running.address).await.is_err());
}

/// Sends a request, and reads the beginning of the response.
async fn ping(stream: &mut TcpStream) -> std::io::Result<[u8; 12]> {
    let mut start = [0; 12];
    stream
        .write_all(b"GET /ping HTTP/1.1\r\nhost: x\r\n\r\n")
        .await?;
    stream.read_exact(&mut start).await?;
    Ok(start)
}

#[tokio::test]
async fn connections_beyond_the_limit_replace_the_one_that_was_idle_longest() {
    let running = start().await;
    let mut held = Vec::new();
    for _ in 0..CONNECTIONS {
        held.push(TcpStream::connect(running.address).await.unwrap());
    }
    // The last one has been accepted, and so have the others. The first one is used after that.
    for stream in [CONNECTIONS - 1, 0] {
        let answer = timeout(DEADLINE, ping(&mut held[stream])).await.unwrap();
        assert_eq!(&answer.unwrap(), b"HTTP/1.1 200");
    }
    let asked = std::time::Instant::now();
    assert!(ask(running.address, "GET /live").await.ends_with("ok\n"));
    assert!(asked.elapsed() < HEAD / 2, "{:?}", asked.elapsed());
    // The second one is closed, and no other.
    let mut rest = Vec::new();
    let closed = timeout(DEADLINE, held[1].read_to_end(&mut rest)).await;
    assert!(closed.is_ok() && rest.is_empty());
    for stream in [0, 2, CONNECTIONS - 1] {
        let answer = timeout(DEADLINE, ping(&mut held[stream])).await.unwrap();
        assert!(answer.is_ok(), "{stream}");
    }
}
