//! A response body that fails when it exceeds its limits.

use std::{
    error::Error as StdError,
    fmt,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use hyper::body::{Body, Bytes, Frame};
use mirror_core::budget::Budget;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::BoxError;

use super::limits::{IDLE_TIMEOUT, MAX_EVENT, MAX_WATCH, Meter, ResponseLimits, SMALL};

/// A response that ended early or exceeded its limits. The server did respond.
#[derive(Debug)]
pub struct BrokenResponse(BoxError);

impl fmt::Display for BrokenResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl StdError for BrokenResponse {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0)
    }
}

/// A response that exceeded a limit. A request for fewer objects may succeed.
#[derive(Clone, Copy, Debug)]
pub enum OverLimit {
    /// The response is too large.
    Large,
    /// All responses that are being received are too large together.
    Together,
    /// It took longer than this.
    Long(Duration),
}

impl fmt::Display for OverLimit {
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

impl StdError for OverLimit {}

/// A body that fails when it exceeds its limits.
pub struct BoundedBody<B> {
    body: B,
    /// Remaining bytes.
    left: usize,
    /// The maximum time without data, and when it is over.
    idle: Option<(Duration, Pin<Box<Sleep>>)>,
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
        budget: Budget,
        /// Bytes of the budget that are in use.
        used: usize,
    },
    Watch {
        /// Bytes of the current event.
        event: usize,
    },
}

impl<B> BoundedBody<B> {
    /// The body of a response that has to be complete at `end`.
    pub fn whole(body: B, end: Instant, limits: &ResponseLimits) -> Self {
        let kind = BodyKind::Whole {
            end: (limits.timeout, Box::pin(sleep_until(end))),
            small: SMALL,
            budget: limits.total.clone(),
            used: 0,
        };
        Self::new(body, limits.max_size, Some(IDLE_TIMEOUT), limits, kind)
    }

    /// The body of a watch.
    pub fn watch(body: B, idle_timeout: Option<Duration>, limits: &ResponseLimits) -> Self {
        let kind = BodyKind::Watch { event: 0 };
        Self::new(body, MAX_WATCH, idle_timeout, limits, kind)
    }

    fn new(
        body: B,
        left: usize,
        idle_timeout: Option<Duration>,
        limits: &ResponseLimits,
        kind: BodyKind,
    ) -> Self {
        Self {
            body,
            left,
            idle: idle_timeout.map(|limit| (limit, Box::pin(sleep(limit)))),
            meter: limits.meter.clone(),
            pause: None,
            kind,
        }
    }

    /// Counts received data.
    fn count(&mut self, data: &[u8]) -> Result<(), OverLimit> {
        self.left = self.left.checked_sub(data.len()).ok_or(OverLimit::Large)?;
        match &mut self.kind {
            BodyKind::Whole {
                small,
                budget,
                used,
                ..
            } => {
                let free = data.len().min(*small);
                *small -= free;
                let more = data.len() - free;
                if !budget.try_reserve(more) {
                    return Err(OverLimit::Together);
                }
                *used += more;
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
                if *event > MAX_EVENT {
                    return Err(OverLimit::Large);
                }
            }
        }
        Ok(())
    }
}

impl<B> Drop for BoundedBody<B> {
    fn drop(&mut self) {
        if let BodyKind::Whole { budget, used, .. } = &self.kind {
            budget.release(*used);
        }
    }
}

impl<B> Body for BoundedBody<B>
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
            return Poll::Ready(Some(Err(broken(OverLimit::Long(*limit)))));
        }
        if let Some(pause) = &mut self.pause {
            if pause.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.pause = None;
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            if let Some((limit, idle)) = &mut self.idle
                && idle.as_mut().poll(context).is_ready()
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
            && let Err(over_limit) = self.count(data)
        {
            return Poll::Ready(Some(Err(broken(over_limit))));
        }
        let received = frame.data_ref().map_or(0, Bytes::len);
        let pause = self.meter.as_ref().and_then(|meter| meter.pass(received));
        self.pause = pause.map(|pause| Box::pin(sleep(pause)));
        if let Some((limit, idle)) = &mut self.idle {
            // The pause does not count as idle time.
            let until = Instant::now() + pause.unwrap_or_default() + *limit;
            idle.as_mut().reset(until);
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

fn broken(error: impl Into<BoxError>) -> BoxError {
    BrokenResponse(error.into()).into()
}
