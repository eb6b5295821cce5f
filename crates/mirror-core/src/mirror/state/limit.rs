//! Limits on the objects of a target cluster that are kept, and what is left out because of them.

mod budget;
mod intake;
mod left_out;
mod listing;
mod room;

pub use self::{
    budget::Budget,
    intake::Limit,
    left_out::LeftOut,
    room::{Room, Weight},
};
use crate::mirror::target::Target;

/// Maximum of what is kept for one target cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Services.
    pub services: usize,
    /// Hosts of headless Services, each of which gets an endpoint mirror. A host with addresses of both families counts
    /// twice.
    pub hosts: usize,
    /// Bytes of labels and annotations of one Service. If a Service has more, none of them are copied.
    pub metadata: usize,
    /// Bytes of all Services and slices in memory.
    pub bytes: usize,
}

impl Limits {
    /// The limits for one target cluster: hosts are limited only if its Link mirrors them with endpoint mirrors.
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
