//! Notices writes that are reverted, because an admission webhook or another controller changes the object back. No
//! I/O.
//!
//! Such a key would be written twice a second for ever. After some equal writes in a row, the pauses between them
//! double, and the key is reported.

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    mirror::{Key, Plan, Write},
    timing::Backoff,
};

/// After this many equal writes in a row, the next one waits.
const TIMES: u32 = 6;
/// How long the first of them waits; each further one waits twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Maximum time between two equal writes.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// Equal writes are in a row if the next one becomes necessary within this time after the end of the pause.
const IN_A_ROW: Duration = Duration::from_secs(20);

/// The recent writes of keys.
#[derive(Debug)]
pub(super) struct Repeats {
    written: BTreeMap<Key, Repeat>,
    tidied: Instant,
}

/// Equal writes of a key in a row.
#[derive(Debug)]
struct Repeat {
    /// What was written.
    content: u64,
    /// The number of equal writes.
    times: u32,
    /// The pauses before further ones.
    backoff: Backoff,
    /// Until when the next one waits.
    until: Instant,
}

impl Repeats {
    pub(super) fn new() -> Self {
        Self {
            written: BTreeMap::new(),
            tidied: Instant::now(),
        }
    }

    /// Until when this write waits, if it equals many that were reverted.
    pub(super) fn not_before(&self, key: &Key, content: u64) -> Option<Instant> {
        let last = self.written.get(key)?;
        (last.content == content && last.times >= TIMES).then_some(last.until)
    }

    /// Records a successful write. Returns whether so many equal writes came before that it will probably be reverted
    /// too.
    pub(super) fn wrote(&mut self, key: &Key, content: u64, now: Instant) -> bool {
        if now >= self.tidied + IN_A_ROW {
            self.tidied = now;
            self.written.retain(|_, last| now < last.until + IN_A_ROW);
        }
        let last = self.written.get(key);
        let last = last.filter(|last| last.content == content && now < last.until + IN_A_ROW);
        let times = last.map_or(1, |last| last.times.saturating_add(1));
        let backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
        let mut repeat = Repeat {
            content,
            times,
            backoff: last.map_or(backoff, |last| last.backoff),
            until: now,
        };
        let is_reverted = times >= TIMES;
        if is_reverted {
            repeat.until += repeat.backoff.next_pause();
        }
        self.written.insert(key.clone(), repeat);
        is_reverted
    }
}

/// What a plan writes, apart from the versions of the objects that it changes.
pub(super) fn content(plan: &Plan) -> u64 {
    let mut hasher = DefaultHasher::new();
    for write in &plan.writes {
        write.describe().hash(&mut hasher);
        if let Write::Patch(patch) = write {
            let mut body = patch.body.clone();
            body["metadata"]["resourceVersion"].take();
            body.to_string().hash(&mut hasher);
        }
    }
    hasher.finish()
}

/// The message for the report of a plan whose writes are reverted.
pub(super) fn message(plan: &Plan) -> String {
    let written = plan.writes.first().map(|write| {
        let (_, kind, namespace, name) = write.describe();
        format!("{kind} {namespace}/{name}")
    });
    let written = written.unwrap_or_else(|| "an object".to_owned());
    format!(
        "{written} is changed back after each write, by an admission webhook or another controller"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a key as often as allowed for this number of seconds. Returns the times in seconds.
    fn written(repeats: &mut Repeats, key: &Key, seconds: u64) -> Vec<u64> {
        let began = Instant::now();
        let (mut now, mut times) = (began, Vec::new());
        while now < began + Duration::from_secs(seconds) {
            if let Some(until) = repeats.not_before(key, 1).filter(|until| *until > now) {
                now = until;
                continue;
            }
            repeats.wrote(key, 1, now);
            times.push((now - began).as_secs());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn equal_writes_in_a_row_wait_twice_as_long_each_time_up_to_a_minute() {
        let key = Key::mirror("east", "ns", "a");
        let mut repeats = Repeats::new();
        assert_eq!(
            written(&mut repeats, &key, 250),
            [0, 0, 0, 0, 0, 0, 1, 3, 7, 15, 31, 63, 123, 183, 243]
        );
        // Another write does not wait, and ends the row.
        assert_eq!(repeats.not_before(&key, 2), None);
        repeats.wrote(&key, 2, Instant::now());
        assert_eq!(repeats.not_before(&key, 1), None);
    }

    #[tokio::test(start_paused = true)]
    async fn equal_writes_with_time_between_them_are_not_in_a_row() {
        let key = Key::mirror("east", "ns", "a");
        let (mut repeats, now) = (Repeats::new(), Instant::now());
        for number in 0..20 {
            let is_reverted = repeats.wrote(&key, 1, now + IN_A_ROW * number);
            assert!(!is_reverted, "{number}");
        }
        // Old keys are forgotten.
        let other = Key::mirror("east", "ns", "b");
        repeats.wrote(&other, 1, now + IN_A_ROW * 40);
        assert_eq!(repeats.written.len(), 1);
    }
}
