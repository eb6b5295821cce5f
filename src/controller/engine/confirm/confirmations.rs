//! Which confirmations are asked for when, and which count.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::mirror::{Key, RemoteRef, Target};

/// Requests to one target cluster at once, at most.
const AT_ONCE: usize = 8;
/// A confirmation that is older is not used.
const RECENT: Duration = Duration::from_secs(30);

/// What is to be asked: a key, and one of the target clusters that it needs to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller::engine) struct Question {
    pub(in crate::controller::engine) key: Key,
    pub(in crate::controller::engine) remote: RemoteRef,
}

/// What a confirmation rests on. If it has changed, the confirmation says nothing.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::controller::engine) struct Basis {
    /// The session whose client asked: another may lead to another cluster.
    pub(super) session: u64,
    /// The Link, whose selectors say what is exported.
    pub(super) target: Target,
}

/// What a target cluster said.
#[derive(Debug)]
pub(in crate::controller::engine) enum Said {
    /// The Service is not exported.
    NotExported,
    /// It is: what is known of the cluster is old.
    Exported,
    /// Nothing that helps, and why.
    Nothing(String),
}

#[derive(Debug)]
enum Stage<B> {
    /// It waits for its turn, by this number.
    Waiting(u64, RemoteRef),
    /// The cluster is being asked.
    Asked,
    /// The cluster has confirmed it when it was asked at this time.
    Confirmed(Instant, B),
}

/// All confirmations that keys need: those that wait, are under way, or have come. `B` is what they rest on.
#[derive(Debug)]
pub(in crate::controller::engine) struct Confirmations<B = Basis> {
    keys: BTreeMap<Key, BTreeMap<String, Stage<B>>>,
    clusters: BTreeMap<String, Turns>,
    /// Clusters that something waits for and that may be asked more.
    ready: BTreeSet<String>,
    number: u64,
}

/// Who may ask one cluster next.
#[derive(Debug, Default)]
struct Turns {
    waiting: BTreeMap<u64, Key>,
    asked: usize,
}

impl<B> Default for Confirmations<B> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            clusters: BTreeMap::new(),
            ready: BTreeSet::new(),
            number: 0,
        }
    }
}

impl<B: PartialEq> Confirmations<B> {
    /// Whether all that a key needs is confirmed, with what confirmations rest on now. If so they are used up.
    /// Those that are old, that rest on something else, or that are not needed any more are forgotten.
    pub(in crate::controller::engine) fn take<'b>(
        &mut self,
        key: &Key,
        needed: &[RemoteRef],
        basis: impl for<'a> Fn(&'a str) -> Option<&'b B>,
        now: Instant,
    ) -> bool
    where
        B: 'b,
    {
        let states = self.keys.remove(key).unwrap_or_default();
        let (mut kept, mut confirmed) = (BTreeMap::new(), 0);
        for (cluster, state) in states {
            if !needed.iter().any(|remote| remote.cluster == cluster) {
                self.drop_turn(&cluster, &state);
                continue;
            }
            if let Stage::Confirmed(at, on) = &state {
                if now.duration_since(*at) > RECENT || basis(&cluster) != Some(on) {
                    continue;
                }
                confirmed += 1;
            }
            kept.insert(cluster, state);
        }
        let all = confirmed == needed.len();
        if !all && !kept.is_empty() {
            self.keys.insert(key.clone(), kept);
        }
        all
    }

    /// A key needs this; it is asked for, unless it is so already.
    pub(in crate::controller::engine) fn need(&mut self, key: &Key, needed: &[RemoteRef]) {
        let states = self.keys.entry(key.clone()).or_default();
        for remote in needed {
            if states.contains_key(&remote.cluster) {
                continue;
            }
            self.number += 1;
            let state = Stage::Waiting(self.number, remote.clone());
            states.insert(remote.cluster.clone(), state);
            let turns = self.clusters.entry(remote.cluster.clone()).or_default();
            turns.waiting.insert(self.number, key.clone());
            if turns.asked < AT_ONCE {
                self.ready.insert(remote.cluster.clone());
            }
        }
    }

    /// A key needs nothing any more.
    pub(in crate::controller::engine) fn forget(&mut self, key: &Key) {
        for (cluster, state) in self.keys.remove(key).unwrap_or_default() {
            self.drop_turn(&cluster, &state);
        }
    }

    /// The next question that may be asked. It has to be given back with [`Self::answered`].
    pub(in crate::controller::engine) fn next(&mut self) -> Option<Question> {
        let cluster = self.ready.first()?.clone();
        let turns = self.clusters.get_mut(&cluster)?;
        let (_, key) = turns.waiting.pop_first()?;
        turns.asked += 1;
        let state = self.keys.get_mut(&key)?.get_mut(&cluster)?;
        let Stage::Waiting(_, remote) = std::mem::replace(state, Stage::Asked) else {
            return None;
        };
        self.sort(&cluster);
        Some(Question { key, remote })
    }

    /// The end of a question, with what a confirmation rests on if it was confirmed, and when it was asked.
    /// Returns whether the key has all that it needs now.
    pub(in crate::controller::engine) fn answered(
        &mut self,
        question: &Question,
        confirmed: Option<(Instant, B)>,
    ) -> bool {
        let Question { key, remote } = question;
        if let Some(turns) = self.clusters.get_mut(&remote.cluster) {
            turns.asked = turns.asked.saturating_sub(1);
        }
        self.sort(&remote.cluster);
        // A key that was forgotten meanwhile, or has begun anew, takes no notice.
        let Some(states) = self.keys.get_mut(key) else {
            return false;
        };
        if !matches!(states.get(&remote.cluster), Some(Stage::Asked)) {
            return false;
        }
        let Some((at, basis)) = confirmed else {
            states.remove(&remote.cluster);
            if states.is_empty() {
                self.keys.remove(key);
            }
            return false;
        };
        let state = Stage::Confirmed(at, basis);
        states.insert(remote.cluster.clone(), state);
        let is_confirmed = |state: &Stage<B>| matches!(state, Stage::Confirmed(..));
        states.values().all(is_confirmed)
    }

    /// Keys that wait for a confirmation, or have one.
    pub(in crate::controller::engine) fn len(&self) -> usize {
        self.keys.len()
    }

    fn drop_turn(&mut self, cluster: &str, state: &Stage<B>) {
        if let (Stage::Waiting(number, _), Some(turns)) = (state, self.clusters.get_mut(cluster)) {
            turns.waiting.remove(number);
            self.sort(cluster);
        }
    }

    /// Sees to it that a cluster is among the ready ones if it is one, and forgotten if it has nothing to do.
    fn sort(&mut self, cluster: &str) {
        let Some(turns) = self.clusters.get(cluster) else {
            return;
        };
        if turns.waiting.is_empty() || turns.asked >= AT_ONCE {
            self.ready.remove(cluster);
        } else {
            self.ready.insert(cluster.to_owned());
        }
        if turns.waiting.is_empty() && turns.asked == 0 {
            self.clusters.remove(cluster);
        }
    }
}

#[cfg(test)]
mod tests;
