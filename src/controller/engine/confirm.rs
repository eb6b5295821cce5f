//! Confirmations: before the engine removes objects of a Service of a target cluster, it asks that cluster whether the
//! Service is really not exported any more.
//!
//! These requests do not use write slots, and have a limit and a deadline for each cluster. A plan leaves out the
//! removals that are not confirmed, and has everything else. So a cluster that does not respond delays only its own
//! removals, also in a Service that it shares with others. When a confirmation has arrived, the key is planned again. A
//! confirmation is used once, and only while it is recent and its Link and session are the same.

mod confirmations;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use kube::{Api, Client};
use tokio::time::Instant;

pub(super) use self::confirmations::{Basis, Confirmations, Question, Said};
use super::{done::Done, state::Engine};
use crate::{
    api::{k8s::Service, wire::Wire},
    client::requests::{RequestError, within},
    mirror::{self, Key, RemoteRef, Target},
};

/// Timeout of one request.
const DEADLINE: Duration = Duration::from_secs(10);
impl Engine {
    /// The clusters that have confirmed what a key asks of them, if this is still valid.
    pub(super) fn confirmed(&mut self, key: &Key) -> BTreeSet<String> {
        let asked = self.confirmations.clusters_of(key);
        let basis = |cluster: String| self.basis(&cluster).map(|(basis, _)| (cluster, basis));
        let bases: BTreeMap<String, Basis> = asked.into_iter().filter_map(basis).collect();
        let basis = |cluster: &str| bases.get(cluster);
        self.confirmations.confirmed(key, basis, Instant::now())
    }

    /// Requests the confirmations that a plan lacks.
    pub(super) fn request(&mut self, key: &Key, lacking: &[RemoteRef]) {
        for remote in lacking {
            // All keys of a cluster are enqueued when it is connected again.
            if self.is_away(&remote.cluster) {
                self.settle_for(key, &remote.cluster);
            } else {
                self.confirmations.need(key, remote);
            }
        }
    }

    /// Asks target clusters for the confirmations that keys need, up to the limit for each cluster.
    pub(super) fn ask_clusters(&mut self) {
        while let Some(question) = self.confirmations.next() {
            if self.is_away(&question.remote.cluster) {
                self.confirmations.answered(&question, None);
                self.settle_for(&question.key, &question.remote.cluster);
                continue;
            }
            let Some((basis, client)) = self.basis(&question.remote.cluster) else {
                // The session was just replaced; its successor enqueues the key again.
                self.confirmations.answered(&question, None);
                self.delay(&question);
                continue;
            };
            let RemoteRef {
                cluster,
                namespace,
                service,
            } = &question.remote;
            let preferring = self.state.preferring(cluster, namespace, service);
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

    /// Handles the answer of a target cluster.
    pub(super) fn on_confirmed(
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
                    self.queue.enqueue(key.clone(), &question.remote.cluster);
                }
            }
            Said::Exported => {
                self.confirmations.answered(question, None);
                self.changed.remove(key);
                self.delay(question);
            }
            Said::Nothing(why) => {
                self.confirmations.answered(question, None);
                let cluster = &question.remote.cluster;
                let what = format!(
                    "failed to confirm with cluster {cluster} that a Service is not exported"
                );
                self.problems.failed(key, &format!("{what}: {why}"));
                self.settle_for(key, cluster);
                // The time that a cluster does not answer is not the controller's.
                self.changed.remove(key);
                self.delay(question);
            }
        }
    }

    fn delay(&mut self, question: &Question) {
        let cluster = &question.remote.cluster;
        self.queue.delay(&question.key, cluster, Instant::now());
    }

    /// Whether a target cluster is known not to respond.
    fn is_away(&self, cluster: &str) -> bool {
        let link = self.state.link(cluster).map(|(target, _)| &target.link);
        let state = link.and_then(|link| self.links.get(link));
        state.is_some_and(|state| matches!(state.facts.connected, Some(Err(_))))
    }

    /// The current basis for a confirmation of this cluster, and a client to ask it.
    fn basis(&self, cluster: &str) -> Option<(Basis, Client)> {
        let (target, _) = self.state.link(cluster)?;
        let session = self.links.get(&target.link)?.current.as_ref()?;
        let basis = Basis {
            session: session.id,
            target: target.clone(),
        };
        Some((basis, session.client.clone()?))
    }
}

/// Asks a target cluster whether a Service is really not exported. `preferred`: its federated members are mirrored too.
async fn ask(client: Client, target: &Target, question: &Question, preferred: bool) -> Said {
    let Question { key, remote } = question;
    let api: Api<Wire<Service>> = Api::namespaced(client, &remote.namespace);
    let live = match within(DEADLINE, api.get(&remote.service)).await {
        Ok(live) => Service::from(live),
        Err(RequestError::Status(status)) if status.code == 404 => return Said::NotExported,
        Err(RequestError::Status(status)) => return Said::Nothing(status.message.clone()),
        Err(RequestError::Unanswered(message)) => return Said::Nothing(message),
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
