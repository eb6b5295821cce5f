//! When confirmations are requested, and which of them are valid.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use crate::mirror::{Key, RemoteRef, Target};

/// Maximum number of concurrent requests to one target cluster.
const AT_ONCE: usize = 8;
/// Maximum age of a confirmation.
const RECENT: Duration = Duration::from_secs(30);

/// A question to a target cluster: a key, and a Service whose absence the cluster has to confirm for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::controller::engine) struct Question {
    pub(in crate::controller::engine) key: Key,
    pub(in crate::controller::engine) remote: RemoteRef,
}

/// The basis of a confirmation. If it has changed, the confirmation is not valid.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::controller::engine) struct Basis {
    /// The session whose client was used: another session may lead to another cluster.
    pub(super) session: u64,
    /// The Link, whose selectors say what is exported.
    pub(super) target: Target,
}

/// The answer of a target cluster.
#[derive(Debug)]
pub(in crate::controller::engine) enum Said {
    /// The Service is not exported.
    NotExported,
    /// The Service is exported: the state of the cluster is outdated.
    Exported,
    /// The question was not answered, for this reason.
    Nothing(String),
}

#[derive(Debug)]
enum Stage<B> {
    /// The question waits for its turn, which this number determines.
    Waiting(u64, RemoteRef),
    /// The cluster is being asked.
    Asked,
    /// The cluster has confirmed it. Holds the time of the request, and the basis.
    Confirmed(Instant, B),
}

/// All confirmations that keys need: waiting, requested, or received. `B` is their basis.
#[derive(Debug)]
pub(in crate::controller::engine) struct Confirmations<B = Basis> {
    keys: BTreeMap<Key, BTreeMap<String, Stage<B>>>,
    clusters: BTreeMap<String, Turns>,
    /// Clusters with waiting questions that are below the limit of requests.
    ready: BTreeSet<String>,
    number: u64,
}

/// The questions to one cluster.
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
    /// Whether all that a key needs is confirmed, on the current basis. If so, the confirmations are used up.
    /// Confirmations that are too old, have another basis, or are not needed any more are removed.
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

    /// Requests the confirmations that a key needs, unless they are requested already.
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

    /// Forgets a key that needs no confirmation any more.
    pub(in crate::controller::engine) fn forget(&mut self, key: &Key) {
        for (cluster, state) in self.keys.remove(key).unwrap_or_default() {
            self.drop_turn(&cluster, &state);
        }
    }

    /// The next question that may be asked. The caller has to end it with [`Self::answered`].
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

    /// Ends a question. `confirmed`: when it was asked, and the basis of the confirmation, if it was confirmed. Returns
    /// whether the key now has all confirmations that it needs.
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
        // Nothing to do if the key was forgotten meanwhile, or has a new question.
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

    /// Updates whether a cluster is in `ready`, and forgets it if it has no questions.
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
