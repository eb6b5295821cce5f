//! From the answers for one host name to the addresses to use. Pure, but for a log line when that fails.
//!
//! Every change rewrites the EndpointSlices of all mirrors of a Link, so an answer is not believed at once:
//! - A new address is used from the first answer that has it.
//! - An address is dropped when it was in none of the last few answers of its name. A name whose answers
//!   rotate through a larger set thus settles at the whole set. Where an address comes back that had been
//!   dropped, the rotation is longer than that, and the name is given twice as many answers, up to a limit.
//! - A failed lookup, or an empty answer, is no answer: the last good ones stay.
//!
//! The price: an address that is gone for good stays for two more lookups, a minute. Linkerd's proxy does
//! not send requests to an endpoint that it cannot connect to, so that costs little; endpoints that come
//! and go would cost every mirror a write each time.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
};

use crate::controller::trouble::Trouble;

/// Answers of a name that count, at first.
const ANSWERS: usize = 3;
/// Answers of a name that count, at most: ten minutes of a name that rotates.
const MAX_ANSWERS: usize = 20;
/// Addresses of a name, at most; an EndpointSlice holds 1,000 endpoints in all.
const MAX_ADDRESSES: usize = 100;

/// What is known of one name.
#[derive(Debug)]
pub(super) struct Name {
    /// The last good answers, oldest first.
    answers: VecDeque<BTreeSet<IpAddr>>,
    /// How many of them count.
    counts: usize,
    /// Addresses that were dropped.
    dropped: BTreeSet<IpAddr>,
    trouble: Trouble,
    error: String,
}

impl Name {
    pub(super) fn new(name: &str) -> Self {
        Self {
            answers: VecDeque::new(),
            counts: ANSWERS,
            dropped: BTreeSet::new(),
            trouble: Trouble::new(format!("resolve the gateway's host name {name}")),
            error: "not resolved yet".to_owned(),
        }
    }

    /// The addresses to use.
    pub(super) fn addresses(&self) -> BTreeSet<IpAddr> {
        let all: BTreeSet<_> = self.answers.iter().flatten().copied().collect();
        all.into_iter().take(MAX_ADDRESSES).collect()
    }

    /// Takes in a good answer, which is not empty.
    pub(super) fn answered(&mut self, answer: BTreeSet<IpAddr>) {
        self.trouble.clear();
        if !self.dropped.is_disjoint(&answer) {
            self.counts = (self.counts * 2).min(MAX_ANSWERS);
            self.dropped.clear();
        }
        let before = self.addresses();
        self.answers.push_back(answer);
        while self.answers.len() > self.counts {
            self.answers.pop_front();
        }
        let after = self.addresses();
        self.dropped.extend(before.difference(&after));
        // Addresses that a cloud never gives out again must not be kept for ever.
        while self.dropped.len() > MAX_ADDRESSES {
            self.dropped.pop_first();
        }
    }

    /// Takes in that a lookup failed.
    pub(super) fn failed(&mut self, reason: &str) {
        self.trouble.set(reason);
        reason.clone_into(&mut self.error);
    }

    /// Why the last lookup that failed did, or that there was none yet.
    pub(super) fn error(&self) -> &str {
        &self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    fn set(lasts: &[u8]) -> BTreeSet<IpAddr> {
        lasts.iter().copied().map(ip).collect()
    }

    #[test]
    fn answers_become_addresses_that_change_only_when_they_have_to() {
        // Each answer (empty: a failed lookup), and the addresses after it.
        type Step = (&'static [u8], &'static [u8]);
        let table: &[(&str, &[Step])] = &[
            (
                "a change: the new at once, the old after two more answers",
                &[(&[1], &[1]), (&[2], &[1, 2]), (&[2], &[1, 2]), (&[2], &[2])],
            ),
            (
                "failures change nothing, and do not age answers",
                &[
                    (&[], &[]),
                    (&[1], &[1]),
                    (&[], &[1]),
                    (&[], &[1]),
                    (&[], &[1]),
                    (&[2], &[1, 2]),
                ],
            ),
            (
                "a rotation through three settles at once",
                &[
                    (&[1], &[1]),
                    (&[2], &[1, 2]),
                    (&[3], &[1, 2, 3]),
                    (&[1], &[1, 2, 3]),
                    (&[2], &[1, 2, 3]),
                ],
            ),
            (
                "a longer rotation settles after one address came back",
                &[
                    (&[1], &[1]),
                    (&[2], &[1, 2]),
                    (&[3], &[1, 2, 3]),
                    (&[4], &[2, 3, 4]),
                    (&[1], &[1, 2, 3, 4]),
                    (&[2], &[1, 2, 3, 4]),
                    (&[3], &[1, 2, 3, 4]),
                    (&[4], &[1, 2, 3, 4]),
                    (&[1], &[1, 2, 3, 4]),
                ],
            ),
        ];
        for (what, steps) in table {
            let mut name = Name::new("gw");
            for (i, (answer, addresses)) in steps.iter().enumerate() {
                if answer.is_empty() {
                    name.failed("refused");
                } else {
                    name.answered(set(answer));
                }
                assert_eq!(name.addresses(), set(addresses), "{what}, step {i}");
            }
        }
    }

    #[test]
    fn a_name_that_draws_its_answers_from_many_addresses_settles() {
        let mut name = Name::new("gw");
        let mut changes_late = 0;
        for round in 0..200_u8 {
            let before = name.addresses();
            name.answered(set(&[round % 8, (round + 3) % 8]));
            if round >= 40 && name.addresses() != before {
                changes_late += 1;
            }
        }
        assert_eq!(changes_late, 0);
        assert_eq!(name.addresses().len(), 8);
    }

    #[test]
    fn what_is_kept_of_a_name_is_bounded() {
        let mut name = Name::new("gw");
        for round in 0..500_u32 {
            let answer =
                (0..50).map(|i| IpAddr::from((0x0a00_0000 + round * 50 + i).to_be_bytes()));
            name.answered(answer.collect());
        }
        assert!(name.addresses().len() <= MAX_ADDRESSES);
        assert!(name.answers.len() <= MAX_ANSWERS);
        assert!(name.dropped.len() <= MAX_ADDRESSES);
    }
}
