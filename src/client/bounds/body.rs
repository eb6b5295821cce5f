//! A response body that fails when it exceeds its limits.

use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::BoxError;

use super::{
    meter::Meter,
    size::{LARGEST_EVENT, LARGEST_WATCH, SILENCE, SMALL, Size},
};
use crate::budget::Budget;

/// A response that ended early or exceeded its limits. The server did respond.
#[derive(Debug)]
pub(in crate::client) struct BrokenAnswer(BoxError);

impl fmt::Display for BrokenAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for BrokenAnswer {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0)
    }
}

/// A response that exceeded a limit. A request for fewer objects may succeed.
#[derive(Clone, Copy, Debug)]
pub(in crate::client) enum TooMuch {
    /// The response is too large.
    Large,
    /// All responses that are being received are too large together.
    Together,
    /// It took longer than this.
    Long(Duration),
}

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Large => f.write_str("the response is too large"),
            Self::Together => {
                f.write_str("the responses that are being received are too large together")
            }
            Self::Long(limit) => {
                write!(f, "the response took longer than {} s", limit.as_secs_f32())
            }
        }
    }
}

impl StdError for TooMuch {}

/// Limits of a body.
pub(super) enum Bounds {
    /// For a body that ends, by this time.
    Whole(Size, Instant),
    /// For a watch, with the maximum time without data.
    Watch { silence: Option<Duration> },
}

/// A body that fails when it exceeds its limits.
pub(super) struct Bounded<B> {
    body: B,
    /// Remaining bytes.
    left: usize,
    silence: Option<(Duration, Pin<Box<Sleep>>)>,
    meter: Option<Meter>,
    /// Nothing is read until this ends.
    pause: Option<Pin<Box<Sleep>>>,
    kind: BodyKind,
}

enum BodyKind {
    Whole {
        end: (Duration, Pin<Box<Sleep>>),
        /// Remaining bytes that need no budget.
        small: usize,
        all: Budget,
        /// Bytes that were taken from the budget.
        taken: usize,
    },
    Watch {
        /// Bytes of the current event.
        event: usize,
    },
}

impl<B> Bounded<B> {
    pub(super) fn new(body: B, bounds: Bounds, meter: Option<Meter>) -> Self {
        let (left, silence, kind) = match bounds {
            Bounds::Whole(size, end) => {
                let kind = BodyKind::Whole {
                    end: (size.longest, Box::pin(sleep_until(end))),
                    small: SMALL,
                    all: size.all,
                    taken: 0,
                };
                (size.largest, Some(SILENCE), kind)
            }
            Bounds::Watch { silence } => (LARGEST_WATCH, silence, BodyKind::Watch { event: 0 }),
        };
        Self {
            body,
            left,
            silence: silence.map(|limit| (limit, Box::pin(sleep(limit)))),
            meter,
            pause: None,
            kind,
        }
    }

    /// Counts received data.
    fn count(&mut self, data: &[u8]) -> Result<(), TooMuch> {
        self.left = self.left.checked_sub(data.len()).ok_or(TooMuch::Large)?;
        match &mut self.kind {
            BodyKind::Whole {
                small, all, taken, ..
            } => {
                let free = data.len().min(*small);
                *small -= free;
                let more = data.len() - free;
                if !all.try_reserve(more) {
                    return Err(TooMuch::Together);
                }
                *taken += more;
            }
            BodyKind::Watch { event } => {
                // Each event is a line.
                let mut lines = data.rsplit(|byte| *byte == b'\n');
                let last = lines.next().map_or(0, <[u8]>::len);
                *event = if lines.next().is_some() {
                    last
                } else {
                    *event + last
                };
                if *event > LARGEST_EVENT {
                    return Err(TooMuch::Large);
                }
            }
        }
        Ok(())
    }
}

impl<B> Drop for Bounded<B> {
    fn drop(&mut self) {
        if let BodyKind::Whole { all, taken, .. } = &self.kind {
            all.release(*taken);
        }
    }
}

impl<B> Body for Bounded<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let BodyKind::Whole {
            end: (limit, end), ..
        } = &mut self.kind
            && end.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Some(Err(broken(TooMuch::Long(*limit)))));
        }
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            if let Some((limit, silence)) = &mut self.silence
                && silence.as_mut().poll(context).is_ready()
            {
                let what = format!("the response stalled: no data for {} s", limit.as_secs());
                return Poll::Ready(Some(Err(broken(what))));
            }
            return Poll::Pending;
        };
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(broken(error)))),
            None => return Poll::Ready(None),
        };
        if let Some(data) = frame.data_ref()
            && let Err(too_much) = self.count(data)
        {
            return Poll::Ready(Some(Err(broken(too_much))));
        }
        let came = frame.data_ref().map_or(0, Bytes::len);
        let pause = self.meter.as_ref().and_then(|meter| meter.pass(came));
        self.pause = pause.map(|pause| Box::pin(sleep(pause)));
        if let Some((limit, silence)) = &mut self.silence {
            // The pause does not count as silence.
            let until = Instant::now() + pause.unwrap_or_default() + *limit;
            silence.as_mut().reset(until);
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

fn broken(error: impl Into<BoxError>) -> BoxError {
    BrokenAnswer(error.into()).into()
}
