//! Tests of probes against real servers on loopback, and a table of the rules of liveness.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinHandle,
};

use super::*;
use crate::transport::Sockets;
use Liveness::{Alive, Dead};
use ProbeReport::{Failed, Latency, Transition};

const DEADLINE: Duration = Duration::from_secs(10);

#[test]
fn liveness_follows_results() {
    // Results, `+` and `-`, and the report after each: Alive, Dead, or none.
    for (threshold, results, reports) in [
        (3, "+", "A"),
        (3, "++", "A "),
        (3, "---", "  D"),
        (3, "-----", "  D  "),
        (3, "+--+--", "A     "),
        (3, "+---+", "A  DA"),
        (3, "--+---", "  A  D"),
        (1, "-+-", "DAD"),
        (0, "-+", "DA"),
    ] {
        let mut tracker = Tracker::default();
        assert_eq!(tracker.liveness, Liveness::Unknown);
        let seen: String = results
            .chars()
            .map(|result| match tracker.on_result(result == '+', threshold) {
                Some(Alive) => 'A',
                Some(Dead) => 'D',
                Some(Liveness::Unknown) => '?',
                None => ' ',
            })
            .collect();
        assert_eq!(seen, reports, "{results} with threshold {threshold}");
    }
}

/// How a test's gateway handles a connection.
#[derive(Clone, Copy, Debug)]
enum Manner {
    Answer(&'static str),
    /// Responds with an endless body.
    Endless,
    /// Responds with the head only, and keeps the connection open.
    HeadOnly,
    /// Reads, and never responds.
    Silent,
}

struct Gateway {
    address: String,
    manner: tokio::sync::watch::Sender<Manner>,
    accepted: UnboundedReceiver<()>,
    /// Header `Host` of requests.
    hosts: UnboundedReceiver<String>,
}

const OK: Manner = Manner::Answer("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n");
const FAILS: Manner = Manner::Answer("HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n");

const BY_PROXY: Manner = Manner::Answer(
    "HTTP/1.1 504 Gateway Timeout\r\nl5d-proxy-error: unavailable\r\ncontent-length: 0\r\n\r\n",
);

async fn gateway(manner: Manner) -> Gateway {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (manner, now) = tokio::sync::watch::channel(manner);
    let (accepts, accepted) = unbounded_channel();
    let (heard, hosts) = unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let _ = accepts.send(());
            let manner = *now.borrow();
            tokio::spawn(converse(stream, manner, heard.clone()));
        }
    });
    Gateway {
        address,
        manner,
        accepted,
        hosts,
    }
}

async fn converse(mut stream: TcpStream, manner: Manner, heard: UnboundedSender<String>) {
    let mut head = vec![0; 4096];
    let length = stream.read(&mut head).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&head[..length]).into_owned();
    if let Some(host) = text.lines().find_map(|line| line.strip_prefix("host: ")) {
        let _ = heard.send(host.to_owned());
    }
    // The target of a redirect.
    let manner = if head.starts_with(b"GET /ok ") {
        OK
    } else {
        manner
    };
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 100000000000\r\n\r\n";
    match manner {
        Manner::Answer(answer) => {
            let _ = stream.write_all(answer.as_bytes()).await;
        }
        Manner::Endless => {
            let _ = stream.write_all(ok.as_bytes()).await;
            while stream.write_all(&[b'x'; 8192]).await.is_ok() {}
        }
        Manner::HeadOnly => {
            let _ = stream.write_all(ok.as_bytes()).await;
            let _ = stream.read(&mut head).await;
        }
        Manner::Silent => {
            let _ = stream.read(&mut head).await;
        }
    }
}

struct Probing {
    address: watch::Sender<Option<String>>,
    reports: UnboundedReceiver<ProbeReport>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

fn probing(address: &str, limit: Duration) -> Probing {
    probing_as(Some(address), None, limit)
}

fn probing_as(address: Option<&str>, host: Option<&str>, limit: Duration) -> Probing {
    let (address, where_to) = watch::channel(address.map(str::to_owned));
    let (send, reports) = unbounded_channel();
    let stop = CancellationToken::new();
    let target = ProbeTarget {
        transport: Arc::new(Sockets),
        address: where_to,
        host: host.map(str::to_owned),
        path: "/ready".to_owned(),
    };
    let settings = Probe {
        path: "/ready".to_owned(),
        port: 0,
        period: Duration::from_millis(20),
        timeout: limit,
        threshold: 2,
    };
    let task = tokio::spawn({
        let stop = stop.clone();
        async move {
            let sink = move |report| {
                let _ = send.send(report);
            };
            run("east", target, &settings, sink, stop).await;
        }
    });
    Probing {
        address,
        reports,
        stop,
        task,
    }
}

impl Probing {
    async fn next(&mut self) -> ProbeReport {
        let report = timeout(DEADLINE, self.reports.recv()).await;
        report.expect("a report in time").expect("a worker")
    }

    async fn next_transition(&mut self) -> Liveness {
        loop {
            if let Transition(liveness) = self.next().await {
                return liveness;
            }
        }
    }

    /// The number of failures until the next transition, and the state after it.
    async fn failures_until_transition(&mut self) -> (usize, Liveness) {
        let mut failures = 0;
        loop {
            match self.next().await {
                Transition(liveness) => return (failures, liveness),
                Failed(_) => failures += 1,
                Latency(_) => {}
            }
        }
    }
}

#[tokio::test]
async fn only_status_200_is_alive_and_the_body_is_ignored() {
    let redirect = "HTTP/1.1 302 Found\r\nlocation: /ok\r\ncontent-length: 0\r\n\r\n";
    for (manner, liveness) in [
        (OK, Alive),
        (Manner::Endless, Alive),
        (Manner::HeadOnly, Alive),
        (FAILS, Dead),
        (Manner::Answer(redirect), Dead),
        (Manner::Answer("HTTP/1.1 204 No Content\r\n\r\n"), Dead),
        (Manner::Answer("SSH-2.0-OpenSSH_9.6\r\n"), Dead),
        (Manner::Answer(""), Dead),
    ] {
        let gateway = gateway(manner).await;
        let mut probing = probing(&gateway.address, DEADLINE);
        assert_eq!(probing.next_transition().await, liveness, "{manner:?}");
        if liveness == Alive {
            assert!(matches!(probing.next().await, Latency(_)), "{manner:?}");
            // The next probe starts although this response does not end.
            assert!(matches!(probing.next().await, Latency(_)), "{manner:?}");
        }
        probing.stop.cancel();
        timeout(DEADLINE, probing.task).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn gateway_that_times_out_or_fails_is_dead_and_failures_are_counted() {
    let silent = gateway(Manner::Silent).await;
    // A socket that is bound and does not listen refuses connections, and keeps its port from other tests.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let refusing = closed.local_addr().unwrap().to_string();
    for address in [silent.address.as_str(), &refusing, "no host:x"] {
        let mut probing = probing(address, Duration::from_millis(50));
        // The second failure is reported before the transition that it causes.
        let first = probing.failures_until_transition().await;
        assert_eq!(first, (2, Dead), "{address}");
        assert!(matches!(probing.next().await, Failed(_)), "{address}");
        probing.stop.cancel();
        timeout(DEADLINE, &mut probing.task).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn death_and_recovery_are_reported_once_each() {
    let gateway = gateway(OK).await;
    let mut probing = probing(&gateway.address, DEADLINE);
    assert_eq!(probing.next_transition().await, Alive);
    gateway.manner.send(FAILS).unwrap();
    assert_eq!(probing.next_transition().await, Dead);
    gateway.manner.send(OK).unwrap();
    assert_eq!(probing.next_transition().await, Alive);
    for _ in 0..3 {
        assert!(matches!(probing.next().await, Latency(_)));
    }
}

/// A gateway that has just come back does not become dead because the proxy is still in the backoff of a missing
/// endpoint.
#[tokio::test]
async fn unknown_gateway_is_not_dead_before_the_proxy_has_forgotten_it() {
    let mut gateway = gateway(BY_PROXY).await;
    let mut probing = probing(&gateway.address, DEADLINE);
    timeout(DEADLINE, gateway.accepted.recv()).await.unwrap();
    let asked = Instant::now();
    gateway.manner.send(OK).unwrap();
    assert_eq!(probing.failures_until_transition().await, (1, Alive));
    let rested = asked.elapsed() + Duration::from_millis(100);
    assert!(rested >= FORGOTTEN, "{rested:?}");
}

/// The proxy waits before it connects again, unless it has forgotten the Service; see [`FORGOTTEN`].
#[tokio::test]
async fn dead_gateway_behind_a_proxy_is_probed_when_the_proxy_has_forgotten_it() {
    let mut gateway = gateway(BY_PROXY).await;
    let mut probing = probing(&gateway.address, DEADLINE);
    assert_eq!(probing.next_transition().await, Dead);
    while gateway.accepted.try_recv().is_ok() {}
    let dead = Instant::now();
    gateway.manner.send(OK).unwrap();
    assert_eq!(probing.next_transition().await, Alive);
    let rested = dead.elapsed() + Duration::from_millis(100);
    assert!(rested >= FORGOTTEN, "{rested:?}");
    // From then on, it is probed at the normal period.
    let alive = Instant::now();
    for _ in 0..3 {
        assert!(matches!(probing.next().await, Latency(_)));
    }
    assert!(alive.elapsed() < FORGOTTEN, "{:?}", alive.elapsed());
}

#[tokio::test]
async fn every_probe_opens_a_connection_of_its_own() {
    let mut gateway = gateway(OK).await;
    let mut probing = probing(&gateway.address, DEADLINE);
    let mut probes = 0;
    while probes < 3 {
        probes += usize::from(matches!(probing.next().await, Latency(_)));
    }
    for _ in 0..probes {
        gateway.accepted.try_recv().expect("a connection a probe");
    }
}

#[tokio::test]
async fn stop_cancels_the_current_probe() {
    let mut gateway = gateway(Manner::Silent).await;
    let probing = probing(&gateway.address, Duration::from_secs(3600));
    timeout(DEADLINE, gateway.accepted.recv()).await.unwrap();
    probing.stop.cancel();
    timeout(DEADLINE, probing.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_header_host_names_the_service_and_the_connection_goes_to_its_address() {
    let service = "probe-east.linkerd-multicluster.svc:4191";
    let mut gateway = gateway(OK).await;
    let mut probing = probing_as(Some(&gateway.address), Some(service), DEADLINE);
    assert_eq!(probing.next().await, Transition(Alive));
    assert_eq!(gateway.hosts.recv().await.unwrap(), service);
    let mut direct = probing_as(Some(&gateway.address), None, DEADLINE);
    assert_eq!(direct.next().await, Transition(Alive));
    let mut hosts = vec![];
    while !hosts.contains(&gateway.address) {
        hosts.push(gateway.hosts.recv().await.unwrap());
    }
}

#[tokio::test]
async fn without_an_address_nothing_is_probed_and_a_new_one_is_followed() {
    let (first, mut second) = (gateway(OK).await, gateway(OK).await);
    let mut probing = probing_as(None, None, DEADLINE);
    for _ in 0..3 {
        tokio::task::yield_now().await;
        probing.reports.try_recv().unwrap_err();
    }
    probing.address.send(Some(first.address.clone())).unwrap();
    assert_eq!(probing.next().await, Transition(Alive));
    // While the Service does not exist, the liveness stays, and no probe fails.
    probing.address.send(None).unwrap();
    first.manner.send(Manner::Silent).unwrap();
    drop(first);
    probing.address.send(Some(second.address.clone())).unwrap();
    timeout(DEADLINE, second.accepted.recv()).await.unwrap();
    for _ in 0..3 {
        assert!(matches!(probing.next().await, Latency(_)));
    }
}

#[tokio::test]
async fn current_probe_is_cancelled_when_the_address_changes() {
    let (mut silent, gateway) = (gateway(Manner::Silent).await, gateway(OK).await);
    let mut probing = probing(&silent.address, Duration::from_secs(3600));
    timeout(DEADLINE, silent.accepted.recv()).await.unwrap();
    probing.address.send(Some(gateway.address.clone())).unwrap();
    assert_eq!(probing.next().await, Transition(Alive));
}

#[test]
fn failures_at_an_old_address_do_not_count() {
    let mut tracker = Tracker::default();
    assert_eq!(tracker.on_result(false, 2), None);
    tracker.on_new_address();
    assert_eq!(tracker.on_result(false, 2), None);
    assert_eq!(tracker.on_result(false, 2), Some(Dead));
}
