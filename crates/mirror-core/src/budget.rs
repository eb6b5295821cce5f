//! Budgets: how many bytes may be used for one target cluster, and for all together.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// A number of bytes that its users share. Bytes taken from a part count for the whole as well.
#[derive(Clone, Debug)]
pub struct Budget(Arc<SharedBytes>);

#[derive(Debug)]
struct SharedBytes {
    most: usize,
    taken: AtomicUsize,
    whole: Option<Budget>,
}

impl Budget {
    /// A budget of `most` bytes.
    pub fn new(most: usize) -> Self {
        Self::within(most, None)
    }

    /// A part of this budget, of at most `most` bytes.
    #[must_use]
    pub fn part(&self, most: usize) -> Self {
        Self::within(most, Some(self.clone()))
    }

    fn within(most: usize, whole: Option<Self>) -> Self {
        Self(Arc::new(SharedBytes {
            most,
            taken: AtomicUsize::new(0),
            whole,
        }))
    }

    /// Takes bytes, if that many are free. Returns whether they were.
    pub fn take(&self, bytes: usize) -> bool {
        let SharedBytes { most, taken, whole } = &*self.0;
        let more = |taken: usize| taken.checked_add(bytes).filter(|now| now <= most);
        if taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_err()
        {
            return false;
        }
        let is_there = whole.as_ref().is_none_or(|whole| whole.take(bytes));
        if !is_there {
            taken.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_there
    }

    /// Gives back what was taken.
    pub fn give_back(&self, bytes: usize) {
        self.0.taken.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(whole) = &self.0.whole {
            whole.give_back(bytes);
        }
    }

    /// Whether this number of bytes is free now.
    pub(crate) fn has(&self, bytes: usize) -> bool {
        let is_there = self.taken().checked_add(bytes);
        is_there.is_some_and(|taken| taken <= self.0.most)
            && self.0.whole.as_ref().is_none_or(|whole| whole.has(bytes))
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.0.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_from_the_whole_and_neither_exceeds_its_maximum() {
        let whole = Budget::new(10);
        let (a, b) = (whole.part(8), whole.part(8));
        assert!(a.take(8) && !a.take(1) && a.has(0) && !a.has(1));
        assert!(!b.has(3) && !b.take(3));
        assert_eq!((a.taken(), b.taken(), whole.taken()), (8, 0, 8));
        assert!(b.take(2) && whole.taken() == 10);
        a.give_back(8);
        assert_eq!((a.taken(), whole.taken()), (0, 2));
        assert!(b.has(6) && !b.has(7) && !b.take(usize::MAX));
        assert!(b.take(6) && b.taken() == 8);
    }
}
