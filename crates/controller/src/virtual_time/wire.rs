//! Connections in memory that speak HTTP/2 to an API server, and that can become half-open.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::future::{BoxFuture, pending, ready};
use http::{Request, Uri};
use http_body_util::BodyExt as _;
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::{TokioExecutor, TokioIo},
};
use kube::client::Body;
use tokio::{
    io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf, copy_bidirectional, duplex},
    sync::watch,
};
use tower::{BoxError, Service};

use super::server::ApiServer;

/// Size of the buffers of a connection.
const BUFFER: usize = 1 << 16;

/// Opens connections to an API server. A clone is the same wire.
#[derive(Clone)]
pub struct Wire {
    server: ApiServer,
    /// The number of times that all connections became half-open.
    cuts: Arc<watch::Sender<u64>>,
}

impl Wire {
    pub fn to(server: &ApiServer) -> Self {
        Self {
            server: server.clone(),
            cuts: Arc::new(watch::Sender::new(0)),
        }
    }

    /// From now on, open connections transfer nothing, and neither end notices. New ones work.
    pub fn cut(&self) {
        self.cuts.send_modify(|cuts| *cuts += 1);
    }

    fn open(&self) -> DuplexStream {
        let (client, mut near) = duplex(BUFFER);
        let (mut far, server) = duplex(BUFFER);
        let mut cuts = self.cuts.subscribe();
        tokio::spawn(async move {
            tokio::select! {
                _ = copy_bidirectional(&mut near, &mut far) => {}
                _ = cuts.changed() => pending().await, // both ends stay open
            }
        });
        tokio::spawn(serve(self.server.clone(), server));
        client
    }
}

async fn serve(server: ApiServer, stream: DuplexStream) {
    let service = service_fn(move |request: Request<Incoming>| {
        let server = server.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map_err(io::Error::other)?;
            let body = Body::from(body.to_bytes().to_vec());
            let answer = server.answer(Request::from_parts(head, body)).await;
            let answer = answer.map_err(|error: BoxError| io::Error::other(error))?;
            let failed = |error: BoxError| io::Error::other(error);
            Ok::<_, io::Error>(answer.map(|body| body.map_err(failed).boxed_unsync()))
        }
    });
    let connection = http2::Builder::new(TokioExecutor::new());
    // Ends when the client closes it.
    let _ = connection
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Service<Uri> for Wire {
    type Response = TokioIo<Stream>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        Box::pin(ready(Ok(TokioIo::new(Stream(self.open())))))
    }
}

/// The client's end of a connection.
pub struct Stream(DuplexStream);

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new().negotiated_h2()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
