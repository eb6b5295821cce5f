//! Budgets: how many bytes may be used for one target cluster, and for all together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A number of bytes that its users share. Bytes that a part uses count for the whole as well.
#[derive(Clone, Debug)]
pub struct Budget(Arc<SharedBytes>);

#[derive(Debug)]
struct SharedBytes {
    max: usize,
    used: AtomicUsize,
    whole: Option<Budget>,
}

impl Budget {
    /// A budget of `max` bytes.
    pub fn new(max: usize) -> Self {
        Self::within(max, None)
    }

    /// A part of this budget, of at most `max` bytes.
    #[must_use]
    pub fn part(&self, max: usize) -> Self {
        Self::within(max, Some(self.clone()))
    }

    fn within(max: usize, whole: Option<Self>) -> Self {
        Self(Arc::new(SharedBytes {
            max,
            used: AtomicUsize::new(0),
            whole,
        }))
    }

    /// Reserves bytes, if that many are free. Returns whether they were.
    pub fn try_reserve(&self, bytes: usize) -> bool {
        let SharedBytes { max, used, whole } = &*self.0;
        let more = |used: usize| used.checked_add(bytes).filter(|now| now <= max);
        if used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_err()
        {
            return false;
        }
        let is_free = whole.as_ref().is_none_or(|whole| whole.try_reserve(bytes));
        if !is_free {
            used.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_free
    }

    /// Releases what was reserved.
    pub fn release(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.0.whole {
            whole.release(bytes);
        }
    }

    /// Whether this number of bytes is free now.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        let used = self.used().checked_add(bytes);
        used.is_some_and(|used| used <= self.0.max)
            && self.0.whole.as_ref().is_none_or(|whole| whole.has(bytes))
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_from_the_whole_and_neither_exceeds_its_maximum() {
        let whole = Budget::new(10);
        let (a, b) = (whole.part(8), whole.part(8));
        assert!(a.try_reserve(8) && !a.try_reserve(1) && a.has(0) && !a.has(1));
        assert!(!b.has(3) && !b.try_reserve(3));
        assert_eq!((a.used(), b.used(), whole.used()), (8, 0, 8));
        assert!(b.try_reserve(2) && whole.used() == 10);
        a.release(8);
        assert_eq!((a.used(), whole.used()), (0, 2));
        assert!(b.has(6) && !b.has(7) && !b.try_reserve(usize::MAX));
        assert!(b.try_reserve(6) && b.used() == 8);
    }
}
