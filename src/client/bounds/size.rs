//! How large an answer may be, and how long it may take.

use std::time::Duration;

use super::meter::Meter;
use crate::mirror::Budget;

/// How long the body of an answer may be silent.
pub(super) const SILENCE: Duration = Duration::from_secs(30);
/// Size of what a watch brings, bytes, at most. After that it is opened again.
pub(super) const LARGEST_WATCH: usize = 64 << 20;
/// Size of one event of a watch, bytes, at most. etcd takes no object of more than 1.5 MiB.
pub(super) const LARGEST_EVENT: usize = 4 << 20;
/// So much of each answer comes in any case, bytes: some objects.
pub(super) const SMALL: usize = 64 << 10;
/// Bytes of one page that the controller takes: 500 objects of 16 KiB each, where a few are usual.
const LARGEST_PAGE: usize = 8 << 20;
/// Bytes of all pages that the controller takes at the same time, beyond the first [`SMALL`] of each.
const ALL_PAGES: usize = 32 << 20;
/// The longest that a page may take. One that does not come in this time is asked for again with fewer objects.
const LONGEST_PAGE: Duration = Duration::from_secs(60);
/// Bytes of one answer that a command takes: whole lists are among them.
const LARGEST_LIST: usize = 256 << 20;
/// The longest that a list may take.
const LONGEST_LIST: Duration = Duration::from_secs(600);

/// How large the answers to one client may be.
#[derive(Clone, Debug)]
pub struct Size {
    /// Bytes of one answer, at most, but for a watch.
    pub(super) largest: usize,
    /// The longest that it may take.
    pub(super) longest: Duration,
    /// Bytes of all answers that come at the same time.
    pub(super) all: Budget,
    /// How fast they may come, those of watches included; `None` for as fast as they do.
    pub(super) meter: Option<Meter>,
}

impl Size {
    /// For a process that runs for long. Its clients share what comes at the same time.
    pub fn of_pages() -> Self {
        Self {
            largest: LARGEST_PAGE,
            longest: LONGEST_PAGE,
            all: Budget::new(ALL_PAGES),
            meter: None,
        }
    }

    /// The same, of a server that may send only so fast.
    #[must_use]
    pub fn metered(self) -> Self {
        Self {
            meter: Some(Meter::new()),
            ..self
        }
    }

    /// For a command that ends soon.
    pub(in crate::client) fn of_lists() -> Self {
        Self {
            largest: LARGEST_LIST,
            longest: LONGEST_LIST,
            all: Budget::new(usize::MAX),
            meter: None,
        }
    }
}
