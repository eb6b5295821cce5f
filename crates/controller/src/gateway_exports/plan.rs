//! What the gateway should forward to, and when that is written. Each change is a rollout of the gateway, so changes are
//! collected, and what is not exported any more stays for a while. No client; the time is passed in.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Service};
use kube::{Resource, ResourceExt as _, core::PartialObjectMeta};
use mirror_core::api::gateway_suffixes::{ADDITIONAL_ENV, GatewaySuffixes};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::watch::Event;

/// How long new namespaces are collected before they are written.
const COLLECT: Duration = Duration::from_secs(5);
/// Minimum time between two writes: that of a rollout.
const BETWEEN: Duration = Duration::from_secs(30);
/// Time until the next write after one that came too late.
const AGAIN: Duration = Duration::from_secs(1);
/// How long the gateway still forwards to a namespace without exports.
const KEEP: Duration = Duration::from_secs(60 * 60);
/// Maximum size of the list. A program does not start if one of its variables has more than 128 KiB.
const LONGEST: usize = 96 << 10;
/// The namespace of the Service of the API server, which nobody exports, and which must stay out of reach.
const API_SERVER: &str = "default";

/// The gateway of this cluster.
#[derive(Clone, Debug)]
pub struct ExportGateway {
    /// The namespace of the installation.
    pub namespace: String,
    /// Name of its Deployment.
    pub deployment: String,
    /// The domain of this cluster.
    pub domain: String,
    /// Namespaces in which nothing may be mirrored. Of these, it forwards only to the exported Services.
    pub protected: BTreeSet<String>,
}

impl ExportGateway {
    /// The suffix that lets the gateway forward to a Service: its namespace, so that further exports there change
    /// nothing. In namespaces with Services that must stay out of reach, it is the Service itself.
    fn suffix(&self, namespace: &str, service: &str) -> String {
        let domain = &self.domain;
        if self.is_by_service(namespace) {
            format!("{service}.{namespace}.svc.{domain}.")
        } else {
            format!("{namespace}.svc.{domain}.")
        }
    }

    fn is_by_service(&self, namespace: &str) -> bool {
        [API_SERVER, &self.namespace].contains(&namespace) || self.protected.contains(namespace)
    }

    /// Whether a suffix could be one of [`Self::suffix`].
    fn has(&self, suffix: &str) -> bool {
        let name = suffix.strip_suffix(&format!(".svc.{}.", self.domain));
        name.is_some_and(|name| match name.split('.').collect::<Vec<_>>()[..] {
            [namespace] => !self.is_by_service(namespace),
            [_, namespace] => self.is_by_service(namespace),
            _ => false,
        })
    }
}

/// A change of an object.
pub enum ExportChange {
    /// Of the gateway's Deployment.
    Gateway(Event<Deployment>),
    /// Of exported Services.
    Exported(Event<PartialObjectMeta<Service>>),
    /// Of members of federated Services.
    Members(Event<PartialObjectMeta<Service>>),
}

/// What to do.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// Nothing, until something changes.
    Rest,
    /// Nothing before this time.
    At(Instant),
    /// To write this patch of the Deployment.
    Write(Value),
    /// Nothing: the list would have this number of bytes.
    TooLong(usize),
}

/// Namespace and name of Services; `None` before the first list.
type ExportedServices = Option<BTreeSet<(String, String)>>;

/// What is known.
pub struct Forwarding {
    gateway: ExportGateway,
    exported: ExportedServices,
    members: ExportedServices,
    /// The resource version of the Deployment, and the value of its annotation; `None` while it does not exist.
    deployment: Option<(String, Option<GatewaySuffixes>)>,
    /// Since when suffixes in the annotation are of nothing that is exported.
    unexported: BTreeMap<String, Instant>,
    /// Since when suffixes are missing in the annotation.
    missing: Option<Instant>,
    /// When the next write may be.
    next_write: Instant,
}

impl Forwarding {
    pub fn new(gateway: ExportGateway, now: Instant) -> Self {
        Self {
            gateway,
            exported: None,
            members: None,
            deployment: None,
            unexported: BTreeMap::new(),
            missing: None,
            next_write: now,
        }
    }

    pub fn on(&mut self, change: ExportChange) {
        match change {
            ExportChange::Exported(change) => update(&mut self.exported, change),
            ExportChange::Members(change) => update(&mut self.members, change),
            ExportChange::Gateway(Event::List { objects, .. }) => {
                self.deployment = objects.first().map(|found| read(found));
            }
            ExportChange::Gateway(Event::Apply(found)) => self.deployment = Some(read(&found)),
            ExportChange::Gateway(Event::Delete(_)) => self.deployment = None,
        }
    }

    /// Somebody else has changed the Deployment before the last write, such as its status. Its watch reports that.
    pub fn came_late(&mut self, now: Instant) {
        self.next_write = now + AGAIN;
    }

    /// What to do now. A write counts as done.
    pub fn next(&mut self, now: Instant) -> Next {
        let (Some(exported), Some(members)) = (&self.exported, &self.members) else {
            return Next::Rest;
        };
        let Some((version, there)) = &self.deployment else {
            return Next::Rest;
        };
        let services = exported.union(members);
        let wanted = services.map(|(namespace, name)| self.gateway.suffix(namespace, name));
        let mut wanted: BTreeSet<String> = wanted.collect();
        // What somebody else has written is replaced at once: the gateway may forward to everything.
        let ours = there.as_ref().map(|suffixes| &suffixes.0);
        let ours = ours.filter(|all| all.iter().all(|suffix| self.gateway.has(suffix)));
        let due = match ours {
            None => now,
            Some(there) => {
                let extra: Vec<&String> = there.difference(&wanted).collect();
                self.unexported.retain(|suffix, _| extra.contains(&suffix));
                for suffix in extra {
                    self.unexported.entry(suffix.clone()).or_insert(now);
                }
                let is_missing = !wanted.is_subset(there);
                self.missing = is_missing.then(|| self.missing.unwrap_or(now));
                let removal = self.unexported.values().min().map(|since| *since + KEEP);
                let addition = self.missing.map(|since| since + COLLECT);
                let Some(due) = removal.into_iter().chain(addition).min() else {
                    return Next::Rest;
                };
                due
            }
        };
        let due = due.max(self.next_write);
        if due > now {
            return Next::At(due);
        }
        let kept = self.unexported.iter();
        let kept = kept.filter(|(_, since)| **since + KEEP > now);
        wanted.extend(kept.map(|(suffix, _)| suffix.clone()));
        let annotation = GatewaySuffixes(wanted).to_annotation();
        if annotation.len() > LONGEST {
            return Next::TooLong(annotation.len());
        }
        (self.missing, self.next_write) = (None, now + BETWEEN);
        Next::Write(json!({
            "metadata": { "resourceVersion": version },
            "spec": { "template": { "metadata": { "annotations": { ADDITIONAL_ENV: annotation } } } },
        }))
    }
}

fn update(services: &mut ExportedServices, change: Event<PartialObjectMeta<Service>>) {
    match change {
        Event::List { objects, .. } => {
            *services = Some(objects.iter().map(|service| id(&**service)).collect());
        }
        Event::Apply(service) => drop(services.get_or_insert_default().insert(id(&*service))),
        Event::Delete(service) => drop(services.get_or_insert_default().remove(&id(&*service))),
    }
}

fn id(service: &impl Resource) -> (String, String) {
    (service.namespace().unwrap_or_default(), service.name_any())
}

fn read(deployment: &Deployment) -> (String, Option<GatewaySuffixes>) {
    let template = deployment.spec.as_ref().map(|spec| &spec.template);
    let annotations =
        template.and_then(|template| template.metadata.as_ref()?.annotations.as_ref());
    let annotation = annotations.and_then(|all| all.get(ADDITIONAL_ENV));
    let suffixes = annotation.and_then(|value| GatewaySuffixes::of_annotation(value));
    (deployment.resource_version().unwrap_or_default(), suffixes)
}

#[cfg(test)]
mod tests;
