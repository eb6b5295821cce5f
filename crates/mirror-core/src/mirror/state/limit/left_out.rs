//! What is left out because of a limit.

use super::room::Lacks;
use crate::mirror::key::Names;

/// Maximum number of Services that are left out, or whose slices are, whose names are kept.
pub(crate) const NAMED: usize = 10_000;

/// What a watch has left out because of its limit: Services, or slices by their Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    services: Names,
    /// Number of Services whose names are not kept.
    unnamed: usize,
    pub(crate) lacks: Lacks<bool>,
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
        self.lacks.bytes
    }

    /// Whether any is left out because of its hosts.
    pub fn has_hosts(&self) -> bool {
        self.lacks.hosts
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
