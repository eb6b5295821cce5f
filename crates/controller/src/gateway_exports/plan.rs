//! What the gateway should forward to, and when that is written. Each change is a rollout of the gateway, so changes are
//! collected, and what is not exported any more stays for a while. No client; the time is passed in.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt as _;
use mirror_core::api::{
    consent::ExportConsent,
    gateway_suffixes::{ADDITIONAL_ENV, GatewaySuffixes},
    k8s::Service,
};
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
    /// The namespace of Linkerd, which is the same in other clusters: it is a part of identities.
    pub linkerd_namespace: String,
    /// Whether it forwards only to exported Services, for the clusters that these are exported to. If not, it forwards to
    /// all Services of the namespaces.
    pub permits: bool,
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
    Exported(Event<Service>),
    /// Of members of federated Services.
    Members(Event<Service>),
}

/// What is kept of an exported Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedService {
    /// Whether its Pods have names of their own.
    pub is_headless: bool,
    /// To which clusters it is exported; `None` if its annotation is invalid.
    pub consent: Option<ExportConsent>,
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

/// Namespace and name of a Service.
pub type ExportedName = (String, String);
/// Services by namespace and name; `None` before the first list.
type ExportedServices = Option<BTreeMap<ExportedName, ExportedService>>;

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

    /// The exported Services; `None` before they are known.
    pub fn services(&self) -> Option<BTreeMap<&ExportedName, &ExportedService>> {
        let (exported, members) = (self.exported.as_ref()?, self.members.as_ref()?);
        Some(exported.iter().chain(members).collect())
    }

    /// Somebody else has changed the Deployment before the last write, such as its status. Its watch reports that.
    pub fn came_late(&mut self, now: Instant) {
        self.next_write = now + AGAIN;
    }

    /// What to do now. A write counts as done.
    pub fn next(&mut self, now: Instant) -> Next {
        let (Some(services), Some((version, there))) = (self.services(), &self.deployment) else {
            return Next::Rest;
        };
        let services = services.into_keys();
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

fn update(services: &mut ExportedServices, change: Event<Service>) {
    match change {
        Event::List { objects, .. } => {
            *services = Some(objects.iter().map(|service| exported(service)).collect());
        }
        Event::Apply(service) => services
            .get_or_insert_default()
            .extend([exported(&service)]),
        Event::Delete(service) => {
            let (id, _) = exported(&service);
            services.get_or_insert_default().remove(&id);
        }
    }
}

fn exported(service: &Service) -> (ExportedName, ExportedService) {
    let metadata = &service.metadata;
    let id = (metadata.namespace().to_owned(), metadata.name().to_owned());
    let exported = ExportedService {
        is_headless: service.is_headless(),
        consent: ExportConsent::of(|key| metadata.annotations.get(key)).ok(),
    };
    (id, exported)
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
