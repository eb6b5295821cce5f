//! Watches that pass through an [`Interceptor`](crate::Interceptor): the test sees each event, and decides what happens to
//! it.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::body::{Body, Bytes, Frame, Incoming};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::intercept::Asked;

/// What happens to an event of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passing {
    /// It is forwarded.
    On,
    /// It is forwarded after this time. Later events of the watch wait for it.
    Late(Duration),
    /// It is dropped, and its watch ends with an error.
    Lost,
}

/// Decides what happens to an event, a line of JSON, of a watch with this request.
pub(crate) type Look = Arc<dyn Fn(&Asked, &str) -> Passing + Send + Sync>;

/// The answer to a watch, an event at a time.
pub(crate) struct Events(mpsc::Receiver<Result<Bytes, Box<dyn Error + Send + Sync>>>);

impl Events {
    /// Forwards the response of the API server. `look` may be replaced meanwhile. Must be called in an async runtime.
    pub(crate) fn pass(asked: Asked, body: Incoming, look: Arc<Mutex<Look>>) -> Self {
        let (out, events) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                // The client has closed the connection.
                () = out.closed() => {}
                () = pump(&asked, body, &look, &out) => {}
            }
        });
        Self(events)
    }
}

async fn pump(
    asked: &Asked,
    mut body: Incoming,
    look: &Mutex<Look>,
    out: &mpsc::Sender<Result<Bytes, Box<dyn Error + Send + Sync>>>,
) {
    let mut unread = Vec::new();
    while let Some(frame) = body.frame().await {
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => {
                let _ = out.send(Err(error.into())).await;
                return;
            }
        };
        unread.extend_from_slice(&frame.into_data().unwrap_or_default());
        while let Some(end) = unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            let judge = Arc::clone(&look.lock().unwrap_or_else(PoisonError::into_inner));
            match judge(asked, &String::from_utf8_lossy(&line)) {
                Passing::On => {}
                Passing::Late(time) => sleep(time).await,
                Passing::Lost => {
                    let _ = out.send(Err("the watch was broken off".into())).await;
                    return;
                }
            }
            if out.send(Ok(line.into())).await.is_err() {
                return;
            }
        }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let event = self.0.poll_recv(context);
        event.map(|event| event.map(|event| event.map(Frame::data)))
    }
}
