//! Keys of a store's indexes, besides namespaces and names.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        metadata::Metadata,
        preference::FailedOver,
        routes::Route,
        wire::Kept,
    },
    mirror::{
        metadata::{Owner, is_managed, is_our_slice, member_clusters, owner, preferred_clusters},
        name_owner::{NameOwner, labelled},
    },
};

/// Used instead of a cluster's name for objects that lost the label for their cluster.
pub(crate) const ANY: &str = "";

/// Objects with index keys. An object may belong to another one of its namespace, which is its group.
pub trait Grouped: Kept {
    /// Name of the object that this one belongs to: a slice's Service, an endpoint mirror's headless mirror.
    fn group(&self) -> Option<&str>;

    /// Host names of its endpoints, each once.
    fn hosts(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }

    /// Target clusters to which it belongs, each once, and an empty name if it may belong to any.
    fn clusters(&self) -> BTreeSet<&str>;

    /// When its key has to be planned again, even if nothing else happens until then.
    fn due(&self) -> Option<Timestamp> {
        None
    }
}

impl Grouped for EndpointSlice {
    /// The label may have been changed in a slice of ours. Its owner says for which Service it was created, and its name
    /// begins with that name.
    fn group(&self) -> Option<&str> {
        let Metadata {
            labels,
            owner_references,
            ..
        } = &self.metadata;
        let mut owners = owner_references.iter().map(|owner| &*owner.name);
        let created_for = |service: &&str| {
            let suffix = self.metadata.name().strip_prefix(service);
            is_our_slice(self) && suffix.is_some_and(|suffix| suffix.starts_with('-'))
        };
        owners
            .find(created_for)
            .or_else(|| labels.get(l::SLICE_SERVICE))
    }

    fn hosts(&self) -> BTreeSet<&str> {
        self.endpoints
            .iter()
            .filter_map(|endpoint| endpoint.hostname.as_deref())
            .collect()
    }

    fn clusters(&self) -> BTreeSet<&str> {
        let labels = &self.metadata.labels;
        let ours = [l::MIRRORED_SERVICE, l::MIRRORED_GATEWAY];
        let ours = ours.iter().any(|label| labels.contains_key(label));
        let cluster = labels.get(l::CLUSTER_NAME).or_else(|| ours.then_some(ANY));
        cluster.into_iter().collect()
    }
}

impl Grouped for Service {
    fn group(&self) -> Option<&str> {
        self.metadata.labels.get(l::HEADLESS_MIRROR)
    }

    fn clusters(&self) -> BTreeSet<&str> {
        let mut clusters = BTreeSet::new();
        match owner(&self.metadata) {
            Owner::Mirror(own) | Owner::EndpointMirror(own, _) | Owner::Probe(own) => {
                clusters.insert(own);
            }
            Owner::Federated => {
                clusters.extend(member_clusters(&self.metadata));
                // A preferred cluster that takes no part now is not among the members, but may return.
                clusters.extend(preferred_clusters(&self.metadata));
            }
            Owner::Foreign => {}
        }
        // A Service whose labels somebody changed may have been written for any cluster.
        if labelled(self) == NameOwner::Stray {
            clusters.insert(ANY);
        }
        clusters
    }

    fn due(&self) -> Option<Timestamp> {
        let failed_over = self.metadata.annotations.get(l::FAILED_OVER)?;
        FailedOver::read(failed_over).next_return()
    }
}

impl Grouped for Route {
    /// The federated Service to which a route of ours belongs.
    fn group(&self) -> Option<&str> {
        let ours = is_managed(&self.metadata);
        let mut owners = self.metadata.owner_references.iter();
        owners
            .find(|owner| ours && *owner.kind == *"Service")
            .map(|owner| &*owner.name)
    }

    fn clusters(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }
}
