//! A run: the steps in order, and the deletion of all that they have made.

use std::{collections::BTreeMap, time::Duration};

use client::{Cluster, ReadError};
use mirror_core::api::{labels::FEDERATED, link::Link, metadata::ResourceId};
use observe::{
    clusters::{
        canaries::{
            CLIENT, CanarySpec, Role, SERVER,
            dial::dial,
            mirrors::{MirrorWatch, SeenMirror, SeenMirrors},
            namespaces::{self, FoundNamespace},
            pods, services,
        },
        snapshot::Known,
    },
    verify::{CanaryMode, CanaryService, StepResult, VerifyReport, VerifyStep, seen_identity},
};
use tokio::time::{Instant, timeout_at};

use super::contexts::{Pair, Verified};
use crate::cli::common::wait::Progress;

/// How long a mirror, its endpoints and the first answer may each take.
const STEP: Duration = Duration::from_secs(15);
/// How long one request of the client may take. It gives up itself after 5 s.
const REQUEST: Duration = Duration::from_secs(8);
/// Between two requests of the client, as long as there is no answer.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the deletion waits for mirrors, before it deletes their namespace.
const MIRRORS: Duration = Duration::from_secs(5);

/// A run.
pub struct Run<'a> {
    pub pair: &'a Pair,
    pub canaries: CanarySpec,
    pub verified: &'a Verified,
    pub progress: &'a Progress,
    pub report: VerifyReport,
    /// The steps have to end then.
    pub until: Instant,
}

/// What a step found, and when.
pub struct StepFinding {
    pub at: Instant,
    pub detail: String,
}

impl Run<'_> {
    /// All steps, in order. What fails is in the report.
    pub async fn steps(&mut self) {
        self.skip();
        self.progress.say("starting the canaries");
        let began = Instant::now();
        let started = Box::pin(self.start()).await;
        let done = started.is_ok();
        let detail = || {
            format!(
                "{SERVER} in {}, {CLIENT} in {}",
                self.pair.target.name, self.pair.source.name
            )
        };
        let started = started.map(|()| StepFinding {
            at: Instant::now(),
            detail: detail(),
        });
        self.record(None, "canaries", began, started);
        if !done {
            return;
        }
        let watch = MirrorWatch::start(&self.pair.source, &self.canaries.namespace);
        let mut is_mirrored = false;
        for service in &self.verified.services {
            is_mirrored |= self.verify(&watch, service).await;
        }
        if is_mirrored {
            self.unexport(&watch).await;
        }
    }

    /// Records the modes that the Link does not offer.
    fn skip(&mut self) {
        for (mode, why) in &self.verified.skipped {
            self.report.push(VerifyStep {
                mode: Some(*mode),
                step: "mirror",
                result: StepResult::Skipped,
                milliseconds: None,
                detail: why.clone(),
            });
        }
    }

    /// Makes the namespaces, and starts the Pods.
    async fn start(&self) -> Known<()> {
        let (source, target) = (&self.pair.source, &self.pair.target);
        let canaries = &self.canaries;
        futures::try_join!(
            namespaces::create(source, canaries),
            namespaces::create(target, canaries)
        )?;
        futures::try_join!(
            self.start_pod(target, SERVER, Role::Server),
            self.start_pod(source, CLIENT, Role::Client)
        )?;
        Ok(())
    }

    /// Starts a Pod, and waits until it is ready. An error names its cluster.
    async fn start_pod(&self, cluster: &Cluster, name: &str, role: Role) -> Known<()> {
        let started = pods::start(cluster, &self.canaries, name, role, self.until).await;
        started.map_err(|why| why.context(&cluster.name))
    }

    /// The steps of a mode. Returns whether its mirror exists.
    async fn verify(&mut self, watch: &MirrorWatch, service: &CanaryService) -> bool {
        let mode = Some(service.mode);
        self.progress
            .say(&format!("verifying the mode {}", service.mode));
        let began = Instant::now();
        let mirrored = self.mirrored(watch, service).await;
        let mirror = mirrored.as_ref().ok().cloned();
        let found = mirrored.map(|mirror| StepFinding {
            at: mirror.created.unwrap_or(began),
            detail: service.mirror.clone(),
        });
        self.record(mode, "mirror", began, found);
        let Some(mirror) = mirror else {
            return false;
        };
        if service.gateway.is_some() {
            let ready = self.ready(watch, service).await;
            let has_failed = ready.is_err();
            self.record(mode, "endpoints", began, ready);
            if has_failed {
                return true;
            }
        }
        let answered = self.answered(&mirror, service).await;
        let seen = answered.as_ref().ok().map(|(_, seen)| seen.clone());
        let answered = answered.map(|(at, _)| StepFinding {
            at,
            detail: format!("answered by {SERVER} in {}", self.pair.target.name),
        });
        self.record(mode, "request", began, answered);
        if let Some(seen) = seen {
            self.identity(service, seen.as_deref());
        }
        true
    }

    /// Creates the Service of a mode, and waits for its mirror.
    async fn mirrored(&self, watch: &MirrorWatch, service: &CanaryService) -> Known<SeenMirror> {
        let (Pair { source, target, .. }, canaries) = (self.pair, &self.canaries);
        if service.needs_local_member {
            // There is no server behind it, so the requests go to the target cluster.
            let member = BTreeMap::from([(FEDERATED.to_owned(), "member".to_owned())]);
            services::create(source, canaries, &service.name, &member).await?;
        }
        services::create(target, canaries, &service.name, &service.labels).await?;
        let find = watch.until(|mirrors| mirrors.existing(&service.mirror).cloned());
        match timeout_at(self.limit(), find).await {
            Ok(mirror) => Ok(mirror),
            Err(_) => Err(self.unmirrored(service).await.into()),
        }
    }

    /// Why there is no mirror, as the status of the Link says it.
    async fn unmirrored(&self, service: &CanaryService) -> String {
        let id = ResourceId::new(&self.canaries.namespace, &service.name);
        let link = self.verified.link.id();
        let api = kube::Api::<Link>::namespaced(self.pair.source.client.clone(), &link.namespace);
        let status = api.get(&link.name).await.ok().and_then(|link| link.status);
        let status = status.unwrap_or_default();
        let mut all = status
            .mirror_services
            .iter()
            .chain(&status.federated_services);
        let said = all.find(|entry| {
            entry.remote_ref.namespace == id.namespace && entry.remote_ref.name == id.name
        });
        let said = said.and_then(|entry| entry.conditions.first());
        match said.filter(|condition| condition.status != "True") {
            Some(condition) => format!(
                "{} is not mirrored: {}: {}",
                id, condition.reason, condition.message
            ),
            None => format!(
                "{} was not mirrored within {} s; does the Link {} lead to {}?",
                id,
                STEP.as_secs(),
                link.name,
                self.pair.target.name
            ),
        }
    }

    /// Waits until a mirror has a ready endpoint.
    async fn ready(&self, watch: &MirrorWatch, service: &CanaryService) -> Known<StepFinding> {
        let find = watch.until(|mirrors| mirrors.existing(&service.mirror)?.ready);
        match timeout_at(self.limit(), find).await {
            Ok(at) => Ok(StepFinding {
                at,
                detail: "ready, at the gateway".to_owned(),
            }),
            Err(_) => Err(format!(
                "{} has no ready endpoint after {} s; {} shows whether the gateway answers",
                service.mirror,
                STEP.as_secs(),
                self.pair.source.flags.mc("gateways", &[])
            )
            .into()),
        }
    }

    /// Lets the client send requests until one is answered. Returns when it was, and the identity that the server saw.
    async fn answered(
        &self,
        mirror: &SeenMirror,
        service: &CanaryService,
    ) -> Known<(Instant, Option<String>)> {
        let address = mirror.cluster_ip.as_deref().filter(|ip| *ip != "None");
        let address = address.ok_or_else(|| format!("{} has no ClusterIP", service.mirror))?;
        let mut last = ReadError::from("the client was not asked");
        let asking = async {
            loop {
                match self.ask(address).await {
                    Ok(seen) => return (Instant::now(), seen),
                    Err(why) => last = why,
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let began = Instant::now();
        let rollout = self.verified.export_gateway.as_ref();
        let rollout = rollout.filter(|_| service.gateway.is_some());
        // Such a Service is the last one, so it may take the time that is left.
        let limit = rollout.map_or_else(|| self.limit(), |_| self.until);
        let answered = timeout_at(limit, asking).await;
        answered.map_err(|_| {
            let way = if let Some(gateway) = rollout {
                let follow = self.pair.target.flags.kubectl(
                    "-n {} rollout status deployment/{}",
                    &[&gateway.namespace, &gateway.name],
                );
                format!("{follow} shows whether the gateway's Pods are replaced, which forward only what is exported")
            } else {
                let check = self.pair.source.flags.mc("check", &[]);
                format!("{check} finds many causes")
            };
            let (mirror, seconds) = (&service.mirror, began.elapsed().as_secs());
            format!("{mirror} was not answered within {seconds} s: {last}; {way}").into()
        })
    }

    async fn ask(&self, address: &str) -> Known<Option<String>> {
        let (client, canaries) = (&self.pair.source.client, &self.canaries);
        dial(client, &canaries.namespace, &canaries.key, address, REQUEST).await
    }

    /// Judges the identity that the server saw.
    fn identity(&mut self, service: &CanaryService, seen: Option<&str>) {
        let gateway = service.gateway.as_deref().filter(|name| !name.is_empty());
        let expected = match &service.gateway {
            Some(_) => gateway,
            None => self.verified.client.as_deref(),
        };
        let seen = seen_identity(seen, expected);
        let (result, detail) = match seen {
            Ok(seen) => (StepResult::Passed, seen),
            Err(why) => (StepResult::Failed, why),
        };
        self.report.push(VerifyStep {
            mode: Some(service.mode),
            step: "identity",
            result,
            milliseconds: None,
            detail,
        });
    }

    /// Deletes the Services, and waits until their mirrors are gone.
    async fn unexport(&mut self, watch: &MirrorWatch) {
        self.progress.say("deleting the Services");
        let began = Instant::now();
        let removing = async {
            for cluster in [&self.pair.target, &self.pair.source] {
                services::delete_all(cluster, &self.canaries.namespace).await?;
            }
            Known::Ok(watch.until(SeenMirrors::all_gone).await)
        };
        let removed = match timeout_at(self.limit(), removing).await {
            Ok(Ok(at)) => Ok(StepFinding {
                at,
                detail: "no mirror is left".to_owned(),
            }),
            Ok(Err(why)) => Err(why),
            Err(_) => Err(format!("mirrors are left after {} s", STEP.as_secs()).into()),
        };
        self.record(None, "removal", began, removed);
    }

    /// When a step that begins now has to end.
    fn limit(&self) -> Instant {
        self.until.min(Instant::now() + STEP)
    }

    pub fn record(
        &mut self,
        mode: Option<CanaryMode>,
        step: &'static str,
        began: Instant,
        found: Known<StepFinding>,
    ) {
        let (result, at, detail) = match found {
            Ok(StepFinding { at, detail }) => (StepResult::Passed, at, detail),
            Err(why) => (StepResult::Failed, Instant::now(), why.to_string()),
        };
        let took = at.saturating_duration_since(began).as_millis();
        self.report.push(VerifyStep {
            mode,
            step,
            result,
            milliseconds: u64::try_from(took).ok(),
            detail,
        });
    }
}

impl Pair {
    /// Deletes the canaries in both clusters, and nothing else. Returns whether there were any.
    ///
    /// The Services go first, and the mirrors with them. Otherwise the controller would create mirrors again while their
    /// namespace is deleted.
    pub async fn remove(&self, namespace: &str, until: Instant) -> Known<bool> {
        let [source, target] = self
            .found(namespace)
            .await
            .map_err(|error| error.to_string())?;
        let mut had_any = false;
        for (cluster, found) in [(&self.target, &target), (&self.source, &source)] {
            if *found != FoundNamespace::Nothing {
                had_any |= services::delete_all(cluster, namespace).await?;
            }
        }
        if source != FoundNamespace::Nothing && target != FoundNamespace::Nothing {
            let watch = MirrorWatch::start(&self.source, namespace);
            let limit = until.min(Instant::now() + MIRRORS);
            // A controller that does not run leaves them; they go with their namespace.
            let gone = watch.until(|mirrors| mirrors.is_empty().then_some(()));
            let _ = timeout_at(limit, gone).await;
        }
        let delete = async |cluster: &Cluster, found: &FoundNamespace| {
            let deleted = match found {
                FoundNamespace::Canaries(uid) => {
                    let limit = until.saturating_duration_since(Instant::now());
                    let deleted = namespaces::delete(cluster, namespace, uid, limit).await;
                    deleted.map(|()| true)
                }
                FoundNamespace::Kept => pods::delete_all(cluster, namespace, until).await,
                FoundNamespace::Nothing | FoundNamespace::Foreign => Ok(false),
            };
            deleted.map_err(|why| why.context(&cluster.name))
        };
        let (here, there) =
            futures::join!(delete(&self.source, &source), delete(&self.target, &target));
        Ok(had_any | here? | there?)
    }
}
