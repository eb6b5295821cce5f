//! Limits on what is taken in of a target cluster, and what is left out because of them.

mod budget;
mod intake;
mod left_out;
mod listing;
mod room;

pub use self::{
    budget::Budget,
    intake::Limit,
    left_out::LeftOut,
    listing::Listing,
    room::{Room, Weight},
};
use crate::mirror::target::Target;

/// What is taken in of one target cluster, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Services.
    pub services: usize,
    /// Hosts of headless Services, each of which gets an endpoint mirror. One with addresses of both families counts
    /// twice.
    pub hosts: usize,
    /// Bytes of labels and annotations of one Service: of one that has more, none are copied.
    pub metadata: usize,
    /// Bytes of all Services and slices in memory.
    pub bytes: usize,
}

impl Limits {
    /// As they are for one target cluster: hosts count where each gets an endpoint mirror.
    #[must_use]
    pub fn of(self, target: &Target) -> Self {
        let hosts = if target.headless {
            self.hosts
        } else {
            usize::MAX
        };
        Self { hosts, ..self }
    }
}

#[cfg(test)]
mod tests;
