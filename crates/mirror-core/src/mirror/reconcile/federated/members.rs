//! The members that a federated Service should have, and the writes for them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::{
    failover::{Asked, Known, Preferred},
    removal::delete_with_slices,
    routes, slices,
};
use crate::{
    api::{
        k8s::{Service, ServicePort},
        labels as l,
        members::MEMBERS,
    },
    mirror::{
        desired::service,
        metadata::{DesiredMetadata, desired::DesiredEntries},
        outcome::Problem,
        ownership::membership::{Form, Linked, Part, Parts},
        state::State,
        target::exclusions::Exclusions,
        write::{Object, ObjectKind, Write, forced_metadata, guarded},
    },
};

/// The members that a federated Service should have.
pub(crate) struct Members<'a, 's> {
    pub(crate) namespace: &'a str,
    pub(crate) service: &'a str,
    pub(crate) name: &'a str,
    pub(crate) local: Option<&'s Service>,
    pub(crate) clusters: &'a BTreeSet<&'a str>,
    pub(crate) form: Form,
}

/// What is known once the writes of a federated Service are planned.
#[derive(Default)]
pub(crate) struct Written<'s> {
    /// The Service from which the federated Service gets its ports, if it can be seen.
    pub(crate) source: Option<&'s Service>,
    /// What is wrong with gateways, by cluster.
    pub(crate) problems: BTreeMap<String, Problem>,
    /// What is wrong with the preference.
    pub(crate) preference: Option<Problem>,
}

/// What a federated Service takes over from its source, and its preference.
struct Shown<'a> {
    labels: DesiredEntries<'a>,
    ports: &'a [ServicePort],
    opaque: Option<&'a str>,
    preferred: Preferred,
}

impl<'s> Members<'_, 's> {
    /// Plans the writes, if any are needed.
    pub(crate) fn write(
        &self,
        state: &'s State,
        parts: &Parts<'s>,
        actual: Option<&Service>,
        writes: &mut Vec<Write>,
    ) -> Written<'s> {
        let known = Known {
            state,
            namespace: self.namespace,
            service: self.service,
            local: self.local,
            form: self.form,
            parts,
            clusters: self.clusters,
            has_routes: routes::exist(state, self.namespace, self.name),
        };
        let Some((service, exclusions)) = self.source(state, parts) else {
            // The oldest member cannot be seen. What came from it stays until it can be seen again.
            let Some(actual) = actual else {
                return Written::default();
            };
            let preferred = known.preferred(self.asked(parts), Some(actual));
            let shown = Shown {
                labels: DesiredMetadata::of(&actual.metadata).labels,
                ports: &actual.spec.ports,
                opaque: actual.metadata.annotations.get(l::OPAQUE_PORTS),
                preferred,
            };
            let rename =
                |writes: &mut Vec<Write>| self.rename_members(state, actual, &shown, writes);
            let problems = self.in_order(state, parts, &shown, Some(actual), writes, rename);
            let preference = self.route(state, &shown, Some(actual), writes);
            return Written {
                source: None,
                problems,
                preference,
            };
        };
        let preferred = known.preferred(self.asked(parts), actual);
        let mut labels = exclusions.labels_of(service);
        labels.insert(l::MIRRORED_SERVICE, "true".into());
        let mut annotations = exclusions.annotations(&service.metadata.annotations);
        annotations.extend(self.annotations(&preferred));
        let opaque = service.metadata.annotations.get(l::OPAQUE_PORTS);
        let shown = Shown {
            labels: labels.clone(),
            ports: &service.spec.ports,
            opaque,
            preferred,
        };
        let metadata = DesiredMetadata {
            labels,
            annotations,
        };
        let ports = &service.spec.ports;
        let installation = &state.config.namespace;
        let desired = service::build(
            installation,
            self.namespace,
            self.name,
            metadata,
            ports,
            false,
        );
        let problems = match actual {
            Some(actual) if service::must_be_replaced(&desired, actual) && self.all_seen(parts) => {
                delete_with_slices(state, actual, writes);
                return Written {
                    source: Some(service),
                    ..Written::default()
                };
            }
            // It is not replaced yet: its list of members is the only record of those that cannot be seen.
            Some(actual) if service::must_be_replaced(&desired, actual) => {
                let rename =
                    |writes: &mut Vec<Write>| self.rename_members(state, actual, &shown, writes);
                self.in_order(state, parts, &shown, Some(actual), writes, rename)
            }
            Some(actual) => {
                let patch =
                    |writes: &mut Vec<Write>| writes.extend(service::patch(&desired, actual));
                self.in_order(state, parts, &shown, Some(actual), writes, patch)
            }
            None => {
                let created = Object::Service(Box::new(desired.service()));
                writes.push(Write::Create(created));
                self.in_order(state, parts, &shown, None, writes, |_| ())
            }
        };
        // Routes come last, when their backends have endpoints.
        let preference = self.route(state, &shown, actual, writes);
        Written {
            source: Some(service),
            problems,
            preference,
        }
    }

    /// Changes the Service, and its slices if it has or needs any. If its form is slices, these are written before the
    /// Service, otherwise after it. A Service that turned to discovery keeps its slices: discovery streams that began
    /// with them continue to use them, and new streams ignore them. Returns what is wrong with gateways.
    fn in_order(
        &self,
        state: &State,
        parts: &Parts<'_>,
        shown: &Shown<'_>,
        actual: Option<&Service>,
        writes: &mut Vec<Write>,
        change: impl FnOnce(&mut Vec<Write>),
    ) -> BTreeMap<String, Problem> {
        if self.form == Form::Discovery && !slices::exist(state, self.namespace, self.name) {
            change(writes);
            return BTreeMap::new();
        }
        let owner = slices::Owner {
            state,
            namespace: self.namespace,
            service: self.service,
            name: self.name,
            uid: actual.and_then(|actual| actual.metadata.uid.as_deref()),
            labels: &shown.labels,
            ports: shown.ports,
            preferred: &shown.preferred,
        };
        let remote = self
            .clusters
            .iter()
            .filter_map(|cluster| parts.get(cluster));
        let reconcile =
            |writes: &mut Vec<Write>| owner.reconcile(remote, self.local.is_some(), writes);
        if self.form == Form::Slices {
            let problems = reconcile(writes);
            change(writes);
            problems
        } else {
            change(writes);
            reconcile(writes);
            BTreeMap::new()
        }
    }

    /// Plans the writes for its routes. Returns what is wrong with its preference.
    fn route(
        &self,
        state: &State,
        shown: &Shown<'_>,
        actual: Option<&Service>,
        writes: &mut Vec<Write>,
    ) -> Option<Problem> {
        let routes = routes::Owned {
            state,
            namespace: self.namespace,
            service: self.service,
            name: self.name,
            uid: actual.and_then(|actual| actual.metadata.uid.as_deref()),
            ports: shown.ports,
            local: self.local,
            opaque: shown.opaque,
        };
        let problem = routes.reconcile(&shown.preferred, writes);
        problem.or_else(|| shown.preferred.problem.clone())
    }

    /// The source of labels, annotations and ports: the local member, or else the member of the oldest Link. Drained
    /// clusters count too, so that a drain changes only the list of members. `None` if the source cannot be seen.
    fn source(&self, state: &'s State, parts: &Parts<'s>) -> Option<(&'s Service, &'s Exclusions)> {
        if let Some(local) = self.local {
            return Some((local, &state.config.local_exclusions));
        }
        let oldest = self.oldest(parts)?;
        let seen = oldest.part.seen()?;
        Some((seen, &oldest.target.exclusions))
    }

    /// The oldest of the Links whose clusters have members.
    fn oldest<'p>(&self, parts: &'p Parts<'s>) -> Option<&'p Linked<'s>> {
        let members = parts.iter().filter(|(cluster, linked)| {
            self.clusters.contains(*cluster) || matches!(linked.part, Part::Drained(_))
        });
        let members = members.map(|(_, linked)| linked);
        members.min_by_key(|linked| linked.target.age())
    }

    /// What decides about the preference: the local member, or else the oldest Link. A member in another cluster does
    /// not: it could take all requests.
    fn asked<'p>(&'p self, parts: &'p Parts<'s>) -> Asked<'p> {
        let of = |service: &'p Service| service.metadata.annotations.get(l::PREFER);
        if let Some(local) = self.local {
            return Asked::For(of(local));
        }
        // A Link that cannot be read now may be the oldest.
        let are_known = self
            .clusters
            .iter()
            .all(|cluster| parts.contains_key(cluster));
        match self.oldest(parts).filter(|_| are_known) {
            None => Asked::Unknown,
            Some(linked) => match &linked.target.prefer {
                Some(text) => Asked::For(Some(text)),
                None if linked.part.seen().and_then(of).is_some() => {
                    Asked::Ignored(&linked.target.cluster)
                }
                None => Asked::For(None),
            },
        }
    }

    fn all_seen(&self, parts: &Parts<'_>) -> bool {
        self.clusters.iter().all(|cluster| {
            let linked = parts.get(cluster);
            linked.is_some_and(|linked| matches!(linked.part, Part::Member(_)))
        })
    }

    /// The annotations that name the members and the preference. Remote members are sorted by cluster, so that the text
    /// does not depend on the order of events.
    fn annotations(&self, preferred: &Preferred) -> DesiredEntries<'_> {
        let remote: Vec<String> = self
            .clusters
            .iter()
            .map(|cluster| format!("{}@{cluster}", self.service))
            .collect();
        let [others, own] = self.form.keys();
        let mut annotations = DesiredEntries::default();
        if !remote.is_empty() {
            annotations.insert(others, remote.join(",").into());
        }
        // A local member in its hold-down is named too. The route does not send all requests to it, but whether another
        // member could take them is not known here.
        if self.local.is_some() {
            annotations.insert(own, self.service.into());
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
    fn rename_members(
        &self,
        state: &State,
        actual: &Service,
        shown: &Shown<'_>,
        writes: &mut Vec<Write>,
    ) {
        let wanted = self.annotations(&shown.preferred);
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
        annotations.insert(l::INSTALLATION, state.config.namespace.as_str().into());
        // Without the hash, everything is compared again once the oldest member is seen.
        annotations.remove(l::DESIRED_STATE);
        let patch = forced_metadata(&metadata, &actual.metadata);
        writes.push(guarded(
            ObjectKind::Service,
            self.name,
            &actual.metadata,
            patch,
            json!({}),
        ));
    }
}
