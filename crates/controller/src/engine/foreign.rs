//! Names of desired Services that belong to somebody else. No watch reports when such a name becomes free, so the names
//! are looked up again and again: with backoff, a few at a time, and not all at the same moment.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use client::timing::Backoff;

/// Time until the first lookup. It doubles with each lookup that finds no change.
const FIRST: Duration = Duration::from_secs(60);
/// Maximum time between two lookups.
const LONGEST: Duration = Duration::from_secs(600);
const BACKOFF: Backoff = Backoff::new(FIRST, LONGEST);
/// Maximum number of concurrent lookups.
const AT_ONCE: usize = 4;

/// Namespace and name of a Service.
pub type Name = (String, String);

/// The schedule of lookups.
#[derive(Debug, Default)]
pub struct Lookups {
    names: BTreeMap<Name, Wait>,
    under_way: usize,
}

#[derive(Debug)]
struct Wait {
    /// When the lookup is due; `None` while it runs.
    at: Option<Instant>,
    backoff: Backoff,
}

impl Lookups {
    /// Schedules the first lookup of a name that belongs to somebody else.
    pub fn found(&mut self, name: Name, now: Instant) {
        if !self.names.contains_key(&name) {
            self.schedule(name, BACKOFF, now);
        }
    }

    /// Schedules the next lookup after one that found no change, or failed.
    pub fn found_again(&mut self, name: Name, now: Instant) {
        let backoff = self.names.get(&name).map_or(BACKOFF, |wait| wait.backoff);
        self.schedule(name, backoff, now);
    }

    /// Resets the backoff of a name, because something related to it has changed.
    pub fn changed(&mut self, namespace: &str, name: &str, now: Instant) {
        if self.names.is_empty() {
            return;
        }
        let name = (namespace.to_owned(), name.to_owned());
        if let Some(wait) = self.names.get(&name)
            && let Some(at) = wait.at
        {
            if at > now + FIRST {
                self.schedule(name, BACKOFF, now);
            } else if let Some(wait) = self.names.get_mut(&name) {
                // The next lookup is early enough. It counts as the first one.
                wait.backoff.reset();
                wait.backoff.next_pause();
            }
        }
    }

    /// Resets the backoff of all names in a namespace that has changed.
    pub fn namespace_changed(&mut self, namespace: &str, now: Instant) {
        let from = (namespace.to_owned(), String::new());
        let names = self.names.range(from..).map(|(name, _)| name);
        let names: Vec<Name> = names
            .take_while(|(of, _)| of == namespace)
            .cloned()
            .collect();
        for (namespace, name) in names {
            self.changed(&namespace, &name, now);
        }
    }

    /// Ends the lookups of a name.
    pub fn forget(&mut self, name: &Name) {
        self.names.remove(name);
    }

    /// When the next lookup is due, and of which name, if one may start.
    fn next_lookup(&self) -> Option<(Instant, &Name)> {
        let names = self.names.iter().filter(|_| self.under_way < AT_ONCE);
        let due = names.filter_map(|(name, wait)| Some((wait.at?, name)));
        due.min()
    }

    /// When the next lookup is due, if one may start.
    pub fn next_due(&self) -> Option<Instant> {
        self.next_lookup().map(|(at, _)| at)
    }

    /// The next name to look up. The caller has to call [`Self::looked_up`] when the lookup has ended.
    pub fn next(&mut self, now: Instant) -> Option<Name> {
        let (_, name) = self.next_lookup().filter(|(at, _)| *at <= now)?;
        let name = name.clone();
        self.names.get_mut(&name)?.at = None;
        self.under_way += 1;
        Some(name)
    }

    /// Records that a lookup has ended.
    pub fn looked_up(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    fn schedule(&mut self, name: Name, mut backoff: Backoff, now: Instant) {
        let at = Some(now + backoff.next_jittered());
        self.names.insert(name, Wait { at, backoff });
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn name(name: &str) -> Name {
        ("ns".to_owned(), name.to_owned())
    }

    /// Looks up the next name, and finds no change. Returns the time until that lookup.
    fn look_up(lookups: &mut Lookups, now: &mut Instant) -> Duration {
        let before = *now;
        *now = lookups.next_due().unwrap();
        let name = lookups.next(*now).unwrap();
        lookups.looked_up();
        lookups.found_again(name, *now);
        now.duration_since(before)
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_back_off_until_something_changes() {
        let (mut lookups, mut now) = (Lookups::default(), Instant::now());
        lookups.found(name("web"), now);
        let delays: Vec<_> = (0..6).map(|_| look_up(&mut lookups, &mut now)).collect();
        for (delay, longest) in delays.iter().zip([60, 120, 240, 480, 600, 600]) {
            let longest = Duration::from_secs(longest);
            assert!(*delay >= longest / 2 && *delay <= longest, "{delays:?}");
        }
        for changed in [true, false] {
            if changed {
                lookups.changed("ns", "web", now);
            } else {
                lookups.namespace_changed("ns", now);
            }
            assert!(look_up(&mut lookups, &mut now) <= FIRST);
            look_up(&mut lookups, &mut now);
            look_up(&mut lookups, &mut now);
        }
        // A change shortly before a lookup does not make the one after it a first one again.
        lookups.found(name("api"), now);
        lookups.changed("ns", "api", now);
        let at = lookups.names[&name("api")].at.unwrap();
        lookups.found_again(name("api"), at);
        let next = lookups.names[&name("api")].at.unwrap();
        assert!(next - at > FIRST, "{:?}", next - at);
        lookups.forget(&name("api"));
        lookups.changed("ns", "other", now);
        lookups.namespace_changed("n", now);
        assert!(look_up(&mut lookups, &mut now) > FIRST);
        lookups.forget(&name("web"));
        assert_eq!(lookups.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn lookups_of_many_names_are_spread_and_limited() {
        let (mut lookups, now) = (Lookups::default(), Instant::now());
        for number in 0..100 {
            lookups.found(name(&number.to_string()), now);
            lookups.found(name(&number.to_string()), now);
        }
        let times = lookups.names.values().filter_map(|wait| wait.at);
        let moments: BTreeSet<Instant> = times.collect();
        assert!(moments.len() > 90, "{}", moments.len());
        let late = now + FIRST;
        let begun = std::iter::from_fn(|| lookups.next(late)).count();
        assert_eq!((begun, lookups.next_due()), (AT_ONCE, None));
        lookups.looked_up();
        assert!(lookups.next(late).is_some());
        assert!(lookups.next(late).is_none());
    }
}
