//! Whether this replica may write, by the monotonic clock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

/// Has to be checked before each write.
#[derive(Clone, Debug)]
pub struct Fence(Option<Arc<Until>>);

#[derive(Debug)]
struct Until {
    base: Instant,
    /// Nanoseconds after `base` until which this replica may write. 0 once it is closed, which is permanent.
    nanos: AtomicU64,
}

impl Fence {
    /// A fence that always holds, for a controller that runs without leader election.
    pub fn always() -> Self {
        Self(None)
    }

    /// A fence that never holds, for a replica on standby.
    pub fn closed() -> Self {
        let (base, nanos) = (Instant::now(), AtomicU64::new(0));
        Self(Some(Arc::new(Until { base, nanos })))
    }

    /// Whether this replica may write now.
    pub fn holds(&self) -> bool {
        self.0.as_ref().is_none_or(|until| {
            let nanos = until.nanos.load(Ordering::SeqCst);
            nanos > 0 && Instant::now() < until.base + Duration::from_nanos(nanos)
        })
    }

    /// A fence that holds until `end`. It can be extended until it is closed.
    pub fn until(base: Instant, end: Instant) -> Self {
        let fence = Self(Some(Arc::new(Until {
            base,
            nanos: AtomicU64::new(1),
        })));
        fence.extend(end);
        fence
    }

    /// Makes it hold until `end`, unless it was closed.
    pub fn extend(&self, end: Instant) {
        if let Some(until) = &self.0 {
            let nanos = u64::try_from((end - until.base).as_nanos()).unwrap_or(u64::MAX);
            let _ = until
                .nanos
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
                    (now > 0).then_some(nanos)
                });
        }
    }

    /// Closes it permanently.
    pub fn close(&self) {
        if let Some(until) = &self.0 {
            until.nanos.store(0, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fence_ends_by_the_clock_and_never_reopens_once_closed() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let fence = Fence::until(now, now + 3 * second);
        let writer = fence.clone();
        tokio::time::advance(2 * second).await;
        assert!(writer.holds());
        fence.extend(now + 5 * second);
        tokio::time::advance(2 * second).await;
        assert!(writer.holds());
        // As in a process that was stopped: none of our tasks has run meanwhile.
        tokio::time::advance(second).await;
        assert!(!writer.holds());
        fence.extend(now + 60 * second);
        assert!(writer.holds());
        fence.close();
        fence.extend(now + 90 * second);
        assert!(!writer.holds());
        assert!(Fence::always().holds());
    }
}
