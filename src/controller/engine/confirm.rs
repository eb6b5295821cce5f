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

use crate::{
    api::{k8s::Service, wire::Wire},
    client::requests::{RequestError, within},
    mirror::{self, Key, RemoteRef, Target},
};

/// Timeout of one request.
const DEADLINE: Duration = Duration::from_secs(10);
/// Maximum number of concurrent requests to one target cluster.
const AT_ONCE: usize = 8;
/// Maximum age of a confirmation.
const RECENT: Duration = Duration::from_secs(30);

/// A key, and a Service of a target cluster whose absence the cluster has to confirm for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfirmationRequest {
    pub(super) key: Key,
    pub(super) remote: RemoteRef,
}

/// What a confirmation depends on. If it has changed, the confirmation is not valid.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Precondition {
    /// The session whose client was used: another session may lead to another cluster.
    pub(super) session: u64,
    /// The Link, whose selectors say what is exported.
    pub(super) target: Target,
}

/// The answer of a target cluster.
#[derive(Debug)]
pub(super) enum Answer {
    /// The Service is not exported.
    NotExported,
    /// The Service is exported: the state of the cluster is outdated.
    Exported,
    /// There was no answer, for this reason.
    None(String),
}

/// Where a request is.
#[derive(Debug)]
enum Confirmation<P> {
    /// It waits in its cluster's queue, with this number.
    Waiting(u64, RemoteRef),
    /// The cluster is being asked.
    Asked,
    /// The cluster has confirmed it: the time of the request, and the precondition.
    Confirmed(Instant, P),
}

/// All confirmations that keys need: waiting, requested, or received. `P` is their precondition.
#[derive(Debug)]
pub(super) struct Confirmations<P = Precondition> {
    keys: BTreeMap<Key, BTreeMap<String, Confirmation<P>>>,
    clusters: BTreeMap<String, Requests>,
    /// The last number of a request.
    last: u64,
}

/// The requests to one cluster.
#[derive(Debug, Default)]
struct Requests {
    waiting: BTreeMap<u64, Key>,
    running: usize,
}

impl<P> Default for Confirmations<P> {
    fn default() -> Self {
        Self {
            keys: BTreeMap::new(),
            clusters: BTreeMap::new(),
            last: 0,
        }
    }
}

impl<P: PartialEq> Confirmations<P> {
    /// The clusters that a key asks, or has asked.
    pub(super) fn clusters_of(&self, key: &Key) -> Vec<String> {
        let requests = self.keys.get(key).into_iter().flatten();
        requests.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// The clusters that have confirmed what a key asks of them, on the current precondition. Confirmations that are
    /// too old, or have another precondition, are removed.
    pub(super) fn confirmed<'p>(
        &mut self,
        key: &Key,
        current: impl Fn(&str) -> Option<&'p P>,
        now: Instant,
    ) -> BTreeSet<String>
    where
        P: 'p,
    {
        self.forget_if(key, |cluster, progress| match progress {
            Confirmation::Confirmed(at, of) => {
                now.duration_since(*at) > RECENT || current(cluster) != Some(of)
            }
            Confirmation::Waiting(..) | Confirmation::Asked => false,
        });
        let requests = self.keys.get(key).into_iter().flatten();
        let confirmed =
            requests.filter(|(_, progress)| matches!(progress, Confirmation::Confirmed(..)));
        confirmed.map(|(cluster, _)| cluster.clone()).collect()
    }

    /// Forgets what a key does not need any more: confirmations, and requests that are not answered yet.
    pub(super) fn keep(&mut self, key: &Key, needed: &[RemoteRef]) {
        let is_needed = |cluster: &str| needed.iter().any(|remote| remote.cluster == cluster);
        self.forget_if(key, |cluster, _| !is_needed(cluster));
    }

    /// Uses up the confirmations of a key: its plan is executed now.
    pub(super) fn use_up(&mut self, key: &Key) {
        self.forget_if(key, |_, progress| {
            matches!(progress, Confirmation::Confirmed(..))
        });
    }

    /// Forgets a key that needs no confirmation any more.
    pub(super) fn forget(&mut self, key: &Key) {
        self.forget_if(key, |_, _| true);
    }

    fn forget_if(&mut self, key: &Key, goes: impl Fn(&str, &Confirmation<P>) -> bool) {
        let Some(requests) = self.keys.get_mut(key) else {
            return;
        };
        let gone = requests.iter().filter(|(cluster, of)| goes(cluster, of));
        let gone: Vec<String> = gone.map(|(cluster, _)| cluster.clone()).collect();
        for cluster in gone {
            if let (Some(Confirmation::Waiting(number, _)), Some(of)) =
                (requests.remove(&cluster), self.clusters.get_mut(&cluster))
            {
                of.waiting.remove(&number);
            }
        }
        if requests.is_empty() {
            self.keys.remove(key);
        }
        self.forget_idle_clusters();
    }

    /// Requests a confirmation that a key needs, unless it is requested or received already.
    pub(super) fn need(&mut self, key: &Key, remote: &RemoteRef) {
        let requests = self.keys.entry(key.clone()).or_default();
        if requests.contains_key(&remote.cluster) {
            return;
        }
        self.last += 1;
        let progress = Confirmation::Waiting(self.last, remote.clone());
        requests.insert(remote.cluster.clone(), progress);
        let of = self.clusters.entry(remote.cluster.clone()).or_default();
        of.waiting.insert(self.last, key.clone());
    }

    /// The next request to send. The caller has to end it with [`Self::answered`].
    pub(super) fn next(&mut self) -> Option<ConfirmationRequest> {
        let mut clusters = self.clusters.iter_mut();
        let (cluster, key) = clusters.find_map(|(cluster, of)| {
            let may_ask = of.running < AT_ONCE;
            let (_, key) = may_ask.then(|| of.waiting.pop_first())??;
            of.running += 1;
            Some((cluster.clone(), key))
        })?;
        let progress = self.keys.get_mut(&key)?.get_mut(&cluster)?;
        match std::mem::replace(progress, Confirmation::Asked) {
            Confirmation::Waiting(_, remote) => Some(ConfirmationRequest { key, remote }),
            Confirmation::Asked | Confirmation::Confirmed(..) => None,
        }
    }

    /// Ends a request. `confirmed`: when it was sent, and its precondition, if it was confirmed. Returns whether the
    /// key still needs this confirmation, and now has it.
    pub(super) fn answered(
        &mut self,
        request: &ConfirmationRequest,
        confirmed: Option<(Instant, P)>,
    ) -> bool {
        let ConfirmationRequest { key, remote } = request;
        if let Some(of) = self.clusters.get_mut(&remote.cluster) {
            of.running = of.running.saturating_sub(1);
        }
        self.forget_idle_clusters();
        // Nothing to do if the key was forgotten meanwhile, or has a new request.
        let requests = self.keys.get_mut(key);
        let progress = requests.and_then(|requests| requests.get_mut(&remote.cluster));
        let Some(progress @ Confirmation::Asked) = progress else {
            return false;
        };
        let Some((at, precondition)) = confirmed else {
            let cluster = &remote.cluster;
            self.forget_if(key, |of, _| of == cluster);
            return false;
        };
        *progress = Confirmation::Confirmed(at, precondition);
        true
    }

    /// Keys that wait for a confirmation, or have one.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    fn forget_idle_clusters(&mut self) {
        self.clusters
            .retain(|_, of| of.running > 0 || !of.waiting.is_empty());
    }
}

/// Asks a target cluster whether a Service is really not exported. `preferred`: its federated members are mirrored too.
pub(super) async fn ask(
    client: Client,
    target: &Target,
    request: &ConfirmationRequest,
    preferred: bool,
) -> Answer {
    let ConfirmationRequest { key, remote } = request;
    let api: Api<Wire<Service>> = Api::namespaced(client, &remote.namespace);
    let live = match within(DEADLINE, api.get(&remote.service)).await {
        Ok(live) => Service::from(live),
        Err(RequestError::Status(status)) if status.code == 404 => return Answer::NotExported,
        Err(RequestError::Status(status)) => return Answer::None(status.message.clone()),
        Err(RequestError::Unanswered(message)) => return Answer::None(message),
    };
    let exported = match key {
        Key::Federated { .. } => mirror::member(target, &live),
        Key::Mirror { .. } | Key::Gateway { .. } => {
            mirror::mode(target, &live).is_some() || preferred && mirror::member(target, &live)
        }
    };
    if exported {
        Answer::Exported
    } else {
        Answer::NotExported
    }
}

#[cfg(test)]
mod tests;
