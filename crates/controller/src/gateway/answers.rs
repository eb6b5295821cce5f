//! Selects the addresses to use from the DNS answers for one host name. Pure, except for log lines about failures.
//!
//! Every change rewrites the EndpointSlices of all mirrors of a Link. So an answer is not applied as it is:
//! - A new address is used from the first answer that has it.
//! - An address is dropped when it was in none of the last few answers for its name. So a name whose answers rotate
//!   through a larger set settles at the whole set. If a dropped address comes back, the rotation is longer than these
//!   answers. Then twice as many answers are considered for the name, up to a limit.
//! - A failed lookup or an empty answer is ignored: the last good answers stay.
//! - After a restart, or when the Link was edited, the addresses that were known before count as an old answer.
//!
//! The disadvantage: an address that was removed stays in use for two more lookups, a minute. For a name with a long
//! rotation it is up to ten minutes. That does little harm, because Linkerd's proxy sends no requests to an endpoint
//! that it cannot connect to. Without this, each change of a rotating answer would cause a write for every mirror.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
};

use crate::trouble::Trouble;

/// Initial number of answers that are considered for a name.
const ANSWERS: usize = 3;
/// Maximum number of answers that are considered for a name: ten minutes.
const MAX_ANSWERS: usize = 20;
/// Maximum number of addresses of a name. An EndpointSlice holds 1,000 endpoints.
const MAX_ADDRESSES: usize = 100;

/// The state of one name.
#[derive(Debug)]
pub struct ResolvedName {
    /// The last good answers, oldest first.
    answers: VecDeque<BTreeSet<IpAddr>>,
    /// How many of them are considered.
    counts: usize,
    /// Addresses that were dropped.
    dropped: BTreeSet<IpAddr>,
    trouble: Trouble,
    error: String,
}

impl ResolvedName {
    pub fn new(name: &str) -> Self {
        Self {
            answers: VecDeque::new(),
            counts: ANSWERS,
            dropped: BTreeSet::new(),
            trouble: Trouble::new(format!("resolve the gateway's host name {name}")),
            error: "not resolved yet".to_owned(),
        }
    }

    /// The addresses to use.
    pub fn addresses(&self) -> BTreeSet<IpAddr> {
        let all: BTreeSet<_> = self.answers.iter().flatten().copied().collect();
        all.into_iter().take(MAX_ADDRESSES).collect()
    }

    /// Whether there were enough answers to drop addresses that none of them had.
    pub fn is_settled(&self) -> bool {
        self.answers.len() >= ANSWERS
    }

    /// Records a good answer, which is not empty.
    pub fn answered(&mut self, answer: BTreeSet<IpAddr>) {
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
        // Addresses that are never used again must not be kept forever.
        while self.dropped.len() > MAX_ADDRESSES {
            self.dropped.pop_first();
        }
    }

    /// Records that a lookup failed.
    pub fn failed(&mut self, reason: &str) {
        self.trouble.set(reason);
        reason.clone_into(&mut self.error);
    }

    /// The reason of the last failure, or that there was no lookup yet.
    pub fn error(&self) -> &str {
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
    fn addresses_follow_answers_but_stay_stable_in_a_rotation() {
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
            let mut name = ResolvedName::new("gw");
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
    fn name_with_random_answers_from_many_addresses_settles() {
        let mut name = ResolvedName::new("gw");
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
    fn memory_of_a_name_is_bounded() {
        let mut name = ResolvedName::new("gw");
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
