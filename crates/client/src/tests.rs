//! Requests of commands end at their deadline, whatever the server, a TLS peer or an exec plugin does, and are sent again
//! if the server asks for that.

mod sent;

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api,
    api::{ListParams, PostParams, WatchParams},
};
use mirror_core::api::route::RouteKind;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use super::{
    Access, TestBody, of_test_server,
    requests::{explain, served_version},
};

/// Deadline of the requests.
const DEADLINE: Duration = Duration::from_millis(300);
/// When they have to be over even on a busy machine.
const OVER: Duration = Duration::from_secs(6);

const HEAD: &str =
    "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";

/// What a server does with a connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Conduct {
    /// Says nothing at all.
    Silent,
    /// Sends the head one byte at a time.
    DripsHead,
    /// Sends the body one byte at a time.
    DripsBody,
    /// Sends half of the body.
    Stops,
    /// Asks to come back later, and drips the reason.
    ComeBack,
}

/// Starts a server on this thread's runtime.
async fn serve(conduct: Conduct) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, conduct));
        }
    });
    address
}

async fn answer(mut stream: TcpStream, conduct: Conduct) -> std::io::Result<()> {
    let (start, drops) = match conduct {
        Conduct::Silent | Conduct::Stops => ("", ""),
        Conduct::DripsHead => ("HTTP/1.1 200 OK\r\nx: ", "x"),
        Conduct::DripsBody => (HEAD, "1\r\n \r\n"),
        Conduct::ComeBack => (
            "HTTP/1.1 429 Wait\r\nretry-after: 60\r\ntransfer-encoding: chunked\r\n\r\n",
            "1\r\n \r\n",
        ),
    };
    let mut request = [0; 4096];
    let _ = stream.read(&mut request).await?;
    stream.write_all(start.as_bytes()).await?;
    if conduct == Conduct::Stops {
        stream
            .write_all(format!("{HEAD}1\r\n{{\r\n").as_bytes())
            .await?;
    }
    loop {
        stream.write_all(drops.as_bytes()).await?;
        sleep(DEADLINE / 6).await;
    }
}

fn access(folder: &Path, server: &str, user: &str) -> Access {
    let path = folder.join("kubeconfig");
    let text = format!(
        "current-context: east
contexts:
- {{name: east, context: {{cluster: east, user: me}}}}
clusters:
- {{name: east, cluster: {{server: '{server}', insecure-skip-tls-verify: true}}}}
users:
- {{name: me, user: {{{user}}}}}
"
    );
    std::fs::write(&path, text).unwrap();
    Access {
        kubeconfig: Some(path),
        ..Access::default()
    }
}

#[tokio::test]
async fn request_ends_at_its_deadline_whatever_the_server_does() {
    for (scheme, conduct) in [
        ("https", Conduct::Silent),
        ("http", Conduct::Silent),
        ("http", Conduct::DripsHead),
        ("http", Conduct::DripsBody),
        ("http", Conduct::Stops),
        ("http", Conduct::ComeBack),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let server = format!("{scheme}://{}", serve(conduct).await);
        let access = access(folder.path(), &server, "token: x");
        let api = Api::<Namespace>::all(access.client(DEADLINE).await.unwrap());
        let all = ListParams::default();
        let answer = timeout(OVER, api.list(&all)).await;
        let error = answer.unwrap_or_else(|_| panic!("{scheme} {conduct:?} does not end"));
        let error = explain(&error.unwrap_err());
        let expected = ["timed out", "took longer than 0.3 s", "retry after 60 s"];
        assert!(
            expected.iter().any(|text| error.contains(text)),
            "{scheme} {conduct:?}: {error}"
        );
    }
}

/// Reads a request with a JSON object.
async fn read_request(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut request = String::new();
    while !request.ends_with('}') {
        let mut part = [0; 4096];
        let count = stream.read(&mut part).await?;
        assert_ne!(count, 0, "{request}");
        request.push_str(&String::from_utf8_lossy(&part[..count]));
    }
    Ok(request)
}

#[tokio::test]
async fn command_sends_a_write_again_when_a_busy_server_asks_for_that() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let served = tokio::spawn(async move {
        let mut requests = Vec::new();
        for (status, body) in [
            ("429 Busy\r\nretry-after: 1", "storage is (re)initializing"),
            ("201 Created", r#"{"metadata":{"name":"shop"}}"#),
        ] {
            let (mut stream, _) = listener.accept().await?;
            requests.push(read_request(&mut stream).await?);
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).await?;
        }
        Ok::<_, std::io::Error>(requests)
    });
    let access = access(folder.path(), &server, "token: x");
    let api = Api::<Namespace>::all(access.client(Duration::from_secs(10)).await.unwrap());
    let shop: Namespace =
        serde_json::from_value(json!({ "metadata": { "name": "shop" } })).unwrap();
    let created = timeout(OVER, api.create(&PostParams::default(), &shop)).await;
    assert_eq!(
        created.unwrap().unwrap().metadata.name.as_deref(),
        Some("shop")
    );
    let requests = served.await.unwrap().unwrap();
    assert_eq!(requests[0], requests[1]);
}

#[tokio::test]
async fn exec_plugin_runs_once_and_ends_at_the_deadline() {
    for (script, expected, at_most) in [
        (
            r#"echo '{"apiVersion": "client.authentication.k8s.io/v1", "status": {"token": "t"}}'"#,
            None,
            OVER,
        ),
        (
            "exec sleep 8",
            Some("executable sh did not finish within 0.3 s"),
            OVER,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let script = format!("echo >> {}/runs; {}", folder.path().display(), script);
        let file = folder.path().join("plugin");
        std::fs::write(&file, script).unwrap();
        let user = format!(
            "exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [{}], interactiveMode: Never}}",
            file.display()
        );
        let access = access(folder.path(), "https://127.0.0.1:1", &user);
        let began = Instant::now();
        let client = access.client(DEADLINE).await;
        let error = client.err().map(|error| error.root_cause().to_string());
        let took = began.elapsed();
        assert!(took < at_most, "took {took:?}");
        let runs = std::fs::read_to_string(folder.path().join("runs")).unwrap();
        assert_eq!(runs.lines().count(), 1, "{error:?}");
        assert_eq!(error.as_deref(), expected);
    }
}

#[tokio::test]
async fn watch_goes_on_after_the_deadline_of_requests() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await?;
        let _ = stream.read(&mut [0; 4096]).await?;
        stream.write_all(HEAD.as_bytes()).await?;
        sleep(3 * DEADLINE).await;
        let object = r#"{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"late"}}"#;
        let event = format!("{{\"type\":\"ADDED\",\"object\":{object}}}\n");
        let chunk = format!("{:x}\r\n{event}\r\n", event.len());
        stream.write_all(chunk.as_bytes()).await?;
        sleep(OVER).await;
        Ok::<_, std::io::Error>(())
    });
    let access = access(folder.path(), &server, "token: x");
    let client = access.client(DEADLINE).await.unwrap();
    let namespaces = Api::<Namespace>::all(client);
    let watch = namespaces.watch(&WatchParams::default(), "0").await;
    let mut watch = std::pin::pin!(watch.unwrap());
    let event = timeout(OVER, watch.next()).await.unwrap();
    assert!(matches!(event, Some(Ok(kube::api::WatchEvent::Added(_)))));
}

#[tokio::test]
async fn routes_are_read_in_the_first_version_that_is_served() {
    for (served, expected) in [
        (&["v1", "v1alpha3", "v1alpha2"][..], Some("v1")),
        (&["v1alpha3", "v1alpha2"], Some("v1alpha3")),
        (&["v1alpha2"], Some("v1alpha2")),
        (&["v1beta9"], None),
    ] {
        let client = of_test_server(move |request| {
            let version = request.uri().path().rsplit('/').next();
            let has = version.is_some_and(|version| served.contains(&version));
            let (status, body) = if has {
                let kind = json!({ "name": "tlsroutes", "kind": "TLSRoute", "namespaced": true, "singularName": "", "verbs": [] });
                (200, json!({ "groupVersion": "", "resources": [kind] }))
            } else {
                (
                    404,
                    json!({ "kind": "Status", "status": "Failure", "code": 404, "message": "no", "reason": "NotFound" }),
                )
            };
            let frame = hyper::body::Frame::data(hyper::body::Bytes::from(body.to_string()));
            let body = TestBody::new(futures::stream::once(async { Ok(frame) }).boxed());
            let answer = http::Response::builder().status(status).body(body);
            async move { Ok(answer.unwrap()) }
        });
        let version = served_version(&client, RouteKind::Tls).await.unwrap();
        assert_eq!(version, expected, "{served:?}");
    }
}
