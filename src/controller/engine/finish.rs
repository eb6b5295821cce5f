//! What becomes of tasks that have ended: into the world, and what people are told of it.

use std::{sync::Arc, time::Duration};

use kube::ResourceExt as _;
use tokio::time::Instant;

use super::{done::Done, state::Engine};
use crate::{
    api::{k8s::Service, routes::Route},
    controller::{
        apply::{Failure, Written},
        events::{News, What, is_recorded},
        queue,
        trouble::and_untold,
    },
    mirror::{
        Inserted, Key, Kind, Owner, Problem, Reason, Report, Reported, owner,
        status::News as Ledgered,
    },
};

/// The API server is left alone for so long at a time, at most.
const LEFT_ALONE: Duration = Duration::from_secs(60);

impl Engine {
    /// Takes in the end of a task. `true`: the lease is lost.
    pub(super) fn finish(&mut self, done: Done) -> bool {
        match done {
            Done::Plan {
                key,
                creates,
                report,
                written,
                ended,
            } => {
                if creates && ended.is_ok() {
                    self.pace.created(&key, Instant::now());
                }
                return self.planned(&key, &report, written, ended);
            }
            Done::Status {
                link,
                uid,
                sent,
                ended,
            } => self.status_written(&link, uid.as_deref(), *sent, ended.map(|stored| *stored)),
            Done::LookedUp { name, found } => self.looked_up(name, found),
            Done::Confirmed {
                question,
                basis,
                asked,
                said,
            } => self.confirmed(&question, *basis, asked, said),
        }
        false
    }

    fn planned(
        &mut self,
        key: &Key,
        report: &[Reported],
        written: Vec<Written>,
        ended: Result<(), Failure>,
    ) -> bool {
        let now = Instant::now();
        self.creating.remove(key);
        for written in written {
            self.absorb_written(written);
        }
        self.follow_probes(std::slice::from_ref(key));
        match ended {
            Ok(()) => {
                self.problems.recovered(key);
                let next = self.addresses.created(key, now);
                self.try_for_address(next);
                self.said(report);
                self.settle(key);
                if let Some(since) = self.changed.remove(key) {
                    self.metrics.propagated(since.elapsed());
                }
                // Planning again costs microseconds, and shows that what is now is what should be.
                self.queue.mark_again(key);
                self.queue.done(key);
            }
            Err(Failure::Fenced) => return true,
            Err(Failure::Outdated(live)) => {
                if let Some(live) = live {
                    self.absorb_written(*live);
                }
                self.queue.failed(key, now, None);
            }
            Err(Failure::Foreign {
                namespace,
                name,
                who,
            }) => {
                self.found_foreign((namespace, name), who);
                self.queue.mark_again(key);
                self.queue.done(key);
            }
            Err(Failure::NoNamespace) => {
                self.said(&failed(
                    report,
                    Reason::MissingNamespace,
                    "Namespace does not exist",
                ));
                self.settle(key);
                self.queue.failed(key, now, Some(Duration::from_secs(1)));
            }
            Err(Failure::NoClusterIp) => {
                self.lacks_address(key, report);
                self.queue.done(key);
            }
            Err(Failure::Refused { message, wait }) => {
                self.problems.failed(key, &message);
                self.said(&failed(report, Reason::Error, &message));
                self.settle(key);
                // It is meant for all that we ask of it, whatever happens meanwhile.
                if let Some(wait) = wait {
                    self.left_alone = self.left_alone.max(now + wait.min(LEFT_ALONE));
                }
                self.queue.failed(key, now, wait);
            }
        }
        false
    }

    /// Puts the answer to a write where the watch will put it a moment later.
    pub(super) fn absorb_written(&mut self, written: Written) {
        let world = &mut self.world;
        match written {
            Written::Service(service) => {
                let store = match owner(&service.metadata) {
                    Owner::Probe(_) => &mut world.probes,
                    _ => &mut world.mirrors,
                };
                let taken = store.as_mut().map(|store| store.insert(service.clone()));
                if let Some(Inserted::Taken(before)) = taken {
                    let states = before.into_iter().chain([service]);
                    let keys = states.flat_map(|state| self.world.keys_of_preference(&state));
                    let keys: Vec<Key> = keys.collect();
                    self.mark_all(queue::LOCAL, keys);
                }
            }
            Written::Slice(slice) => {
                let probe = slice
                    .metadata
                    .labels
                    .contains_key(crate::api::labels::MIRRORED_GATEWAY);
                let store = if probe {
                    &mut world.probe_slices
                } else {
                    &mut world.slices
                };
                if let Some(store) = store {
                    store.insert(slice);
                }
            }
            Written::Route(route) => {
                let keys = match self.world.routes.get_mut(&route.kind) {
                    Some(Some(store)) => {
                        let before = match store.insert(route.clone()) {
                            Inserted::Stale => return,
                            Inserted::Taken(before) => before,
                        };
                        let states = before.into_iter().chain([route]);
                        states
                            .flat_map(|route| self.world.keys_of_route(&route))
                            .collect()
                    }
                    _ => Vec::new(),
                };
                self.mark_all(queue::LOCAL, keys);
            }
            Written::Namespace(name, labels) => {
                let keys = world.created_namespace(&name, labels);
                self.mark_all(queue::LOCAL, keys);
            }
            Written::Gone(gone) => {
                let gone = match gone.kind {
                    Kind::EndpointSlice => {
                        for store in [&mut world.slices, &mut world.probe_slices] {
                            store.as_mut().and_then(|store| gone.forget(store));
                        }
                        None
                    }
                    Kind::Route(kind) => {
                        let store = world.routes.get_mut(&kind).and_then(Option::as_mut);
                        let gone = store.and_then(|store| gone.forget(store));
                        let keys = gone.map(|gone: Arc<Route>| self.world.keys_of_route(&gone));
                        self.mark_all(queue::LOCAL, keys.into_iter().flatten());
                        return;
                    }
                    Kind::Service | Kind::Namespace => {
                        let probe = world.probes.as_mut().and_then(|store| gone.forget(store));
                        let mirror = world.mirrors.as_mut().and_then(|store| gone.forget(store));
                        mirror.or(probe)
                    }
                };
                // A name that is free again may be wanted by others, and so may an address.
                if gone.as_ref().is_some_and(|gone| !gone.is_headless()) {
                    let next = self.addresses.release();
                    self.try_for_address(next);
                }
                let keys = gone.map(|gone: Arc<Service>| self.world.keys_of_local(&gone));
                self.mark_all(queue::LOCAL, keys.into_iter().flatten());
            }
        }
    }

    /// Takes down what a plan says of its Services, and tells people of new problems.
    pub(super) fn said(&mut self, report: &[Reported]) {
        for said in report {
            let Some((target, entry)) = self.world.link(&said.remote.cluster) else {
                continue;
            };
            let link = target.link.clone();
            let Some(state) = self.links.get_mut(&link) else {
                continue;
            };
            match state.ledger.record(said) {
                Ledgered::None => continue,
                Ledgered::Words => {
                    state.status.reword();
                    continue;
                }
                Ledgered::Change => state.status.touch(),
            }
            let Report::Failed(problem) = &said.report else {
                continue;
            };
            if problem.reason == Reason::Drained {
                continue; // somebody wants it so
            }
            let remote = &said.remote;
            let service = entry
                .remote
                .as_ref()
                .and_then(|r| r.service(&remote.namespace, &remote.service));
            let news = News {
                link: (self.world.config.namespace.clone(), link),
                link_uid: state.link.uid(),
                what: What::Skipped {
                    remote: remote.clone(),
                    uid: service.and_then(|s| s.metadata.uid.as_deref().map(str::to_owned)),
                    client: state.client(),
                    problem: problem.clone(),
                },
            };
            if let Some(left_out) = self.problems.line(&remote.cluster) {
                tracing::info!(
                    service = format!("{}/{}", remote.namespace, remote.service),
                    cluster = remote.cluster,
                    reason = problem.reason.as_str(),
                    "not mirrored: {}{}",
                    problem.message,
                    and_untold(0, left_out)
                );
            }
            let before = state.link.status.as_ref();
            if before.is_some_and(|status| is_recorded(status, remote, problem)) {
                continue;
            }
            // Rationed anyway: what does not fit is dropped, the status has it.
            let _ = self.news.try_send(news);
        }
    }
}

/// The report of a plan that could not be executed.
fn failed(report: &[Reported], reason: Reason, message: &str) -> Vec<Reported> {
    let mut report = report.to_vec();
    for said in &mut report {
        if let Report::Mirrored { .. } | Report::Absent = said.report {
            said.report = Report::Failed(Problem::new(reason, message));
        }
    }
    report
}
