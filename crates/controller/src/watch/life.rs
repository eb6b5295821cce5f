//! How long a watch request has been open, and whether it had events.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    backoff::WatchBackoff,
    handler::{ConnectionStatus, EventHandler},
};

/// Maximum time without events: [`WATCH_SECONDS`](super::WATCH_SECONDS), and time for the end to arrive. A watch that is
/// silent for longer has ended, and its end was lost.
const SILENT: Duration = Duration::from_secs(295);
/// After this time a watch counts as connected, also without an event.
const SETTLED: Duration = Duration::from_secs(1);
/// A watch that stayed open for this time resets the backoff.
const LIVED: Duration = Duration::from_secs(10);

/// The history of one watch request.
pub struct Life {
    opened: Instant,
    last: Instant,
    /// Whether it counts as connected.
    pub settled: bool,
    /// Whether it had an event, or stayed open for [`LIVED`].
    lived: bool,
}

impl Life {
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            opened: now,
            last: now,
            settled: false,
            lived: false,
        }
    }

    pub fn was_long(&self) -> bool {
        self.opened.elapsed() >= LIVED
    }

    pub fn is_silent(&self) -> bool {
        self.last.elapsed() >= SILENT
    }

    /// When to check again, if no event arrives.
    pub fn next_sign(&self) -> Instant {
        if !self.settled {
            self.opened + SETTLED
        } else if !self.was_long() {
            self.opened + LIVED
        } else {
            self.last + SILENT
        }
    }

    /// Records an event or a bookmark.
    pub async fn shown<T>(
        &mut self,
        handler: &mut impl EventHandler<T>,
        backoff: &mut WatchBackoff,
    ) {
        self.last = Instant::now();
        self.lived = true;
        self.stayed(handler, backoff).await;
    }

    /// Updates the state by the time that the watch has been open.
    pub async fn stayed<T>(
        &mut self,
        handler: &mut impl EventHandler<T>,
        backoff: &mut WatchBackoff,
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
