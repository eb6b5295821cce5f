//! A federated Service and the members that it should have.

use std::collections::BTreeSet;

use crate::{
    api::{
        k8s::{Service, ServicePort},
        labels as l,
    },
    mirror::{
        metadata::{desired::DesiredEntries, is_federated, remote_members},
        names::{NameOwner, Purpose, federated_name},
        ownership::membership::{ClusterMembership, Form, Membership, Memberships, local_member},
        state::State,
    },
};

/// A federated Service, which may not exist yet.
pub(super) struct FederatedService<'a> {
    pub(super) state: &'a State,
    pub(super) namespace: &'a str,
    /// Name of its members.
    pub(super) service: &'a str,
    pub(super) name: String,
    /// The existing Service, if it is ours.
    pub(super) actual: Option<&'a Service>,
    /// The clusters that the existing Service names as having a member.
    pub(super) named: BTreeSet<&'a str>,
    /// Its member in the local cluster.
    pub(super) local: Option<&'a Service>,
}

impl<'a> FederatedService<'a> {
    pub(super) fn of(state: &'a State, namespace: &'a str, service: &'a str) -> Self {
        let name = federated_name(service);
        let actual = state.existing(namespace, &name);
        let actual = actual.filter(|actual| is_ours(state, namespace, service, actual));
        let members = actual.into_iter();
        let members = members.flat_map(|actual| remote_members(&actual.metadata));
        let members = members.filter(|(name, _)| *name == service);
        Self {
            state,
            namespace,
            service,
            name,
            actual,
            named: members.map(|(_, cluster)| cluster).collect(),
            local: local_member(state, namespace, service),
        }
    }

    /// The form of the existing Service.
    pub(super) fn form_until_now(&self) -> Option<Form> {
        self.actual.map(Form::of)
    }

    /// UID; empty if it does not exist yet.
    pub(super) fn uid(&self) -> Option<&'a str> {
        self.actual
            .and_then(|actual| actual.metadata.uid.as_deref())
    }

    /// Whether a cluster stays although it has no Link in charge: its Link cannot be read now, or names a new cluster that
    /// is not listed yet.
    pub(super) fn may_keep(&self, cluster: &str, memberships: &Memberships<'_>) -> bool {
        !memberships.contains_key(cluster)
            && self.state.may_keep(cluster)
            && !self.state.protects(self.namespace)
    }
}

/// Whether the existing Service with the name of the federated Service is ours.
fn is_ours(state: &State, namespace: &str, service: &str, actual: &Service) -> bool {
    let own = Purpose::Federated(service);
    match state.name_owner(actual) {
        NameOwner::Purpose(claim) => claim == own,
        NameOwner::Stray => {
            let name = actual.metadata.name();
            is_federated(&actual.metadata) || state.first_claim(namespace, name) == Some(own)
        }
        NameOwner::Theirs(_) | NameOwner::Unnamed | NameOwner::Foreign => false,
    }
}

/// The members that a federated Service should have.
pub(super) struct Members<'a> {
    pub(super) of: &'a FederatedService<'a>,
    /// What is known of all clusters.
    pub(super) memberships: &'a Memberships<'a>,
    /// The clusters that have a member.
    pub(super) clusters: BTreeSet<&'a str>,
    pub(super) form: Form,
}

/// What a federated Service takes over from its source.
pub(super) struct SourceFields<'a> {
    pub(super) labels: DesiredEntries<'a>,
    pub(super) ports: &'a [ServicePort],
    /// The annotation that names opaque ports.
    pub(super) opaque: Option<&'a str>,
}

/// What the annotation for the preference of a federated Service says, from whoever decides about it.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestedPreference<'a> {
    /// The value of the annotation, if it is there.
    Value(Option<&'a str>),
    /// No preference. The member in this cluster has the annotation, but does not decide.
    Ignored(&'a str),
    /// It is not known which annotation decides: the existing preference stays.
    Unknown,
}

impl<'a> Members<'a> {
    /// The oldest of the Links whose clusters have members. `None` if a Link that cannot be read now may be older.
    pub(super) fn oldest(&self) -> Option<&'a ClusterMembership<'a>> {
        let members = self.memberships.iter().filter(|(cluster, linked)| {
            self.clusters.contains(*cluster) || matches!(linked.membership, Membership::Drained(_))
        });
        let members = members.map(|(_, linked)| linked);
        let oldest = members.min_by_key(|linked| linked.target.age())?;
        let links = &self.of.state.links;
        let mut unread = self
            .clusters
            .iter()
            .filter(|cluster| !self.memberships.contains_key(*cluster));
        let is_older = unread.any(|cluster| links.older_may_keep(cluster, oldest.target.age()));
        (!is_older).then_some(oldest)
    }

    /// What decides about the preference: the local member, or else the oldest Link. A member in another cluster does
    /// not: it could take all requests.
    pub(super) fn requested_preference(&self) -> RequestedPreference<'a> {
        let of = |service: &'a Service| service.metadata.annotations.get(l::PREFER);
        if let Some(local) = self.of.local {
            return RequestedPreference::Value(of(local));
        }
        let is_kept = |cluster: &&str| self.of.may_keep(cluster, self.memberships);
        match self.oldest() {
            None if self.clusters.iter().any(is_kept) => RequestedPreference::Unknown,
            // Its last members have left, and it waits for a new cluster.
            None => RequestedPreference::Value(None),
            Some(linked) => match &linked.target.prefer {
                Some(text) => RequestedPreference::Value(Some(text)),
                None if linked.membership.seen().and_then(of).is_some() => {
                    RequestedPreference::Ignored(&linked.target.cluster)
                }
                None => RequestedPreference::Value(None),
            },
        }
    }
}
