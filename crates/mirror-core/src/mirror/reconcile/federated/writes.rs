//! The writes for a federated Service that has members, and for one that has none any longer: what is removed, and in
//! which order.

use std::collections::BTreeMap;

use serde_json::json;

use super::{
    failover::Preferred,
    federated_routes,
    members::{FederatedService, Members, SourceFields},
    slices,
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        members::MEMBERS,
    },
    mirror::{
        desired::{endpoints, service},
        metadata::{DesiredMetadata, desired::DesiredEntries, is_managed},
        outcome::Problem,
        ownership::membership::{Form, Membership, Memberships},
        state::State,
        target::exclusions::Exclusions,
        write::{ObjectKind, Write, forced_metadata, guarded},
    },
};

/// What is known once the writes of a federated Service are planned.
#[derive(Default)]
pub(super) struct WrittenMembers<'a> {
    /// The Service from which the federated Service gets its ports, if it can be seen.
    pub(super) source: Option<&'a Service>,
    /// What is wrong with gateways, by cluster.
    pub(super) problems: BTreeMap<String, Problem>,
    /// What is wrong with the preference.
    pub(super) preference: Option<Problem>,
}

impl<'a> Members<'a> {
    /// Plans the writes, if any are needed.
    pub(super) fn write(&self, writes: &mut Vec<Write>) -> WrittenMembers<'a> {
        match (self.source(), self.of.actual) {
            (Some((service, exclusions)), _) => self.write_from(service, exclusions, writes),
            (None, Some(actual)) => self.keep(actual, writes),
            (None, None) => WrittenMembers::default(),
        }
    }

    /// Plans the writes while the source cannot be seen. What came from it stays until it can be seen again.
    fn keep(&self, actual: &Service, writes: &mut Vec<Write>) -> WrittenMembers<'a> {
        let fields = SourceFields {
            labels: DesiredMetadata::of(&actual.metadata).labels,
            ports: &actual.spec.ports,
            opaque: actual.metadata.annotations.get(l::OPAQUE_PORTS),
        };
        let preferred = self.preferred();
        self.in_order(&fields, &preferred, writes, |writes| {
            self.rename_members(actual, &preferred, writes);
        })
    }

    fn write_from(
        &self,
        source: &'a Service,
        exclusions: &Exclusions,
        writes: &mut Vec<Write>,
    ) -> WrittenMembers<'a> {
        let state = self.of.state;
        let preferred = self.preferred();
        let mut labels = exclusions.labels_of(source);
        labels.insert(l::MIRRORED_SERVICE, "true".into());
        let mut annotations = exclusions.annotations(&source.metadata.annotations);
        annotations.extend(self.annotations(&preferred));
        let ports = &source.spec.ports;
        let fields = SourceFields {
            labels: labels.clone(),
            ports,
            opaque: source.metadata.annotations.get(l::OPAQUE_PORTS),
        };
        let metadata = DesiredMetadata {
            labels,
            annotations,
        };
        let (installation, namespace) = (&state.config.namespace, self.of.namespace);
        let desired = service::build(
            installation,
            namespace,
            &self.of.name,
            metadata,
            ports,
            false,
        );
        let written = match self.of.actual {
            None => {
                writes.push(desired.create());
                self.in_order(&fields, &preferred, writes, |_| ())
            }
            Some(actual) if !service::must_be_replaced(&desired, actual) => {
                self.in_order(&fields, &preferred, writes, |writes| {
                    writes.extend(service::patch(&desired, actual));
                })
            }
            Some(actual) if self.all_seen() => {
                delete_with_slices(state, actual, writes);
                WrittenMembers::default()
            }
            // It is not replaced yet: its list of members is the only record of those that cannot be seen.
            Some(actual) => self.in_order(&fields, &preferred, writes, |writes| {
                self.rename_members(actual, &preferred, writes);
            }),
        };
        WrittenMembers {
            source: Some(source),
            ..written
        }
    }

    /// Changes the Service, its slices if it has or needs any, and its routes. If its form is slices, these are written
    /// before the Service, otherwise after it. A Service that turned to discovery keeps its slices: discovery streams that
    /// began with them continue to use them, and new streams ignore them. Routes come last, when their backends have
    /// endpoints.
    fn in_order(
        &self,
        fields: &SourceFields<'_>,
        preferred: &Preferred,
        writes: &mut Vec<Write>,
        change: impl FnOnce(&mut Vec<Write>),
    ) -> WrittenMembers<'a> {
        let mut written = WrittenMembers::default();
        if self.form == Form::Slices {
            written.problems = self.reconcile_slices(fields, preferred, writes);
            change(writes);
        } else {
            change(writes);
            if slices::exist(self.of.state, self.of.namespace, &self.of.name) {
                self.reconcile_slices(fields, preferred, writes);
            }
        }
        let problem = self.reconcile_routes(fields, preferred, writes);
        written.preference = problem.or_else(|| preferred.problem.clone());
        written
    }

    /// The source of labels, annotations and ports: the local member, or else the member of the oldest Link. Drained
    /// clusters count too, so that a drain changes only the list of members. `None` if the source cannot be seen.
    fn source(&self) -> Option<(&'a Service, &'a Exclusions)> {
        if let Some(local) = self.of.local {
            return Some((local, &self.of.state.config.local_exclusions));
        }
        let oldest = self.oldest()?;
        let seen = oldest.membership.seen()?;
        Some((seen, &oldest.target.exclusions))
    }

    fn all_seen(&self) -> bool {
        self.clusters.iter().all(|cluster| {
            let linked = self.memberships.get(cluster);
            linked.is_some_and(|linked| matches!(linked.membership, Membership::Member(_)))
        })
    }

    /// The annotations that name the members and the preference. Remote members are sorted by cluster, so that the text
    /// does not depend on the order of events.
    fn annotations(&self, preferred: &Preferred) -> DesiredEntries<'_> {
        let service = self.of.service;
        let remote = self.clusters.iter();
        let remote = remote.map(|cluster| format!("{service}@{cluster}"));
        let remote: Vec<String> = remote.collect();
        let [others, own] = self.form.keys();
        let mut annotations = DesiredEntries::default();
        // Without any annotation of members, it would not be a federated Service.
        if !remote.is_empty() || self.of.local.is_none() {
            annotations.insert(others, remote.join(",").into());
        }
        // A local member in its hold-down is named too. The route does not send all requests to it, but whether another
        // member could take them is not known here.
        if self.of.local.is_some() {
            annotations.insert(own, service.into());
        }
        if let Some(preference) = &preferred.preference {
            annotations.insert(l::PREFER, preference.to_string().into());
        }
        if !preferred.failed_over.0.is_empty() {
            annotations.insert(l::FAILED_OVER, preferred.failed_over.to_string().into());
        }
        annotations
    }

    /// Changes only the list of members, and restores a label that somebody may have removed.
    fn rename_members(&self, actual: &Service, preferred: &Preferred, writes: &mut Vec<Write>) {
        let wanted = self.annotations(preferred);
        let keys = || {
            MEMBERS
                .into_iter()
                .flatten()
                .chain([l::PREFER, l::FAILED_OVER])
        };
        let differs = keys().any(|key| actual.metadata.annotations.get(key) != wanted.get(key));
        if !differs {
            return;
        }
        let mut metadata = DesiredMetadata::of(&actual.metadata);
        // The controller and the admission policy recognize the Service by this label.
        metadata.labels.insert(l::MIRRORED_SERVICE, "true".into());
        let annotations = &mut metadata.annotations;
        for key in keys() {
            annotations.remove(key);
        }
        annotations.extend(wanted);
        annotations.insert(l::MANAGED_BY, l::MANAGER.into());
        let installation = &self.of.state.config.namespace;
        annotations.insert(l::INSTALLATION, installation.as_str().into());
        // Without the hash, everything is compared again once the oldest member is seen.
        annotations.remove(l::DESIRED_STATE);
        let patch = forced_metadata(&metadata, &actual.metadata);
        let (kind, name) = (ObjectKind::Service, &self.of.name);
        writes.push(guarded(kind, name, &actual.metadata, patch, json!({})));
    }
}

impl FederatedService<'_> {
    /// Deletes a federated Service without members, if we wrote it, or if all members that it names are known to have
    /// left.
    pub(super) fn remove(&self, memberships: &Memberships<'_>, writes: &mut Vec<Write>) {
        let Some(actual) = self.actual else {
            return self.delete_ownerless(writes);
        };
        let mut local = MEMBERS.iter().map(|[_, local]| local);
        let names_local = local.any(|key| actual.metadata.annotations.contains_key(key));
        let are_known = self
            .named
            .iter()
            .all(|cluster| memberships.contains_key(cluster))
            && (!names_local || self.state.config.local_members.is_some());
        if are_known || self.state.may_delete(&actual.metadata) {
            delete_with_slices(self.state, actual, writes);
        } else if !is_managed(&actual.metadata) {
            // Somebody has taken the Service over. Our slices and routes for it lead to clusters that are not linked any
            // more.
            delete_what_is_behind(self.state, self.namespace, &self.name, writes);
        }
    }

    /// Deletes what is left of a federated Service that is gone, unless the name belongs to somebody else now. Kubernetes
    /// deletes what still has its owner.
    fn delete_ownerless(&self, writes: &mut Vec<Write>) {
        let (state, namespace, name) = (self.state, self.namespace, &self.name);
        if state.existing(namespace, name).is_some() || state.is_foreign(namespace, name) {
            return self.delete_left(writes);
        }
        federated_routes::delete_ownerless(state, namespace, name, writes);
        self.delete_slices(|_| true, writes);
    }

    /// Deletes what is left of a federated Service whose name belongs to somebody else. If that is no other object of
    /// ours, somebody may have taken the Service over, and our slices and routes still direct its traffic. Otherwise
    /// these are slices that lost their owner and the label of their Service. They take no traffic, but they keep names
    /// that others want.
    pub(super) fn delete_left(&self, writes: &mut Vec<Write>) {
        if self.state.is_foreign(self.namespace, &self.name) {
            return delete_what_is_behind(self.state, self.namespace, &self.name, writes);
        }
        let is_stripped =
            |slice: &EndpointSlice| !slice.metadata.labels.contains_key(l::SLICE_SERVICE);
        self.delete_slices(is_stripped, writes);
    }

    /// Deletes slices of ours that have no owner.
    fn delete_slices(&self, which: impl Fn(&EndpointSlice) -> bool, writes: &mut Vec<Write>) {
        let slices = self.state.local_slices(self.namespace, &self.name).iter();
        let left = slices
            .filter(|slice| slice.metadata.owner_references.is_empty())
            .filter(|slice| which(slice));
        let left: Vec<_> = left.cloned().collect();
        endpoints::reconcile(self.state, Vec::new(), &left, writes);
    }
}

/// Deletes slices first: once their owner is deleted, Kubernetes deletes them too, and both deletions would race. A
/// Service with a preference waits until the routes are listed: it is the only record that they may exist, and Kubernetes
/// does not delete a route that lost its owner.
fn delete_with_slices(state: &State, actual: &Service, writes: &mut Vec<Write>) {
    let annotations = &actual.metadata.annotations;
    if annotations.contains_key(l::PREFER) && !state.knows_routes() {
        return;
    }
    let (namespace, name) = (actual.metadata.namespace(), actual.metadata.name());
    delete_what_is_behind(state, namespace, name, writes);
    writes.push(Write::delete_service(actual));
}

fn delete_what_is_behind(state: &State, namespace: &str, name: &str, writes: &mut Vec<Write>) {
    federated_routes::delete(state, namespace, name, writes);
    let slices = state.local_slices(namespace, name);
    endpoints::reconcile(state, Vec::new(), slices, writes);
}
