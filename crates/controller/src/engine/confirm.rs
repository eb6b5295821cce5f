//! Confirmations: before the engine removes objects of a Service of a target cluster, it asks that cluster whether the
//! Service is really not exported any more.
//!
//! These requests do not use write slots, and have a limit and a deadline for each cluster. A plan leaves out the
//! removals that are not confirmed, and has everything else. So a cluster that does not respond delays only its own
//! removals, also in a Service that it shares with others. When a confirmation has arrived, the key is planned again. A
//! confirmation is used once, and only while it is recent and its Link and session are the same.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::{Api, Client};
use tokio::time::Instant;

use client::requests::{RequestError, within};
use mirror_core::{
    api::{k8s::Service, wire::Wire},
    mirror::{Key, RemoteRef, Target},
};

/// Timeout of one request.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent requests to one target cluster.
const AT_ONCE: usize = 8;
/// Maximum age of a confirmation.
const RECENT: Duration = Duration::from_secs(30);

/// A key, and a Service of a target cluster whose absence the cluster has to confirm for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmationRequest {
    pub key: Key,
    pub remote: RemoteRef,
}

/// What a confirmation depends on. If it has changed, the confirmation is not valid.
#[derive(Clone, Debug, PartialEq)]
pub struct Precondition {
    /// The session whose client was used: another session may lead to another cluster.
    pub session: u64,
    /// The Link, whose selectors say what is exported.
    pub target: Target,
}

/// The answer of a target cluster.
#[derive(Debug)]
pub enum Answer {
    /// The Service as it is now; `None` if it does not exist. Whether it is exported is judged as in a plan.
    Live(Option<Box<Service>>),
    /// There was no answer, for this reason.
    None(String),
}

/// A confirmation that a key needs of a cluster.
#[derive(Debug)]
struct Confirmation<P> {
    /// Requests are sent in the order of their numbers.
    number: u64,
    remote: RemoteRef,
    progress: RequestState<P>,
}

#[derive(Debug)]
enum RequestState<P> {
    /// It was not sent yet. Each cluster gets at most [`AT_ONCE`] requests at a time.
    Waiting,
    /// The cluster is being asked.
    Asked,
    /// The cluster has confirmed it: the time of the request, and the precondition.
    Confirmed(Instant, P),
}

/// All confirmations that keys need: waiting, requested, or received. `P` is their precondition.
#[derive(Debug)]
pub struct Confirmations<P = Precondition> {
    /// For each key, by cluster.
    keys: BTreeMap<Key, BTreeMap<String, Confirmation<P>>>,
    /// The keys whose requests wait, by cluster and number: tens of thousands may wait, so none is searched for.
    waiting: BTreeMap<String, BTreeMap<u64, Key>>,
    /// Number of requests that run, by cluster.
    running: BTreeMap<String, usize>,
    /// The last number of a request.
    last: u64,
}

impl<P> Default for Confirmations<P> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            waiting: BTreeMap::new(),
            running: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<P: PartialEq> Confirmations<P> {
    /// The clusters that have confirmed what a key asks of them, on the current precondition. Confirmations that are
    /// too old, or have another precondition, are removed.
    pub fn confirmed(
        &mut self,
        key: &Key,
        current: impl Fn(&str) -> Option<P>,
        now: Instant,
    ) -> BTreeSet<String> {
        self.retain(key, |cluster, progress| match progress {
            RequestState::Confirmed(at, of) => {
                now.duration_since(*at) <= RECENT && current(cluster).as_ref() == Some(of)
            }
            RequestState::Waiting | RequestState::Asked => true,
        });
        let requests = self.keys.get(key).into_iter().flatten();
        let confirmed =
            requests.filter(|(_, of)| matches!(of.progress, RequestState::Confirmed(..)));
        confirmed.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// Forgets what a key does not need any more: confirmations, and requests that are not answered yet.
    pub fn keep(&mut self, key: &Key, needed: &[RemoteRef]) {
        self.retain(key, |cluster, _| {
            needed.iter().any(|remote| remote.cluster == cluster)
        });
    }

    /// Uses up the confirmations of a key: its plan is executed now.
    pub fn use_up(&mut self, key: &Key) {
        self.retain(key, |_, progress| {
            !matches!(progress, RequestState::Confirmed(..))
        });
    }

    fn retain(&mut self, key: &Key, stays: impl Fn(&str, &RequestState<P>) -> bool) {
        let Some(requests) = self.keys.get_mut(key) else {
            return;
        };
        requests.retain(|cluster, of| {
            let stays = stays(cluster, &of.progress);
            if !stays && let Some(waiting) = self.waiting.get_mut(cluster) {
                waiting.remove(&of.number);
            }
            stays
        });
        if requests.is_empty() {
            self.keys.remove(key);
        }
    }

    /// Forgets a key that needs no confirmation any more.
    pub fn forget(&mut self, key: &Key) {
        self.retain(key, |_, _| false);
    }

    /// Forgets the requests to a cluster that were not sent yet. Returns their keys.
    pub fn withdraw(&mut self, cluster: &str) -> Vec<Key> {
        let waiting = self.waiting.remove(cluster).unwrap_or_default();
        let keys: Vec<Key> = waiting.into_values().collect();
        for key in &keys {
            self.retain(key, |of, _| of != cluster);
        }
        keys
    }

    /// Requests a confirmation that a key needs, unless it is requested or received already.
    pub fn need(&mut self, key: &Key, remote: &RemoteRef) {
        let requests = self.keys.entry(key.clone()).or_default();
        if !requests.contains_key(&remote.cluster) {
            self.last += 1;
            let request = Confirmation {
                number: self.last,
                remote: remote.clone(),
                progress: RequestState::Waiting,
            };
            requests.insert(remote.cluster.clone(), request);
            let waiting = self.waiting.entry(remote.cluster.clone()).or_default();
            waiting.insert(self.last, key.clone());
        }
    }

    /// The next request to send. The caller has to end it with [`Self::answered`].
    pub fn next(&mut self) -> Option<ConfirmationRequest> {
        self.waiting.retain(|_, waiting| !waiting.is_empty());
        let free = self.waiting.iter().filter(|(cluster, _)| {
            let running = self.running.get(*cluster);
            running.is_none_or(|running| *running < AT_ONCE)
        });
        let first = free.filter_map(|(cluster, of)| Some((*of.first_key_value()?.0, cluster)));
        let (number, cluster) = first.min()?;
        let cluster = cluster.clone();
        let key = self.waiting.get_mut(&cluster)?.remove(&number)?;
        let request = self.keys.get_mut(&key)?.get_mut(&cluster)?;
        request.progress = RequestState::Asked;
        let remote = request.remote.clone();
        *self.running.entry(cluster).or_default() += 1;
        Some(ConfirmationRequest { key, remote })
    }

    /// Ends a request. `confirmed` is `None` without a confirmation, otherwise when the request was sent and its
    /// precondition. Returns whether the key still needs this confirmation, and now has it.
    pub fn answered(
        &mut self,
        request: &ConfirmationRequest,
        confirmed: Option<(Instant, P)>,
    ) -> bool {
        let ConfirmationRequest { key, remote } = request;
        if let Some(running) = self.running.get_mut(&remote.cluster) {
            *running -= 1;
        }
        self.running.retain(|_, running| *running > 0);
        // Nothing to do if the key was forgotten meanwhile, or has a new request.
        let requests = self.keys.get_mut(key);
        let request = requests.and_then(|requests| requests.get_mut(&remote.cluster));
        let Some(request) = request.filter(|of| matches!(of.progress, RequestState::Asked)) else {
            return false;
        };
        let Some((at, precondition)) = confirmed else {
            self.retain(key, |cluster, _| cluster != remote.cluster);
            return false;
        };
        request.progress = RequestState::Confirmed(at, precondition);
        true
    }

    /// Keys that wait for a confirmation, or have one.
    pub fn len(&self) -> usize {
        self.keys.len()
    }
}

/// Asks a target cluster for a Service that does not seem to be exported any more.
pub async fn ask(client: Client, remote: &RemoteRef) -> Answer {
    let api: Api<Wire<Service>> = Api::namespaced(client, &remote.namespace);
    match within(DEADLINE, api.get(&remote.service)).await {
        Ok(live) => Answer::Live(Some(Box::new(live.into()))),
        Err(RequestError::Status(status)) if status.code == 404 => Answer::Live(None),
        Err(RequestError::Status(status)) => Answer::None(status.message.clone()),
        Err(RequestError::Unanswered(why)) => Answer::None(why.to_string()),
    }
}

#[cfg(test)]
mod tests;
