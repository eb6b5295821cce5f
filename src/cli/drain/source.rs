//! The drain of a target cluster in one source cluster: writes the annotation of its Links, and waits until their status
//! shows that the controller acted on it.

use std::time::Duration;

use client::Cluster;
use hints::hint::fail;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use links::{
    linked::{Mirrors, PROPAGATION, known_clusters, links},
    poll::{POLL_INTERVAL, poll},
};
use manifests::link::ClusterName;
use mirror_core::{
    api::{
        conditions::{DRAINED, drained},
        duration::rfc3339,
        labels,
        link::Link,
        text::in_brief,
    },
    mirror::{
        Reason,
        target::drain::{shown_end, until},
    },
};
use serde_json::json;

use crate::cli::common::wait::Progress;

/// A target cluster in one source cluster.
pub struct DrainIn<'a> {
    /// The source cluster.
    pub cluster: &'a Cluster,
    /// The target cluster.
    pub name: &'a ClusterName,
    /// Namespace of the Links.
    pub namespace: &'a str,
    /// Whether other source clusters are waited for at the same time. Their progress would be drawn over each other.
    pub has_others: bool,
}

/// How a drain began.
#[derive(Debug, PartialEq, Eq)]
pub enum Drained {
    /// The Links have the annotation. Nothing was waited for.
    Written,
    /// The cluster has left all federated Services.
    Left,
    /// The cluster has left all but these, which have no other member.
    StaysIn(Vec<String>),
}

impl DrainIn<'_> {
    /// The Links to the cluster, at least one.
    pub async fn links(&self) -> anyhow::Result<Vec<Link>> {
        let mut found = links(self.cluster, self.namespace).await?;
        let hint = known_clusters(
            &found,
            "choose another namespace with --namespace, or another cluster with --context",
        );
        let name = self.name.to_string();
        found.retain(|link| link.spec.target_cluster_name == name);
        if found.is_empty() {
            let namespace = self.namespace;
            let what = format!("no Link to {name:?} found in namespace {namespace:?}");
            return Err(fail(what, hint));
        }
        Ok(found)
    }

    /// The commands that set or remove the annotation of these Links, a line each.
    pub fn commands(&self, links: &[Link], end: Option<Timestamp>) -> String {
        let (namespace, key) = (self.namespace, labels::DRAINED_UNTIL);
        let flags = &self.cluster.flags;
        let commands = links.iter().map(|link| {
            let name = link.name_any();
            let command = match end.map(rfc3339) {
                Some(end) => flags.kubectl(
                    "-n {} annotate links.multicluster.linkerd.io {} --overwrite {}={}",
                    &[namespace, &name, key, &end],
                ),
                None => flags.kubectl(
                    "-n {} annotate links.multicluster.linkerd.io {} {}-",
                    &[namespace, &name, key],
                ),
            };
            format!("{}\n", command.line())
        });
        commands.collect()
    }

    /// Drains the cluster of these Links, and waits until it has left.
    pub async fn drain(
        &self,
        links: &[Link],
        end: Timestamp,
        wait: Duration,
    ) -> anyhow::Result<Drained> {
        self.annotate(links, Some(end)).await?;
        if wait.is_zero() {
            return Ok(Drained::Written);
        }
        let name = self.name;
        let waiting = format!("waiting for {name} to leave federated Services");
        let left = self.wait(&waiting, wait, |links| has_left(links, end));
        let all = Box::pin(left).await?.map_err(|why| {
            fail(
                format!("{name} has not left federated Services after {wait:?}: {why}"),
                format!(
                    "the Link is drained {}; check that the controller is running, or pass a longer --wait",
                    until(end)
                ),
            )
        })?;
        tokio::time::sleep(PROPAGATION).await;
        Ok(if all {
            Drained::Left
        } else {
            Drained::StaysIn(self.federated().await?)
        })
    }

    /// Ends the drain of the cluster of these Links, and waits until it has rejoined.
    pub async fn rejoin(&self, links: &[Link], wait: Duration) -> anyhow::Result<()> {
        self.annotate(links, None).await?;
        if wait.is_zero() {
            return Ok(());
        }
        let name = self.name;
        let waiting = format!("waiting for {name} to rejoin federated Services");
        let back = self.wait(&waiting, wait, is_back);
        Box::pin(back).await?.map_err(|why| {
            fail(
                format!("{name} has not rejoined federated Services after {wait:?}: {why}"),
                format!(
                    "check that the controller is running and the cluster is connected with {}, or pass a longer --wait",
                    self.cluster.flags.mc("check", &[])
                ),
            )
        })
    }

    /// Polls the Links until `check` returns `Ok`. The inner `Err` is its last error.
    async fn wait<T>(
        &self,
        waiting: &str,
        wait: Duration,
        check: impl Fn(&[Link]) -> Result<T, String>,
    ) -> anyhow::Result<Result<T, String>> {
        let attempt = async || anyhow::Ok(check(&self.links().await?));
        if self.has_others {
            return Box::pin(poll(POLL_INTERVAL, wait, attempt, |_| ())).await;
        }
        let progress = Progress::new(waiting);
        let waits = |why: &String| progress.say(&format!("{waiting} ({why})"));
        let polling = poll(POLL_INTERVAL, wait, attempt, waits);
        progress.during(Box::pin(polling)).await
    }

    /// The federated Services that the cluster is in, as `namespace/name`.
    async fn federated(&self) -> anyhow::Result<Vec<String>> {
        let mirrors = Mirrors::gather(self.cluster, self.name, self.namespace);
        let mirrors = Box::pin(mirrors).await?;
        let alone = mirrors.federated.into_iter().map(|listed| listed.object);
        let services = alone.chain(mirrors.shared);
        let services = services.map(|service| {
            let namespace = service.namespace.unwrap_or_default();
            format!("{namespace}/{}", service.name)
        });
        let mut services: Vec<String> = services.collect();
        services.sort();
        Ok(services)
    }

    /// Sets or removes the annotation of these Links.
    async fn annotate(&self, links: &[Link], end: Option<Timestamp>) -> anyhow::Result<()> {
        for link in links {
            let namespace = link.namespace().unwrap_or_default();
            let api = self.cluster.api::<Link>(&namespace);
            let name = link.name_any();
            // The UID excludes a newer Link of this name.
            let patch = json!({ "metadata": {
                "uid": link.uid(),
                "annotations": { labels::DRAINED_UNTIL: end.map(rfc3339) },
            } });
            let (parameters, patch) = (PatchParams::default(), Patch::Merge(patch));
            let patch = api.patch_metadata(&name, &parameters, &patch);
            let what = format!("annotate the Link {name}");
            self.cluster.request(&what, patch).await?;
        }
        Ok(())
    }
}

/// Whether the cluster of these Links has left all federated Services (`true`), or all but those without another member
/// (`false`), in the drain that lasts until `end`. `Err` while it has not, with the reason.
pub fn has_left(links: &[Link], end: Timestamp) -> Result<bool, String> {
    let mut why = "no status reported yet".to_owned();
    for link in links {
        let conditions = link.status.iter().flat_map(|status| &status.conditions);
        for condition in conditions {
            match condition.type_.as_str() {
                DRAINED if is_of(condition, end) => {
                    if condition.reason != drained::LEAVING {
                        return Ok(condition.reason == drained::DRAINED);
                    }
                    why.clone_from(&condition.message);
                }
                "Ready" if condition.status != "True" => {
                    why = in_brief(&format!("{}: {}", condition.reason, condition.message));
                }
                _ => {}
            }
        }
    }
    Err(why)
}

/// Whether a condition `Drained` is about the drain that lasts until `end`.
fn is_of(drained: &Condition, end: Timestamp) -> bool {
    shown_end(&drained.message).is_some_and(|shown| shown.as_second() == end.as_second())
}

/// The Links that have the annotation of a drain. `None` if the cluster is not drained: no Link has the annotation, and
/// no status shows a drain. Statuses still show one after a `drain --end` that timed out; then the list may be empty.
pub fn to_rejoin(mut links: Vec<Link>) -> Option<Vec<Link>> {
    let is_over = is_back(&links).is_ok();
    links.retain(|link| link.annotations().contains_key(labels::DRAINED_UNTIL));
    (!links.is_empty() || !is_over).then_some(links)
}

/// Succeeds if the status of none of these Links shows a drain. `Err` is what the status shows.
pub fn is_back(links: &[Link]) -> Result<(), String> {
    for status in links.iter().filter_map(|link| link.status.as_ref()) {
        if let Some(drained) = status.conditions.iter().find(|c| c.type_ == DRAINED) {
            return Err(format!("drained {}", drained.message));
        }
        let federated = status.federated_services.iter();
        let out = federated.filter(|service| {
            let mut said = service.conditions.iter();
            said.any(|c| c.reason == Reason::Drained.as_str())
        });
        let out = out.count();
        if out > 0 {
            return Err(format!("federated Services left to rejoin: {out}"));
        }
    }
    Ok(())
}
