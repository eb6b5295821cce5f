//! How long a watch request lives, and what it shows meanwhile.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    backoff::Backoff,
    handler::{ConnectionStatus, EventHandler},
};

/// A watch that is silent for longer has outlived its request: its end was lost.
const SILENT: Duration = Duration::from_secs(295);
/// A watch that was open for so long counts as connected, also without an event.
const SETTLED: Duration = Duration::from_secs(1);
/// A watch that was open for so long has lived: after it the backoff starts anew.
const LIVED: Duration = Duration::from_secs(10);

/// What one watch request has shown of itself.
pub(super) struct Life {
    opened: Instant,
    last: Instant,
    /// Whether it counts as connected.
    pub(super) settled: bool,
    /// Whether it showed an event, or stayed for [`LIVED`].
    lived: bool,
}

impl Life {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self {
            opened: now,
            last: now,
            settled: false,
            lived: false,
        }
    }

    pub(super) fn was_long(&self) -> bool {
        self.opened.elapsed() >= LIVED
    }

    pub(super) fn is_silent(&self) -> bool {
        self.last.elapsed() >= SILENT
    }

    /// When to look again, if no event comes.
    pub(super) fn next_sign(&self) -> Instant {
        if !self.settled {
            self.opened + SETTLED
        } else if !self.was_long() {
            self.opened + LIVED
        } else {
            self.last + SILENT
        }
    }

    /// An event or a bookmark came.
    pub(super) async fn shown<T>(
        &mut self,
        handler: &mut impl EventHandler<T>,
        backoff: &mut Backoff,
    ) {
        self.last = Instant::now();
        self.lived = true;
        self.stayed(handler, backoff).await;
    }

    /// It is open, for as long as it is.
    pub(super) async fn stayed<T>(
        &mut self,
        handler: &mut impl EventHandler<T>,
        backoff: &mut Backoff,
    ) {
        if !self.settled {
            self.settled = true;
            handler.on_connection(ConnectionStatus::Alive).await;
        }
        if self.was_long() {
            self.lived = true;
        }
        if self.lived {
            backoff.lived(self.was_long());
        }
    }
}
