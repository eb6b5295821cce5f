//! Plans under way, and what becomes of them.

use std::{sync::Arc, time::Duration};

use kube::{Api, Client, ResourceExt as _};
use tokio::time::Instant;

use super::{Engine, LOOK_AGAIN};
use crate::{
    api::{k8s::Service, link::LinkStatus, wire::Wire},
    controller::{
        apply::{Answer, Failure, Writer, Written, request},
        events::{News, is_recorded},
    },
    mirror::{
        self, Key, Kind, NamespacePhase, Owner, Plan, Problem, Reason, RemoteRef, Report, Reported,
        Target, owner,
    },
};

/// The API server is left alone for so long at a time, at most.
const LEFT_ALONE: Duration = Duration::from_secs(60);

/// The end of a task.
pub(super) enum Done {
    /// A plan was executed, or not.
    Plan {
        key: Key,
        report: Vec<Reported>,
        written: Vec<Written>,
        ended: Result<(), Failure>,
    },
    /// A Link's status was written, and what it is now; or not.
    Status {
        link: String,
        uid: Option<String>,
        sent: Box<LinkStatus>,
        ended: Result<Box<LinkStatus>, String>,
    },
    /// A name that belonged to somebody else was looked at.
    Looked {
        namespace: String,
        name: String,
        found: Result<Option<Box<Service>>, Failure>,
    },
}

/// Executes a plan, once each of `asked` has been confirmed by its own cluster.
pub(super) async fn execute(
    writer: &Writer,
    key: Key,
    plan: Plan,
    asked: Vec<(Client, Target, RemoteRef)>,
) -> Done {
    let Plan { writes, report, .. } = plan;
    for (client, target, remote) in asked {
        if let Err(failure) = confirm(client, &target, &remote, &key).await {
            let (written, ended) = (Vec::new(), Err(failure));
            return Done::Plan {
                key,
                report: Vec::new(),
                written,
                ended,
            };
        }
    }
    let (written, ended) = writer.apply(writes).await;
    Done::Plan {
        key,
        report,
        written,
        ended,
    }
}

/// Asks the target cluster itself whether a Service is really not exported.
async fn confirm(
    client: Client,
    target: &Target,
    remote: &RemoteRef,
    key: &Key,
) -> Result<(), Failure> {
    let api: Api<Wire<Service>> = Api::namespaced(client, &remote.namespace);
    let live = match request(api.get(&remote.service)).await {
        Ok(live) => Service::from(live),
        Err(Answer::Status(status)) if status.code == 404 => return Ok(()),
        Err(Answer::Status(status)) => {
            return Err(Failure::Refused {
                message: status.message.clone(),
                wait: None,
            });
        }
        Err(Answer::None(message)) => {
            return Err(Failure::Refused {
                message,
                wait: None,
            });
        }
    };
    let exported = match key {
        Key::Federated { .. } => mirror::member(target, &live),
        Key::Mirror { .. } | Key::Probe { .. } => mirror::mode(target, &live).is_some(),
    };
    if exported {
        Err(Failure::Outdated(None))
    } else {
        Ok(())
    }
}

impl Engine {
    /// Takes in the end of a task. `true`: the lease is lost.
    pub(super) fn finish(&mut self, done: Done) -> bool {
        match done {
            Done::Plan {
                key,
                report,
                written,
                ended,
            } => {
                return self.planned(&key, &report, written, ended);
            }
            Done::Status {
                link,
                uid,
                sent,
                ended,
            } => self.status_written(&link, uid.as_deref(), *sent, ended.map(|stored| *stored)),
            Done::Looked {
                namespace,
                name,
                found,
            } => self.looked(namespace, name, found),
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
        for written in written {
            self.absorb_written(written);
        }
        match ended {
            Ok(()) => {
                self.said(report);
                self.settle(key);
                if let Some(since) = self.changed.remove(key) {
                    self.metrics.propagated(since.elapsed());
                }
                // Planning again costs microseconds, and shows that what is now is what should be.
                self.queue.mark(key.clone());
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
                self.look_again
                    .insert((namespace.clone(), name.clone()), now + LOOK_AGAIN);
                self.world.foreign.insert((namespace, name), who);
                self.queue.mark(key.clone());
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
            Err(Failure::Refused { message, wait }) => {
                tracing::warn!(%key, "{message}");
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
    fn absorb_written(&mut self, written: Written) {
        let world = &mut self.world;
        match written {
            Written::Service(service) => {
                let store = match owner(&service.metadata) {
                    Owner::Probe(_) => &mut world.probes,
                    _ => &mut world.mirrors,
                };
                if let Some(store) = store {
                    store.insert(service);
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
            Written::Namespace(name) => {
                if let Some(namespaces) = &mut world.namespaces {
                    namespaces.entry(name).or_insert(NamespacePhase::Active);
                }
            }
            Written::Gone(kind, namespace, name) => {
                let gone = match kind {
                    Kind::EndpointSlice => {
                        for store in [&mut world.slices, &mut world.probe_slices] {
                            store
                                .as_mut()
                                .and_then(|store| store.forget(&namespace, &name));
                        }
                        None
                    }
                    Kind::Service | Kind::Namespace => {
                        let probe = world
                            .probes
                            .as_mut()
                            .and_then(|store| store.forget(&namespace, &name));
                        let mirror = world
                            .mirrors
                            .as_mut()
                            .and_then(|store| store.forget(&namespace, &name));
                        mirror.or(probe)
                    }
                };
                // A name that is free again may be wanted by others.
                let keys = gone.map(|gone: Arc<Service>| self.world.keys_of_local(&gone));
                self.mark_all(keys.into_iter().flatten());
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
            if !state.ledger.record(said) {
                continue;
            }
            state.status.touch();
            let Report::Failed(problem) = &said.report else {
                continue;
            };
            let remote = &said.remote;
            let service = entry
                .remote
                .as_ref()
                .and_then(|r| r.service(&remote.namespace, &remote.service));
            let news = News {
                link: (self.world.config.namespace.clone(), link),
                link_uid: state.link.uid(),
                remote: remote.clone(),
                remote_uid: service.and_then(|s| s.metadata.uid.as_deref().map(str::to_owned)),
                remote_client: state.client(),
                problem: problem.clone(),
            };
            tracing::info!(
                service = format!("{}/{}", remote.namespace, remote.service),
                cluster = remote.cluster,
                reason = problem.reason.as_str(),
                "not mirrored: {}",
                problem.message
            );
            let before = state.link.status.as_ref();
            if before.is_some_and(|status| is_recorded(status, remote, problem)) {
                continue;
            }
            // Rationed anyway: what does not fit is dropped, the status has it.
            let _ = self.news.try_send(news);
        }
    }

    fn looked(
        &mut self,
        namespace: String,
        name: String,
        found: Result<Option<Box<Service>>, Failure>,
    ) {
        let Ok(found) = found else { return };
        if found
            .as_ref()
            .is_some_and(|found| owner(&found.metadata) == Owner::Foreign)
        {
            return;
        }
        let mut keys = self.world.claimants(&namespace, &name);
        keys.extend(self.world.keys_of_namespace(&namespace));
        self.look_again.remove(&(namespace.clone(), name.clone()));
        self.world.foreign.remove(&(namespace, name));
        if let Some(found) = found {
            self.absorb_written(Written::Service(Arc::from(found)));
        }
        self.mark_all(keys);
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
