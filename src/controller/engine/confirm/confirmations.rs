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
    /// The clusters that a key asks, or has asked.
    pub(in crate::controller::engine) fn clusters_of(&self, key: &Key) -> Vec<String> {
        let stages = self.keys.get(key).into_iter().flatten();
        stages.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// The clusters that have confirmed what a key asks of them, on the current basis. Confirmations that are too old,
    /// or have another basis, are removed.
    pub(in crate::controller::engine) fn confirmed<'b>(
        &mut self,
        key: &Key,
        basis: impl for<'a> Fn(&'a str) -> Option<&'b B>,
        now: Instant,
    ) -> BTreeSet<String>
    where
        B: 'b,
    {
        let Some(stages) = self.keys.get_mut(key) else {
            return BTreeSet::new();
        };
        let mut confirmed = BTreeSet::new();
        stages.retain(|cluster, stage| {
            let Stage::Confirmed(at, on) = stage else {
                return true;
            };
            let valid = now.duration_since(*at) <= RECENT && basis(cluster) == Some(on);
            if valid {
                confirmed.insert(cluster.clone());
            }
            valid
        });
        if stages.is_empty() {
            self.keys.remove(key);
        }
        confirmed
    }

    /// Forgets what a key does not need any more: confirmations, and questions that are not answered yet.
    pub(in crate::controller::engine) fn keep(&mut self, key: &Key, needed: &[RemoteRef]) {
        let is_needed = |cluster: &str| needed.iter().any(|remote| remote.cluster == cluster);
        self.forget_if(key, |cluster, _| !is_needed(cluster));
    }

    /// Uses up the confirmations of a key: its plan is executed now.
    pub(in crate::controller::engine) fn use_up(&mut self, key: &Key) {
        self.forget_if(key, |_, stage| matches!(stage, Stage::Confirmed(..)));
    }

    /// Forgets a key that needs no confirmation any more.
    pub(in crate::controller::engine) fn forget(&mut self, key: &Key) {
        self.forget_if(key, |_, _| true);
    }

    fn forget_if(&mut self, key: &Key, goes: impl Fn(&str, &Stage<B>) -> bool) {
        let Some(stages) = self.keys.remove(key) else {
            return;
        };
        let goes = |(cluster, stage): &(String, Stage<B>)| goes(cluster, stage);
        let (gone, kept): (Vec<_>, Vec<_>) = stages.into_iter().partition(goes);
        if !kept.is_empty() {
            self.keys.insert(key.clone(), kept.into_iter().collect());
        }
        for (cluster, stage) in gone {
            self.drop_turn(&cluster, &stage);
        }
    }

    /// Requests a confirmation that a key needs, unless it is requested or received already.
    pub(in crate::controller::engine) fn need(&mut self, key: &Key, remote: &RemoteRef) {
        let stages = self.keys.entry(key.clone()).or_default();
        if stages.contains_key(&remote.cluster) {
            return;
        }
        self.number += 1;
        let stage = Stage::Waiting(self.number, remote.clone());
        stages.insert(remote.cluster.clone(), stage);
        let turns = self.clusters.entry(remote.cluster.clone()).or_default();
        turns.waiting.insert(self.number, key.clone());
        if turns.asked < AT_ONCE {
            self.ready.insert(remote.cluster.clone());
        }
    }

    /// The next question that may be asked. The caller has to end it with [`Self::answered`].
    pub(in crate::controller::engine) fn next(&mut self) -> Option<Question> {
        let cluster = self.ready.first()?.clone();
        let turns = self.clusters.get_mut(&cluster)?;
        let (_, key) = turns.waiting.pop_first()?;
        turns.asked += 1;
        let stage = self.keys.get_mut(&key)?.get_mut(&cluster)?;
        let Stage::Waiting(_, remote) = std::mem::replace(stage, Stage::Asked) else {
            return None;
        };
        self.sort(&cluster);
        Some(Question { key, remote })
    }

    /// Ends a question. `confirmed`: when it was asked, and the basis of the confirmation, if it was confirmed. Returns
    /// whether the key still needs this confirmation, and now has it.
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
        let Some(stages) = self.keys.get_mut(key) else {
            return false;
        };
        if !matches!(stages.get(&remote.cluster), Some(Stage::Asked)) {
            return false;
        }
        let Some((at, basis)) = confirmed else {
            stages.remove(&remote.cluster);
            if stages.is_empty() {
                self.keys.remove(key);
            }
            return false;
        };
        let stage = Stage::Confirmed(at, basis);
        stages.insert(remote.cluster.clone(), stage);
        true
    }

    /// Keys that wait for a confirmation, or have one.
    pub(in crate::controller::engine) fn len(&self) -> usize {
        self.keys.len()
    }

    fn drop_turn(&mut self, cluster: &str, stage: &Stage<B>) {
        if let (Stage::Waiting(number, _), Some(turns)) = (stage, self.clusters.get_mut(cluster)) {
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
