//! Does the steps.

use std::{collections::BTreeMap, time::Duration};

use anyhow::Context as _;
use client::Cluster;
use hints::{
    hint::fail,
    prose::{counted, listed},
};
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        coordination::v1::{Lease, LeaseSpec},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::SignedDuration,
};
use kube::{
    api::{Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use links::poll::{POLL_INTERVAL, poll};
use mirror_core::api::{labels as l, link::Link, metadata::ResourceId};
use observe::clusters::leader::pods as show_pods;
use serde_json::json;

use super::{
    found::{FormerMirror, Found, fingerprint_of, mirrors, pods},
    plan::TakeOverStep,
};
use crate::cli::{
    common::{output, wait::Progress},
    hand_back::forget_statuses,
    link::is_ready,
};

/// Duration of the Lease that this command holds, in seconds. It does not expire: after an interrupt, linkerd-mc's
/// controller must not start by itself while Linkerd's service mirror runs.
const FOREVER: i32 = i32::MAX;
/// Names that an error lists.
const LISTED: usize = 10;

/// One run.
pub struct Execution<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    /// How long each step may take.
    wait: Duration,
}

impl<'a> Execution<'a> {
    pub fn new(cluster: &'a Cluster, namespace: &'a str, wait: Duration) -> Self {
        Self {
            cluster,
            namespace,
            wait,
        }
    }

    /// Does these steps, one after the other.
    pub async fn run(&self, found: &Found, steps: &[TakeOverStep]) -> anyhow::Result<()> {
        for step in steps {
            let progress = Progress::new(&step.to_string());
            progress.during(Box::pin(self.step(found, step))).await?;
        }
        Ok(())
    }

    async fn step(&self, found: &Found, step: &TakeOverStep) -> anyhow::Result<()> {
        match step {
            TakeOverStep::Reserve => self.reserve().await,
            TakeOverStep::Start => self.start(found).await,
            TakeOverStep::Stop(name) => self.scale(name, 0).await,
            TakeOverStep::AwaitStopped => self.await_stopped(found).await,
            TakeOverStep::Release => self.release().await,
            TakeOverStep::AwaitReady => self.await_ready(found).await,
            TakeOverStep::AwaitAdopted => self.await_adopted(found).await,
        }
    }

    /// Takes the Lease, unless a controller has taken it since it was read.
    async fn reserve(&self) -> anyhow::Result<()> {
        let now = self.cluster.now().await;
        let mut lease = self.lease().await?.unwrap_or_else(|| Lease {
            metadata: ObjectMeta {
                name: Some(l::LEASE_NAME.to_owned()),
                namespace: Some(self.namespace.to_owned()),
                ..ObjectMeta::default()
            },
            spec: None,
        });
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(l::TAKE_OVER_HOLDER.to_owned()),
            lease_duration_seconds: Some(FOREVER),
            acquire_time: Some(MicroTime(now)),
            renew_time: Some(MicroTime(now)),
            ..lease.spec.unwrap_or_default()
        });
        self.write(lease).await
    }

    /// Lets linkerd-mc's controller take the Lease. Links lose the status that an earlier controller may have left, so
    /// that what is ready afterwards is what is ready now.
    async fn release(&self) -> anyhow::Result<()> {
        let lease = self.lease().await?;
        let mut lease = lease.filter(|lease| {
            let spec = lease.spec.as_ref();
            spec.and_then(|spec| spec.holder_identity.as_deref()) == Some(l::TAKE_OVER_HOLDER)
        });
        let Some(lease) = &mut lease else {
            return Err(fail(
                format!(
                    "somebody has taken the Lease {}/{}",
                    self.namespace,
                    l::LEASE_NAME
                ),
                "run the same command again, which looks at the cluster as it is now",
            ));
        };
        forget_statuses(self.cluster, self.namespace).await?;
        let spec = lease.spec.get_or_insert_default();
        let renewed = spec.renew_time.as_ref().map(|time| time.0);
        // A later time than before, because a write that changes nothing does not wake up the controller.
        let later = renewed.and_then(|time| time.checked_add(SignedDuration::from_micros(1)).ok());
        let now = self.cluster.now().await;
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.renew_time = Some(MicroTime(later.map_or(now, |later| later.max(now))));
        self.write(lease.clone()).await
    }

    async fn lease(&self) -> anyhow::Result<Option<Lease>> {
        let read = self
            .cluster
            .get::<Lease>("read the Lease", self.namespace, l::LEASE_NAME);
        read.await
    }

    /// Creates or replaces the Lease. Fails if it has changed since it was read.
    async fn write(&self, lease: Lease) -> anyhow::Result<()> {
        let api = self.cluster.api::<Lease>(self.namespace);
        let params = PostParams::default();
        if lease.metadata.resource_version.is_none() {
            let created = api.create(&params, &lease);
            return self
                .cluster
                .request("create the Lease", created)
                .await
                .map(|_| ());
        }
        let replaced = api.replace(l::LEASE_NAME, &params, &lease);
        self.cluster
            .request("write the Lease", replaced)
            .await
            .map(|_| ())
    }

    async fn scale(&self, deployment: &str, replicas: i32) -> anyhow::Result<()> {
        let api = self.cluster.api::<Deployment>(self.namespace);
        let patch = json!({ "spec": { "replicas": replicas } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let scaled = api.patch(deployment, &params, &patch);
        let what = format!("scale the Deployment {}/{deployment}", self.namespace);
        self.cluster.request_opt(&what, scaled).await.map(|_| ())
    }

    async fn deployment(&self, name: &str) -> anyhow::Result<Option<Deployment>> {
        let what = format!("read the Deployment {}/{name}", self.namespace);
        self.cluster
            .get::<Deployment>(&what, self.namespace, name)
            .await
    }

    /// Starts linkerd-mc's controller, which finds the Lease taken.
    async fn start(&self, found: &Found) -> anyhow::Result<()> {
        if found.own.as_ref().is_some_and(|own| own.desired == 0) {
            self.scale(l::CONTROLLER_NAME, 1).await?;
        }
        let attempt = async || {
            let own = self.deployment(l::CONTROLLER_NAME).await?;
            let own = own.context("the Deployment of linkerd-mc's controller is gone")?;
            let status = own.status.unwrap_or_default();
            let available = status
                .available_replicas
                .unwrap_or(0)
                .min(status.updated_replicas.unwrap_or(0));
            let is_current = status.observed_generation >= own.metadata.generation;
            anyhow::Ok(if is_current && available > 0 {
                Ok(())
            } else {
                Err(())
            })
        };
        let started = poll(POLL_INTERVAL, self.wait, attempt, |()| ()).await?;
        started.map_err(|()| {
            let stands = if found.linkerds_runs() {
                "Linkerd's service mirror still runs"
            } else {
                "no service mirror runs"
            };
            let pods = show_pods(&self.cluster.flags, self.namespace);
            fail(
                format!(
                    "linkerd-mc's controller is not ready after {:?}; {stands}",
                    self.wait
                ),
                format!("look at its Pods with {pods}, and run the same command again"),
            )
        })
    }

    /// Waits until no Pod of Linkerd's service mirror is left. Fails if somebody starts it again.
    async fn await_stopped(&self, found: &Found) -> anyhow::Result<()> {
        let attempt = async || {
            let mut settled = true;
            for program in &found.programs {
                let name = &program.id.name;
                let Some(deployment) = self.deployment(name).await? else {
                    continue;
                };
                let wanted = deployment.spec.and_then(|spec| spec.replicas).unwrap_or(1);
                if wanted > 0 {
                    return Err(fail(
                        format!("somebody has scaled the Deployment {name} up again"),
                        "suspend the tool that does it, and run the same command again",
                    ));
                }
                let seen = deployment.status.and_then(|s| s.observed_generation);
                settled &= seen >= deployment.metadata.generation;
            }
            let left = pods(self.cluster, self.namespace).await?;
            Ok(if settled && left.is_empty() {
                Ok(())
            } else {
                Err(left)
            })
        };
        let stopped = poll(POLL_INTERVAL, self.wait, attempt, |_| ()).await?;
        stopped.map_err(|left| {
            fail(
                format!(
                    "Linkerd's service mirror still runs after {:?}: {}",
                    self.wait,
                    listed(&left, LISTED)
                ),
                "run the same command again, which waits for them",
            )
        })
    }

    async fn await_ready(&self, found: &Found) -> anyhow::Result<()> {
        let api = self.cluster.api::<Link>(self.namespace);
        let attempt = async || {
            for link in &found.links {
                let name = &link.name;
                let live = self
                    .cluster
                    .request("read the Link", api.get_opt(name))
                    .await?;
                let Some(live) = live else {
                    continue; // somebody has deleted it
                };
                let secret = &live.spec.cluster_credentials_secret;
                let held = fingerprint_of(self.cluster, self.namespace, secret).await?;
                if let Err(why) = is_ready(&live, &held.unwrap_or_default()) {
                    return anyhow::Ok(Err((name.clone(), why)));
                }
            }
            Ok(Ok(()))
        };
        let ready = poll(POLL_INTERVAL, self.wait, attempt, |_| ()).await?;
        ready.map_err(|(link, why)| {
            let why = why.map_or_else(
                || "no status reported yet".to_owned(),
                |why| self.cluster.flags.inserted(&why),
            );
            fail(
                format!("the Link {link} is not ready after {:?}: {why}", self.wait),
                format!(
                    "linkerd-mc has taken over; run {} for details",
                    self.cluster.flags.mc("check", &[])
                ),
            )
        })
    }

    /// Waits until linkerd-mc has adopted the mirrors that it keeps, and says which are gone.
    async fn await_adopted(&self, found: &Found) -> anyhow::Result<()> {
        let clusters = found
            .links
            .iter()
            .map(|link| link.cluster.as_str())
            .collect();
        let attempt = async || {
            let now = mirrors(self.cluster, self.namespace, &clusters).await?;
            let now: BTreeMap<ResourceId, FormerMirror> = now
                .into_iter()
                .map(|mirror| (mirror.id.clone(), mirror))
                .collect();
            let adoption = Adoption::of(found, &now);
            anyhow::Ok(if adoption.waiting.is_empty() {
                Ok(adoption)
            } else {
                Err(adoption)
            })
        };
        let flags = &self.cluster.flags;
        let adoption = poll(POLL_INTERVAL, self.wait, attempt, |_| ()).await?;
        let adoption = adoption.map_err(|adoption| {
            fail(
                format!(
                    "linkerd-mc has not adopted after {:?}: {}",
                    self.wait,
                    listed(&adoption.waiting, LISTED)
                ),
                format!("run {} for the causes", flags.mc("status", &[])),
            )
        })?;
        output::note(&format!(
            "adopted {}, with their ClusterIPs",
            counted(adoption.adopted, "Service")
        ));
        if adoption.gone.is_empty() {
            return Ok(());
        }
        Err(fail(
            format!(
                "linkerd-mc has taken over, and these are gone: {}",
                listed(&adoption.gone, LISTED)
            ),
            format!(
                "run {}, which says why their Services are not mirrored",
                flags.mc("status --services", &[])
            ),
        ))
    }
}

/// What became of the mirrors.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Adoption {
    /// As many as linkerd-mc has adopted.
    pub adopted: usize,
    /// Those that it has yet to adopt, or to delete.
    pub waiting: Vec<String>,
    /// Those that do not exist any more, or were created anew, although the plan did not say so.
    pub gone: Vec<String>,
}

impl Adoption {
    pub fn of(found: &Found, now: &BTreeMap<ResourceId, FormerMirror>) -> Self {
        let mut adoption = Self::default();
        for before in &found.mirrors {
            let id = before.id.to_string();
            let same = now.get(&before.id).filter(|now| now.uid == before.uid);
            match same {
                Some(_) if found.goes(&before.id) => adoption.waiting.push(id),
                Some(now) if now.is_ours => adoption.adopted += 1,
                Some(_) if found.stays_foreign(before) => {}
                Some(_) => adoption.waiting.push(id),
                None if found.goes(&before.id) => {}
                None => adoption.gone.push(id),
            }
        }
        adoption
    }
}
