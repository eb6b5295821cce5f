//! Reports what became of Services: in the statuses of their Links, in the log, and as Events.

use mirror_core::{
    api::{labels as l, metadata::ResourceId, preference::FailedOver},
    mirror::{
        Key, Outcome, Reason, RemoteRef, ServiceOutcome, federated_name, has_member_in,
        link_status::StatusChange,
    },
};

use super::{federated::counts, preferences::Receivers, state::Engine};
use crate::{
    events::{EventKind, is_recorded},
    trouble::suppressed,
};

impl Engine {
    /// Records that a key was processed, except for the clusters that have to confirm something for it. When all keys of
    /// the first sync are processed, the Link is synced.
    pub fn processed(&mut self, key: &Key, lacking: &[RemoteRef]) {
        let lacking = lacking.iter().map(|remote| &*remote.cluster);
        let waiting: Vec<String> = lacking.filter_map(|of| self.link_of(of)).collect();
        let links = self.links.iter_mut();
        for (_, state) in links.filter(|(link, _)| !waiting.contains(link)) {
            state.processed(key);
        }
    }

    /// Records that a key was processed as far as this cluster is concerned.
    pub fn processed_for(&mut self, key: &Key, cluster: &str) {
        let link = self.link_of(cluster);
        if let Some(state) = link.and_then(|link| self.links.get_mut(&link)) {
            state.processed(key);
        }
    }

    /// Records what a plan reports about its Services, and creates Events for new problems.
    pub fn record_outcomes(&mut self, report: &[ServiceOutcome]) {
        for outcome in report {
            let Some((target, entry)) = self.state.link(&outcome.remote.cluster) else {
                continue;
            };
            let link = target.link.clone();
            let Some(state) = self.links.get_mut(&link) else {
                continue;
            };
            let change = state.outcomes.record(outcome);
            if change == StatusChange::None {
                continue;
            }
            state.status.mark_dirty();
            if change == StatusChange::Words {
                continue;
            }
            let Outcome::Failed(problem) = &outcome.report else {
                continue;
            };
            if Reason::INTENDED.contains(&problem.reason) {
                continue;
            }
            let remote = &outcome.remote;
            let service = entry
                .remote
                .as_ref()
                .and_then(|r| r.service(&remote.namespace, &remote.service));
            let skipped = EventKind::Skipped {
                remote: remote.clone(),
                uid: service.and_then(|s| s.metadata.uid.as_deref().map(str::to_owned)),
                client: state.client(),
                problem: problem.clone(),
            };
            if let Some(lines) = self.problems.line(&remote.cluster) {
                tracing::info!(
                    service = format!("{}/{}", remote.namespace, remote.service),
                    cluster = remote.cluster,
                    reason = problem.reason.as_str(),
                    "not mirrored: {}{}",
                    problem.message,
                    suppressed(0, lines)
                );
            }
            let before = state.link.status.as_ref();
            if before.is_some_and(|status| is_recorded(status, remote, problem)) {
                continue;
            }
            self.request_event(&link, skipped);
        }
    }

    /// Counts the members and endpoints of a federated Service, once its desired state is reached.
    pub fn note_members(&mut self, key: &Key) {
        let Key::Federated { namespace, service } = key else {
            return;
        };
        let found = self.state.federated(namespace, service);
        let name = federated_name(service);
        let local = self.state.local.as_ref();
        let slices = local.map(|local| local.slices.in_group(namespace, &name));
        let slices = slices.unwrap_or_default().iter().map(AsRef::as_ref);
        let counts = found.map(|found| counts(found, slices));
        let id = ResourceId::new(namespace.as_str(), name);
        self.federated.note(id, counts, &self.metrics);
    }

    /// Records which clusters receive the requests to a federated Service, once its desired state is reached.
    pub fn note_preference(&mut self, key: &Key) {
        let Key::Federated { namespace, service } = key else {
            return;
        };
        let service = self.state.federated(namespace, service);
        let receivers = service.and_then(|service| {
            let annotation = |key: &str| service.metadata.annotations.get(key);
            let preference = annotation(l::PREFER)?.parse().ok()?;
            let failed_over = annotation(l::FAILED_OVER).map(FailedOver::read);
            Some(Receivers::new(
                &preference,
                &failed_over.unwrap_or_default(),
                |cluster| has_member_in(annotation, cluster),
            ))
        });
        for (cluster, [active, failed_over]) in self.preferences.note(key, receivers) {
            // Only Links can create series, so that no remote object can.
            let linked = cluster.linked();
            if linked.is_none_or(|linked| self.state.link(linked).is_some()) {
                self.metrics
                    .preferred(&cluster.to_string(), active, failed_over);
            }
        }
    }
}
