//! Confirmations: before anything that belongs to a Service of a target cluster is removed, that cluster itself is
//! asked whether the Service is really not exported any more.
//!
//! This takes place outside the write slots, with a cap and a deadline for each cluster, so that a cluster that
//! does not answer delays nothing but its own removals. A key that needs confirmations is given back to the queue
//! unworked; once all are there it is planned again, and its plan is executed if they cover what it needs then.
//! A confirmation is used once, and only while it is recent and its Link and session are the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::{Api, Client};
use tokio::time::{Instant, timeout};

use super::{Engine, done::Done};
use crate::{
    api::{k8s::Service, wire::Wire},
    controller::apply::{Answer, request},
    mirror::{self, Key, RemoteRef, Target},
};

/// Requests to one target cluster at once, at most.
const AT_ONCE: usize = 8;
/// Time that one request may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// A confirmation that is older is not used.
const RECENT: Duration = Duration::from_secs(30);

/// What is to be asked: a key, and one of the target clusters that it needs to hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) key: Key,
    pub(super) remote: RemoteRef,
}

/// What a confirmation rests on. If it has changed, the confirmation says nothing.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Basis {
    /// The session whose client asked: another may lead to another cluster.
    session: u64,
    /// The Link, whose selectors say what is exported.
    target: Target,
}

/// What a target cluster said.
#[derive(Debug)]
pub(super) enum Said {
    /// The Service is not exported.
    NotExported,
    /// It is: what is known of the cluster is old.
    Exported,
    /// Nothing that helps, and why.
    Nothing(String),
}

#[derive(Debug)]
enum State<B> {
    /// It waits for its turn, by this number.
    Waiting(u64, RemoteRef),
    /// The cluster is being asked.
    Asked,
    /// The cluster has confirmed it when it was asked at this time.
    Confirmed(Instant, B),
}

/// All confirmations that keys need: those that wait, are under way, or have come. `B` is what they rest on.
#[derive(Debug)]
pub(super) struct Confirmations<B = Basis> {
    keys: BTreeMap<Key, BTreeMap<String, State<B>>>,
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
    pub(super) fn take<'b>(
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
            if let State::Confirmed(at, on) = &state {
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
    pub(super) fn need(&mut self, key: &Key, needed: &[RemoteRef]) {
        let states = self.keys.entry(key.clone()).or_default();
        for remote in needed {
            if states.contains_key(&remote.cluster) {
                continue;
            }
            self.number += 1;
            let state = State::Waiting(self.number, remote.clone());
            states.insert(remote.cluster.clone(), state);
            let turns = self.clusters.entry(remote.cluster.clone()).or_default();
            turns.waiting.insert(self.number, key.clone());
            if turns.asked < AT_ONCE {
                self.ready.insert(remote.cluster.clone());
            }
        }
    }

    /// A key needs nothing any more.
    pub(super) fn forget(&mut self, key: &Key) {
        for (cluster, state) in self.keys.remove(key).unwrap_or_default() {
            self.drop_turn(&cluster, &state);
        }
    }

    /// The next question that may be asked. It has to be given back with [`Self::answered`].
    pub(super) fn next(&mut self) -> Option<Question> {
        let cluster = self.ready.first()?.clone();
        let turns = self.clusters.get_mut(&cluster)?;
        let (_, key) = turns.waiting.pop_first()?;
        turns.asked += 1;
        let state = self.keys.get_mut(&key)?.get_mut(&cluster)?;
        let State::Waiting(_, remote) = std::mem::replace(state, State::Asked) else {
            return None;
        };
        self.sort(&cluster);
        Some(Question { key, remote })
    }

    /// The end of a question, with what a confirmation rests on if it was confirmed, and when it was asked.
    /// Returns whether the key has all that it needs now.
    pub(super) fn answered(
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
        if !matches!(states.get(&remote.cluster), Some(State::Asked)) {
            return false;
        }
        let Some((at, basis)) = confirmed else {
            states.remove(&remote.cluster);
            if states.is_empty() {
                self.keys.remove(key);
            }
            return false;
        };
        let state = State::Confirmed(at, basis);
        states.insert(remote.cluster.clone(), state);
        let is_confirmed = |state: &State<B>| matches!(state, State::Confirmed(..));
        states.values().all(is_confirmed)
    }

    /// Keys that wait for a confirmation, or have one.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    fn drop_turn(&mut self, cluster: &str, state: &State<B>) {
        if let (State::Waiting(number, _), Some(turns)) = (state, self.clusters.get_mut(cluster)) {
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

impl Engine {
    /// Whether a plan that needs these confirmations may be executed. If not, the key is marked again once it may
    /// be, or once a target cluster that is away is back.
    pub(super) fn is_confirmed(&mut self, key: &Key, needed: &[RemoteRef]) -> bool {
        if needed.is_empty() {
            self.confirmations.forget(key);
            return true;
        }
        let bases: BTreeMap<&str, Basis> = needed
            .iter()
            .filter_map(|RemoteRef { cluster, .. }| Some((&**cluster, self.basis(cluster)?.0)))
            .collect();
        let basis = |cluster: &str| bases.get(cluster);
        if self.confirmations.take(key, needed, basis, Instant::now()) {
            return true;
        }
        if needed.iter().any(|remote| self.is_away(&remote.cluster)) {
            // All keys of a cluster are marked when it is connected again.
            self.confirmations.forget(key);
            self.settle(key);
        } else {
            self.confirmations.need(key, needed);
        }
        false
    }

    /// Asks target clusters what keys need to hear, as much as they may be asked at once.
    pub(super) fn ask_clusters(&mut self) {
        while let Some(question) = self.confirmations.next() {
            if self.is_away(&question.remote.cluster) {
                self.confirmations.answered(&question, None);
                self.confirmations.forget(&question.key);
                self.settle(&question.key);
                continue;
            }
            let Some((basis, client)) = self.basis(&question.remote.cluster) else {
                // The session was just replaced; its successor marks the key again.
                self.confirmations.answered(&question, None);
                self.delay(&question);
                continue;
            };
            let RemoteRef {
                cluster,
                namespace,
                service,
            } = &question.remote;
            let preferring = self.world.preferring(cluster, namespace, service);
            let preferred = preferring.is_some();
            self.tasks.spawn(async move {
                let asked = Instant::now();
                let said = ask(client, &basis.target, &question, preferred).await;
                Done::Confirmed {
                    question,
                    basis: Box::new(basis),
                    asked,
                    said,
                }
            });
        }
    }

    /// Takes in what a target cluster said.
    pub(super) fn confirmed(
        &mut self,
        question: &Question,
        basis: Basis,
        asked: Instant,
        said: Said,
    ) {
        let key = &question.key;
        match said {
            Said::NotExported => {
                if self.confirmations.answered(question, Some((asked, basis))) {
                    self.queue.mark(key.clone(), &question.remote.cluster);
                }
            }
            Said::Exported => {
                self.confirmations.answered(question, None);
                self.delay(question);
            }
            Said::Nothing(why) => {
                self.confirmations.answered(question, None);
                let cluster = &question.remote.cluster;
                let what = format!(
                    "failed to confirm with cluster {cluster} that a Service is not exported"
                );
                self.problems.failed(key, &format!("{what}: {why}"));
                self.settle(key);
                self.delay(question);
            }
        }
    }

    fn delay(&mut self, question: &Question) {
        let cluster = &question.remote.cluster;
        self.queue.delay(&question.key, cluster, Instant::now());
    }

    /// Whether a target cluster is known not to answer.
    fn is_away(&self, cluster: &str) -> bool {
        let link = self.world.link(cluster).map(|(target, _)| &target.link);
        let state = link.and_then(|link| self.links.get(link));
        state.is_some_and(|state| matches!(state.facts.connected, Some(Err(_))))
    }

    /// What a confirmation by this cluster rests on at the moment, and a client to ask it.
    fn basis(&self, cluster: &str) -> Option<(Basis, Client)> {
        let (target, _) = self.world.link(cluster)?;
        let session = self.links.get(&target.link)?.current.as_ref()?;
        let basis = Basis {
            session: session.id,
            target: target.clone(),
        };
        Some((basis, session.client.clone()?))
    }
}

/// Asks a target cluster whether a Service is really not exported. `preferred`: members of this cluster are mirrored too.
async fn ask(client: Client, target: &Target, question: &Question, preferred: bool) -> Said {
    let Question { key, remote } = question;
    let api: Api<Wire<Service>> = Api::namespaced(client, &remote.namespace);
    let live = match timeout(DEADLINE, request(api.get(&remote.service))).await {
        Ok(Ok(live)) => Service::from(live),
        Ok(Err(Answer::Status(status))) if status.code == 404 => return Said::NotExported,
        Ok(Err(Answer::Status(status))) => return Said::Nothing(status.message.clone()),
        Ok(Err(Answer::None(message))) => return Said::Nothing(message),
        Err(_) => {
            let why = format!("no answer within {} s", DEADLINE.as_secs());
            return Said::Nothing(why);
        }
    };
    let exported = match key {
        Key::Federated { .. } => mirror::member(target, &live),
        Key::Mirror { .. } | Key::Probe { .. } => {
            mirror::mode(target, &live).is_some() || preferred && mirror::member(target, &live)
        }
    };
    if exported {
        Said::Exported
    } else {
        Said::NotExported
    }
}

#[cfg(test)]
mod tests;
