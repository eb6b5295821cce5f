//! Limits on the objects of a target cluster that are kept, and what is left out because of them.
//!
//! Objects that were kept before have priority over new ones, and the order of the list decides among the rest. An object
//! is left out if its watch has as many objects as it may have, or if its cost does not fit into the budget of its Link.

mod budget;
mod intake;
mod listing;

pub use self::{budget::Budget, intake::Limit};
use super::store::Grouped;
use crate::mirror::{key::Names, target::Target};

/// Maximum of what is kept for one target cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Services.
    pub services: usize,
    /// Bytes of labels and annotations of one Service. If a Service has more, none of them are copied.
    pub metadata: usize,
    /// Bytes of all Services and slices in memory, and of the endpoint mirrors of their hosts.
    pub bytes: usize,
    /// Bytes that a host of a headless Service counts in addition to its endpoint.
    pub host: usize,
}

impl Limits {
    /// About the memory that an endpoint mirror takes: a Service and a slice in the local cluster.
    pub const HOST: usize = 3 << 10;

    /// The limits for one target cluster: hosts have a cost only if its Link mirrors them with endpoint mirrors.
    #[must_use]
    pub fn of(self, target: &Target) -> Self {
        let host = if target.headless { self.host } else { 0 };
        Self { host, ..self }
    }

    /// The cost of an object in bytes.
    pub fn cost(&self, object: &impl Grouped) -> usize {
        object.weight() + self.host * object.hosts().len()
    }
}

/// Maximum number of Services that are left out, or whose slices are, whose names are kept.
pub(crate) const NAMED: usize = 10_000;

/// What a watch has left out because of its limit: Services, or slices by their Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    services: Names,
    /// Number of Services whose names are not kept.
    unnamed: usize,
    /// Whether any is left out because of its bytes.
    is_heavy: bool,
}

impl LeftOut {
    /// Adds one.
    pub fn add(&mut self, service: (String, String)) {
        if self.services.len() < NAMED || self.services.contains(&service) {
            self.services.insert(service);
        } else {
            self.unnamed += 1;
        }
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.services.is_empty() && self.unnamed == 0
    }

    /// Whether all names are known.
    pub fn is_complete(&self) -> bool {
        self.unnamed == 0
    }

    /// Whether this Service is known to be left out, by name.
    pub fn names(&self, service: &(String, String)) -> bool {
        self.services.contains(service)
    }

    /// The names that are known.
    pub fn services(&self) -> &Names {
        &self.services
    }

    /// Whether any is left out because of its bytes.
    pub fn is_heavy(&self) -> bool {
        self.is_heavy
    }

    /// Number of Services whose names are not known.
    pub fn unnamed(&self) -> usize {
        self.unnamed
    }

    /// Keeps only the names for which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&(String, String)) -> bool) {
        self.services.retain(keep);
    }

    /// Forgets the names, as if there were too many to keep.
    #[cfg(any(test, feature = "fixtures"))]
    pub(crate) fn forget_names(&mut self) {
        self.unnamed += std::mem::take(&mut self.services).len();
    }
}

#[cfg(test)]
mod tests;
