//! Responses of an [`Interceptor`](crate::Interceptor) whose bodies a test makes up, piece by piece: lists and watches of
//! servers that do not exist.

use std::error::Error;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame};
use tokio::sync::mpsc;

/// A body that comes in pieces.
#[derive(Clone, Debug)]
pub struct Pieces(Arc<Mutex<mpsc::Receiver<Bytes>>>);

impl Pieces {
    /// A body, and the sender of its pieces, which waits for the reader. The body ends when the sender is dropped. Sending
    /// fails when nobody reads any more.
    pub fn channel() -> (mpsc::Sender<Bytes>, Self) {
        let (sender, pieces) = mpsc::channel(1);
        (sender, Self(Arc::new(Mutex::new(pieces))))
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let mut pieces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let piece = pieces.poll_recv(context);
        piece.map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}
