//! A TCP proxy in front of an API server. It counts the bytes that the server sends, and can delay them.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// The proxy. It ends when this is dropped.
#[derive(Debug)]
pub struct Counted {
    address: SocketAddr,
    received: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Counted {
    /// Starts a proxy to the server at this URL. It waits for `delay` before it passes on what one read returned, which
    /// is at most 64 KiB. So a large response takes several delays.
    pub async fn start(url: &str, delay: Duration) -> Self {
        let server = url.trim_start_matches("https://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let received = Arc::<AtomicU64>::default();
        let count = received.clone();
        let task = tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let Ok(far) = TcpStream::connect(&server).await else {
                    continue;
                };
                tokio::spawn(lead(near, far, delay, count.clone()));
            }
        });
        Self {
            address,
            received,
            task,
        }
    }

    /// The URL of the proxy, to use in place of that of the server.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Bytes that the server has sent so far, as TLS encrypts them.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

async fn lead(near: TcpStream, far: TcpStream, delay: Duration, count: Arc<AtomicU64>) {
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let there = async move {
        let _ = copy(&mut from_near, &mut to_far).await;
    };
    let back = async move {
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(length @ 1..) = from_far.read(&mut buffer).await {
            count.fetch_add(length as u64, Ordering::Relaxed);
            tokio::time::sleep(delay).await;
            if to_near.write_all(&buffer[..length]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! { () = there => {}, () = back => {} }
}
