//! Target clusters that the controller reaches through a proxy.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, copy_bidirectional},
    net::{TcpListener, TcpStream},
};

use crate::support::{
    links::{condition_is, mirror_is, own_link, unlink},
    objects::{export, gone, namespace, web},
    planes::hub,
};

/// Namespace, Link and cluster of this test.
const NAME: &str = "proxied";

/// An HTTP proxy (RFC 9110, CONNECT). Returns its URL, and counts connections.
async fn proxy(connections: Arc<AtomicUsize>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            connections.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(connect(near));
        }
    });
    url
}

async fn connect(near: TcpStream) -> std::io::Result<()> {
    let mut near = BufReader::new(near);
    let mut line = String::new();
    near.read_line(&mut line).await?;
    let address = line
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next());
    let address = address.unwrap_or_default().to_owned();
    while line != "\r\n" {
        line.clear();
        near.read_line(&mut line).await?;
    }
    let mut far = TcpStream::connect(address).await?;
    near.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    copy_bidirectional(&mut near, &mut far).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread")]
async fn controller_takes_the_way_through_the_proxy_of_the_link() {
    let (east, west) = hub().await.pair();
    namespace(NAME, &[east, west]).await;
    export(east, NAME, &web("web", NAME)).await;
    let connections = Arc::<AtomicUsize>::default();
    let flag = format!("--proxy-url={}", proxy(connections.clone()).await);
    own_link(west, east, NAME, &[&flag]).await;
    mirror_is(west, NAME, NAME, "web", "Mirrored").await;
    assert!(
        connections.load(Ordering::Relaxed) > 0,
        "nobody connected to the proxy"
    );

    // No proxy listens at this address.
    own_link(west, east, NAME, &["--proxy-url=http://127.0.0.1:1"]).await;
    condition_is(west, NAME, "CredentialsValid", "False", "CredentialsFail").await;
    own_link(west, east, NAME, &["--proxy-url=none"]).await;
    condition_is(west, NAME, "CredentialsValid", "True", "Valid").await;
    unlink(west, NAME).await;
    gone(west, NAME, "web-proxied").await;
}
