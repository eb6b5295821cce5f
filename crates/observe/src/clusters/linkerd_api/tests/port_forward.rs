//! The calls by a port-forward, through an API server that speaks the kubelet's protocol.

use std::{net::SocketAddr, sync::Arc};

use futures::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use kube::Config;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_tungstenite::{
    accept_hdr_async,
    tungstenite::{
        Message,
        handshake::server::{Request, Response},
    },
};

use super::{
    super::{LinkerdApi, LinkerdApiError},
    SOON, add, at, client,
    controller::{ControllerAnswers, serve},
    socket,
};
use crate::clusters::proxies::{PodProxy, ProxyError, Sample};

/// Sends `HTTP/1.1` responses for lists of Pods, and forwards to `target` as a kubelet does: channel 0 has the
/// data, channel 1 errors, and each begins with the port.
async fn api_server(target: Option<SocketAddr>, pods: serde_json::Value) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let pods = pods.to_string();
            tokio::spawn(async move {
                let mut begin = [0; 4096];
                let length = stream.peek(&mut begin).await.unwrap();
                let begin = String::from_utf8_lossy(&begin[..length]).into_owned();
                if begin.contains("/portforward?") {
                    forward(stream, target).await;
                } else {
                    list(stream, &pods).await;
                }
            });
        }
    });
    address
}

async fn list(mut stream: TcpStream, pods: &str) {
    let length = pods.len();
    let answer = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{pods}"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    // Until the client has read it.
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

async fn forward(stream: TcpStream, target: Option<SocketAddr>) {
    let mut port = 0_u16;
    #[expect(clippy::result_large_err, reason = "the type of the library")]
    let choose = |request: &Request, mut response: Response| {
        let (_, asked) = request.uri().query().unwrap().split_once("ports=").unwrap();
        port = asked.split('&').next().unwrap().parse().unwrap();
        let protocol = "v4.channel.k8s.io".parse().unwrap();
        response
            .headers_mut()
            .insert("sec-websocket-protocol", protocol);
        Ok(response)
    };
    let socket = accept_hdr_async(stream, choose).await.unwrap();
    let (mut to, mut from) = socket.split();
    for channel in [0, 1] {
        let [low, high] = port.to_le_bytes();
        let begin = Message::binary(vec![channel, low, high]);
        to.send(begin).await.unwrap();
    }
    let Some(target) = target else {
        let error = [&[1][..], b"connection refused"].concat();
        to.send(Message::binary(error)).await.unwrap();
        to.close().await.unwrap();
        while let Some(Ok(_)) = from.next().await {}
        return;
    };
    let (mut reader, mut writer) = TcpStream::connect(target).await.unwrap().into_split();
    let back = tokio::spawn(async move {
        let mut piece = vec![0; 4096];
        while let Ok(length @ 1..) = reader.read(&mut piece[1..]).await {
            let piece = piece[..=length].to_vec();
            if to.send(Message::binary(piece)).await.is_err() {
                break;
            }
        }
    });
    while let Some(Ok(message)) = from.next().await {
        let data = message.into_data();
        if data.first() == Some(&0) {
            writer.write_all(&data[1..]).await.unwrap();
        }
    }
    back.abort();
}

async fn through(target: Option<SocketAddr>, ready: &str) -> Result<LinkerdApi, LinkerdApiError> {
    let pod = json!({
        "metadata": { "name": "linkerd-destination-1", "namespace": "linkerd" },
        "status": { "conditions": [{ "type": "Ready", "status": ready }] },
    });
    let mut other = pod.clone();
    other["metadata"]["name"] = json!("linkerd-destination-2");
    let items = [pod, other];
    let pods = json!({ "apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items });
    let address = api_server(target, pods).await;
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let client = client::build(config, SOON).await.unwrap();
    let mut all = LinkerdApi::in_cluster(&client, "linkerd", SOON).await?;
    let names: Vec<&str> = all.iter().map(LinkerdApi::pod).collect();
    assert_eq!(names, ["linkerd-destination-1", "linkerd-destination-2"]);
    Ok(all.remove(0))
}

#[tokio::test]
async fn controllers_are_asked_by_a_port_forward() {
    let answers = Arc::new(ControllerAnswers {
        updates: vec![add(vec![at(1)], &[])],
        ..ControllerAnswers::default()
    });
    let controller = serve(answers).await;
    let api = through(Some(controller), "True").await.unwrap();
    for _ in 0..2 {
        let found = api.endpoints(&client(), "web:80").await.unwrap();
        assert_eq!(found.unwrap()[0].address, socket(1, 8080));
    }
}

#[tokio::test]
async fn port_forward_that_fails_says_why() {
    let api = through(None, "True").await.unwrap();
    let error = api.endpoints(&client(), "web:80").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot connect to port 8086 of Pod linkerd-destination-1: connection refused"
    );
    let error = through(None, "False").await.err();
    assert_eq!(error, Some(LinkerdApiError::NoController("linkerd".into())));
}

#[tokio::test]
async fn metrics_of_a_proxy_are_read_from_loopback_in_its_pod() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap();
    tokio::spawn(async move {
        for status in ["200 OK", "403 Forbidden"] {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = [0; 1024];
            let length = stream.read(&mut asked).await.unwrap();
            assert!(asked[..length].starts_with(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n"));
            let answer =
                format!("HTTP/1.1 {status}\r\ncontent-length: 12\r\n\r\na{{}} 1\nb{{}} 2\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let pod = json!({
        "metadata": { "name": "linkerd-gateway-0", "namespace": "mc" },
        "spec": { "containers": [{ "name": "linkerd-proxy" }] },
        "status": { "phase": "Running" },
    });
    let pod = PodProxy::of(&serde_json::from_value(pod).unwrap()).unwrap();
    let read = async |target| {
        let address = api_server(target, json!({})).await;
        let config = Config::new(format!("http://{address}").parse().unwrap());
        let client = client::build(config, SOON).await.unwrap();
        let mut values = Vec::new();
        let each = |line: &Sample<'_>| values.push(line.value);
        let read = pod.forwarded_metrics(&client, &["b"], SOON, each).await;
        read.map(|()| values)
    };
    assert_eq!(read(Some(proxy)).await, Ok(vec![2.0]));
    let refused = ProxyError::Status(StatusCode::FORBIDDEN);
    assert_eq!(read(Some(proxy)).await, Err(refused));
    let error = read(None).await.unwrap_err();
    assert!(matches!(error, ProxyError::Unanswered(_)), "{error}");
}
