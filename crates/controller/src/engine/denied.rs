//! Keys with a write that the API server refused, for example because of a policy, a quota or a name.
//!
//! Those of a cluster in one namespace wait in one line, of which one key at a time is tried, with exponential backoff. Whenever a
//! try succeeds, two more follow. So the number of requests does not grow with the number of keys, and few tries fail.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use client::timing::{Backoff, jittered};
use mirror_core::mirror::Key;

/// Number of further keys of a line that are tried when one has succeeded.
const MORE: usize = 2;
/// Time until the first try. It doubles with each further try.
const FIRST: Duration = Duration::from_millis(100);
/// Maximum time between two tries of a key that waits alone. If `n` keys wait, one of the line is tried at least every
/// `LONGEST / n`, unless that is less than `SHORTEST`.
const LONGEST: Duration = Duration::from_secs(60);
/// Lower limit of `LONGEST / n`. With many keys, each of them waits for longer than `LONGEST`.
const SHORTEST: Duration = Duration::from_secs(1);
/// How long others wait for the end of a try: an API server may refuse a write only after a while. A try that takes
/// longer waits for something else.
const SLOW: Duration = Duration::from_secs(10);

/// The denied keys.
#[derive(Debug, Default)]
pub struct Denied {
    lines: BTreeMap<LineName, Line>,
}

/// What the keys of a line have in common: the namespace, and for mirrors the target cluster.
type LineName = (Box<str>, Box<str>);

/// The denied keys of a cluster in a namespace.
#[derive(Debug)]
struct Line {
    /// The place of each key in the order; `None` while it is tried.
    keys: BTreeMap<Key, Option<u64>>,
    /// The keys that wait. The first is tried next.
    order: BTreeMap<u64, Key>,
    /// The place that was given out last.
    last: u64,
    backoff: Backoff,
    /// When the next key is tried, unless one is being tried.
    next: Instant,
    /// When the last key was handed out.
    last_turn: Instant,
}

impl Denied {
    /// Records that a write of a key was not allowed.
    pub fn deny(&mut self, key: &Key, now: Instant) {
        let line = self.lines.entry(name(key));
        let line = line.or_insert_with(|| Line::new(now));
        line.wait(key);
        // Later tries are spaced already.
        if line.backoff.failures() == 0 {
            line.put_off(now);
        }
    }

    /// Whether the last write of a key was not allowed.
    pub fn has(&self, key: &Key) -> bool {
        let line = self.lines.get(&name(key));
        line.is_some_and(|line| line.keys.contains_key(key))
    }

    /// Records that nothing is left to write for a key. Returns the keys to try next, if it was denied before.
    pub fn succeeded(&mut self, key: &Key) -> Vec<Key> {
        let name = name(key);
        let Some(line) = self.lines.get_mut(&name) else {
            return Vec::new();
        };
        let Some(place) = line.keys.remove(key) else {
            return Vec::new();
        };
        if let Some(place) = place {
            line.order.remove(&place);
        }
        let next = (0..MORE).filter_map(|_| line.turn()).collect();
        if line.keys.is_empty() {
            self.lines.remove(&name);
        }
        next
    }

    /// The keys to try now.
    pub fn due(&mut self, now: Instant) -> Vec<Key> {
        let lines = self.lines.values_mut();
        let due = lines.filter(|line| line.next_due().is_some_and(|due| due <= now));
        due.filter_map(|line| {
            line.put_off(now);
            line.last_turn = now;
            line.turn()
        })
        .collect()
    }

    /// When the next key is due.
    pub fn next_due(&self) -> Option<Instant> {
        self.lines.values().filter_map(Line::next_due).min()
    }

    /// Makes one key of each line due now, because the cause of the refusals may be gone.
    pub fn hurry(&mut self, now: Instant) {
        for line in self.lines.values_mut() {
            line.next = now;
            line.backoff.reset();
        }
    }
}

impl Line {
    fn new(now: Instant) -> Self {
        Self {
            keys: BTreeMap::new(),
            order: BTreeMap::new(),
            last: 0,
            backoff: Backoff::new(FIRST, LONGEST),
            next: now,
            last_turn: now,
        }
    }

    /// Adds a key at the end, unless it waits already.
    fn wait(&mut self, key: &Key) {
        let place = self.keys.entry(key.clone()).or_default();
        if place.is_none() {
            self.last += 1;
            *place = Some(self.last);
            self.order.insert(self.last, key.clone());
        }
    }

    /// The next key to try. Does not check whether it is due, because the cause may be gone.
    fn turn(&mut self) -> Option<Key> {
        let (_, key) = self.order.pop_first()?;
        self.keys.insert(key.clone(), None);
        Some(key)
    }

    fn next_due(&self) -> Option<Instant> {
        let is_tried = self.order.len() < self.keys.len();
        let next = if is_tried {
            self.next.max(self.last_turn + SLOW)
        } else {
            self.next
        };
        (!self.order.is_empty()).then_some(next)
    }

    fn put_off(&mut self, now: Instant) {
        let count = u32::try_from(self.order.len()).unwrap_or(u32::MAX);
        let longest = (LONGEST / count.max(1)).max(SHORTEST);
        self.next = now + jittered(self.backoff.next_pause().min(longest));
    }
}

fn name(key: &Key) -> LineName {
    let (namespace, cluster) = match key {
        Key::Mirror {
            namespace, cluster, ..
        } => (namespace.as_str(), cluster.as_str()),
        Key::Federated { namespace, .. } => (namespace.as_str(), ""),
        Key::Gateway { .. } => ("", ""),
    };
    (namespace.into(), cluster.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Key {
        Key::mirror("east", "bulk", &format!("s-{number}"))
    }

    fn line_of(count: usize) -> Denied {
        let mut denied = Denied::default();
        for number in 0..count {
            denied.deny(&key(number), Instant::now());
        }
        denied
    }

    /// Tries the keys that are due for ten minutes, and denies them. Returns the tries.
    async fn tried(denied: &mut Denied) -> Vec<(Instant, Key)> {
        let end = Instant::now() + Duration::from_secs(600);
        let mut tries = Vec::new();
        while let Some(next) = denied.next_due().filter(|next| *next < end) {
            tokio::time::sleep_until(next).await;
            for key in denied.due(Instant::now()) {
                denied.deny(&key, Instant::now());
                tries.push((Instant::now(), key));
            }
        }
        tries
    }

    #[tokio::test(start_paused = true)]
    async fn many_denied_keys_cause_one_request_a_second_and_take_turns() {
        for (count, range) in [
            (1, 10..=20),
            (3, 28..=60),
            (60, 600..=810),
            (1_500, 600..=810),
        ] {
            let tries = tried(&mut line_of(count)).await;
            assert!(range.contains(&tries.len()), "{count}: {}", tries.len());
            let round = tries.iter().take(count).map(|(_, key)| key);
            let others: std::collections::BTreeSet<_> = round.collect();
            assert_eq!(others.len(), count.min(tries.len()), "{count}");
        }
        // The first tries follow soon.
        let tries = tried(&mut line_of(3)).await;
        assert!(tries[1].0 - tries[0].0 < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn when_one_succeeds_the_others_of_its_line_follow() {
        let mut denied = line_of(100);
        let others = [
            Key::mirror("east", "other", "x"),
            Key::mirror("north", "bulk", "x"),
            Key::federated("bulk", "x"),
        ];
        for other in &others {
            denied.deny(other, Instant::now());
        }
        let (mut open, mut rounds) = (vec![key(0)], 0);
        while !open.is_empty() {
            open = open.iter().flat_map(|key| denied.succeeded(key)).collect();
            rounds += 1;
        }
        assert!(rounds <= 9, "{rounds}");
        assert!((0..100).all(|number| !denied.has(&key(number))));
        assert!(others.iter().all(|other| denied.has(other)));
        assert_eq!(denied.succeeded(&key(0)), []);
    }

    #[tokio::test(start_paused = true)]
    async fn key_that_is_tried_for_long_delays_no_other() {
        let mut denied = line_of(2);
        tokio::time::sleep(SHORTEST).await;
        assert_eq!(denied.due(Instant::now()), [key(0)]);
        tokio::time::sleep(SHORTEST).await;
        assert_eq!(denied.due(Instant::now()), []);
        // Nothing is known of the first try yet.
        tokio::time::sleep(SLOW).await;
        assert_eq!(denied.due(Instant::now()), [key(1)]);
        assert_eq!(denied.next_due(), None);
        assert_eq!(denied.succeeded(&key(1)), []);
        assert!(denied.has(&key(0)));
    }
}
