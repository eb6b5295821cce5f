//! Limits of the size and duration of responses.

use std::time::Duration;

use super::meter::Meter;
use crate::budget::Budget;

/// Maximum time without data in a response body.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// Maximum size of a watch, in bytes. Then it is opened again.
pub(super) const LARGEST_WATCH: usize = 64 << 20;
/// Maximum size of one event of a watch, in bytes. etcd accepts objects of up to 1.5 MiB.
pub(super) const LARGEST_EVENT: usize = 4 << 20;
/// Bytes of each response that need no budget: some objects.
pub(super) const SMALL: usize = 64 << 10;
/// Maximum size of a page for the controller, in bytes: 500 objects of 16 KiB; most are much smaller.
const LARGEST_PAGE: usize = 8 << 20;
/// Maximum size of all pages of target clusters that the controller receives at the same time, without the first
/// [`SMALL`] of each. A Link may have one page of the largest size, so that it cannot take the room of all others.
const ALL_PAGES: usize = 32 << 20;
/// Timeout for the head of a response to the controller.
const HEAD: Duration = Duration::from_secs(30);
/// Maximum duration of a request for a page. After that, fewer objects are requested.
const LONGEST_PAGE: Duration = Duration::from_secs(60);
/// Maximum size of a response for a command, which may be a whole list, in bytes.
const LARGEST_LIST: usize = 256 << 20;

/// Limits of the responses to one client.
#[derive(Clone, Debug)]
pub struct Size {
    /// Maximum size of one response in bytes, except watches.
    pub(super) largest: usize,
    /// Timeout for its head, also of a watch.
    pub(super) head: Duration,
    /// Maximum duration of a request, from the connection to the last byte, except watches.
    pub(super) longest: Duration,
    /// Budget for all responses that are received at the same time.
    pub(super) all: Budget,
    /// Limit of the data rate, including watches; `None` for no limit.
    pub(super) meter: Option<Meter>,
}

impl Size {
    /// For a long-running process. Its clients share the budget.
    pub fn of_pages() -> Self {
        Self {
            largest: LARGEST_PAGE,
            head: HEAD,
            longest: LONGEST_PAGE,
            all: Budget::new(ALL_PAGES),
            meter: None,
        }
    }

    /// The same for the clients of a Link: a part of the budget, and a limited data rate.
    #[must_use]
    pub fn of_link(&self) -> Self {
        Self {
            all: self.all.part(LARGEST_PAGE),
            meter: Some(Meter::new()),
            ..self.clone()
        }
    }

    /// The same for the local cluster: without a budget, because it is trusted, and target clusters must not delay it.
    #[must_use]
    pub fn of_local(&self) -> Self {
        Self {
            all: Budget::new(usize::MAX),
            ..self.clone()
        }
    }

    /// For a one-shot command, whose requests end within `deadline`.
    pub(in crate::client) fn of_lists(deadline: Duration) -> Self {
        Self {
            largest: LARGEST_LIST,
            head: deadline,
            longest: deadline,
            all: Budget::new(usize::MAX),
            meter: None,
        }
    }
}
