//! API servers that misbehave, and all commands that talk to one.

use std::{io, net::SocketAddr, time::Duration};

use futures::{StreamExt as _, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use super::program::{Limits, Place, SECRET, nothing};

/// Commands that take a timeout, with one that is short.
const TIMED: [&str; 7] = [
    "check --wait 0s --timeout 500ms",
    "check --wait 0s --timeout 500ms -o json",
    "gateways --wait 500ms",
    "plan x --request-timeout 500ms",
    "status --request-timeout 500ms",
    "status --services --all-contexts --request-timeout 500ms -o json",
    "status --wait 500ms --request-timeout 500ms",
];
/// All others that begin with a request. Their deadline is 30 s.
const OTHERS: [&str; 12] = [
    "allow --service-account-name x",
    "drain x",
    "hand-back",
    "install",
    "link --target x --source y",
    "link-gen --cluster-name x",
    "rotate --yes -o json",
    "rotate x",
    "drain x --end",
    "uninstall",
    "unlink x",
    "unlink x --apply --yes",
];

/// What a server does with each request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Conduct {
    /// Says nothing.
    Silent,
    /// The same, to a client that wants TLS.
    SilentTls,
    /// Sends the head a byte at a time.
    DripsHead,
    /// Sends the body a byte at a time.
    DripsBody,
    /// Sends half of the body, and waits.
    Stops,
    /// Sends half of the body, and closes the connection.
    CutsOff,
    /// Closes the connection.
    Closes,
    /// Sends this, and closes the connection.
    Says(&'static str),
    /// Answers with this status, headers and body.
    Answers(&'static str, &'static str, &'static str),
    /// Nests arrays too deep.
    Nested,
    /// Sends a header that is too long.
    LongHeader,
    /// Each page of a list has no objects, and is not the last.
    Endless,
}

use Conduct::{
    Answers, Closes, CutsOff, DripsBody, DripsHead, Endless, LongHeader, Nested, Says, Silent,
    SilentTls, Stops,
};

/// Servers that do not come to an end.
const SLOW: [Conduct; 5] = [Silent, SilentTls, DripsHead, DripsBody, Stops];
/// Servers that answer at once.
const QUICK: [Conduct; 17] = [
    CutsOff,
    Closes,
    Says("SSH-2.0-OpenSSH_9.9\r\n"),
    Says("\u{15}\u{3}\u{1}\0\u{2}\u{2}\u{16}"),
    Answers(
        "200 OK",
        "content-type: text/html",
        "<html><b>Log in</b></html>",
    ),
    Answers("200 OK", "", ""),
    Answers("200 OK", "", "null"),
    Answers(
        "200 OK",
        "",
        "{\"kind\": 7, \"items\": \"x\", \"metadata\": []}",
    ),
    Answers(
        "200 OK",
        "",
        "{\"items\": [null, {}, {\"metadata\": null}]}",
    ),
    Answers("302 Found", "location: http://127.0.0.1:1/", ""),
    Answers("401 Unauthorized", "", UNAUTHORIZED),
    Answers("403 Forbidden", "", FORBIDDEN),
    Answers("429 Too Many Requests", "retry-after: 4000000000", "wait"),
    Answers(
        "503 Service Unavailable",
        "retry-after: -1",
        "upstream connect error\u{1b}[2J",
    ),
    Nested,
    LongHeader,
    Endless,
];

const UNAUTHORIZED: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#;
const FORBIDDEN: &str = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"no\n\u001b[2J way\u202e","reason":"Forbidden","code":403}"#;

/// Starts a server, and returns its URL.
async fn serve(conduct: Conduct) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address: SocketAddr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(converse(stream, conduct));
        }
    });
    let scheme = if conduct == SilentTls {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{address}")
}

async fn converse(mut stream: TcpStream, conduct: Conduct) -> io::Result<()> {
    let mut request = vec![0; 64 << 10];
    let begins = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n";
    loop {
        if stream.read(&mut request).await? == 0 {
            return Ok(());
        }
        let whole = |body: &str| format!("{begins}content-length: {}\r\n\r\n{body}", body.len());
        let (says, drips, closes) = match conduct {
            Silent | SilentTls => (String::new(), "", false),
            DripsHead => (format!("{begins}x: "), "x", false),
            DripsBody => (
                format!("{begins}transfer-encoding: chunked\r\n\r\n"),
                "1\r\n \r\n",
                false,
            ),
            Stops | CutsOff => (
                format!("{begins}content-length: 99\r\n\r\n{{"),
                "",
                conduct == CutsOff,
            ),
            Closes => return Ok(()),
            Says(text) => (text.to_owned(), "", true),
            Answers(status, headers, body) => {
                let headers = if headers.is_empty() {
                    String::new()
                } else {
                    format!("{headers}\r\n")
                };
                let length = body.len();
                let text =
                    format!("HTTP/1.1 {status}\r\n{headers}content-length: {length}\r\n\r\n{body}");
                stream.write_all(text.as_bytes()).await?;
                continue;
            }
            Nested => {
                stream
                    .write_all(whole(&"[".repeat(100_000)).as_bytes())
                    .await?;
                continue;
            }
            LongHeader => (
                format!("{begins}x: {}\r\n\r\n", "x".repeat(1 << 20)),
                "",
                true,
            ),
            Endless => {
                let page =
                    r#"{"kind":"List","apiVersion":"v1","metadata":{"continue":"x"},"items":[]}"#;
                stream.write_all(whole(page).as_bytes()).await?;
                continue;
            }
        };
        stream.write_all(says.as_bytes()).await?;
        if closes {
            return Ok(());
        }
        // The client ends it, or the test.
        loop {
            stream.write_all(drips.as_bytes()).await?;
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A kubeconfig with two contexts of one server, and secrets.
fn kubeconfig(server: &str) -> String {
    let cluster = format!("server: '{server}', insecure-skip-tls-verify: true");
    format!(
        "apiVersion: v1
kind: Config
current-context: x
clusters: [{{name: x, cluster: {{{cluster}}}}}, {{name: y, cluster: {{{cluster}, tls-server-name: other}}}}]
contexts: [{{name: x, context: {{cluster: x, user: x}}}}, {{name: y, context: {{cluster: y, user: x}}}}]
users: [{{name: x, user: {{token: {SECRET}, client-key-data: ''}}}}]
"
    )
}

/// Runs each command with each server, some of them side by side. None of them can succeed.
async fn sweep(servers: &[Conduct], commands: &[&str], ends_within: Duration) -> Vec<String> {
    let mut runs = Vec::new();
    for conduct in servers {
        let server = serve(*conduct).await;
        let pairs = commands
            .iter()
            .map(|command| (*conduct, server.clone(), *command));
        runs.extend(pairs);
    }
    let found = stream::iter(runs).map(|(conduct, server, command)| async move {
        let place = Place::with(&kubeconfig(&server));
        let args: Vec<&str> = command.split(' ').collect();
        let limits = Limits {
            codes: &[1],
            ends_within,
        };
        let found = place.run(&args, &limits).await;
        let name: String = format!("{conduct:?}").chars().take(60).collect();
        found
            .into_iter()
            .map(move |what| format!("{name}: {what}"))
            .collect::<Vec<_>>()
    });
    found.buffer_unordered(8).concat().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_end_at_their_timeout_whatever_an_api_server_does() {
    // Longer than the timeouts, because a busy machine takes its time. Without deadlines they take minutes.
    nothing(&sweep(&SLOW, &TIMED, Duration::from_secs(8)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_make_no_sense_are_errors_of_every_command() {
    let all = [&TIMED[..], &OTHERS].concat();
    nothing(&sweep(&QUICK, &all, Duration::from_secs(20)).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: just test-all"]
async fn commands_without_a_timeout_end_too() {
    nothing(&sweep(&SLOW, &OTHERS, Duration::from_secs(70)).await);
}
