//! A server on loopback that answers the probes of all gateways. No gateway runs in the clusters, so the probes go to
//! this server.

use anyhow::Context as _;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
/// Maximum number of bytes that are read of a request. A probe is much shorter.
const REQUEST: usize = 4096;

/// Starts the server, which runs until the runtime ends. Returns its `host:port`.
pub(crate) async fn serve() -> anyhow::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")
        .await
        .context("failed to listen on loopback")?;
    let address = listener.local_addr()?.to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
    Ok(address)
}

/// Answers one request. An invalid or interrupted request gets no answer.
async fn answer(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") && request.len() < REQUEST {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    stream.write_all(ANSWER).await
}
