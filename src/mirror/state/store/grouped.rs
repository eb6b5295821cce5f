//! What a store knows its objects by besides their names.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        preference::FailedOver,
        routes::Route,
        wire::Kept,
    },
    mirror::{
        metadata::{Owner, is_managed, member_clusters, owner, preferred_clusters},
        name_owner::{NameOwner, labelled},
    },
};

/// In place of the name of a cluster: for objects that lost the label that says which.
pub(crate) const ANY: &str = "";

/// Objects that belong to another one of their namespace, by its name.
pub trait Grouped: Kept {
    /// Name of the object that this one belongs to: a slice's Service, an endpoint mirror's headless mirror.
    fn group(&self) -> Option<&str>;

    /// Host names of its endpoints, each once.
    fn hosts(&self) -> BTreeSet<&str> {
        BTreeSet::new()
    }

    /// Target clusters that it stands for, each once, and an empty name if it may have been written for any.
    fn clusters(&self) -> BTreeSet<&str>;

    /// When it has to be looked at again, whatever happens until then.
    fn due(&self) -> Option<Timestamp> {
        None
    }
}

impl Grouped for EndpointSlice {
    fn group(&self) -> Option<&str> {
        self.metadata.labels.get(l::SLICE_SERVICE)
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
                // One that takes no part now is not among its members, but may come back.
                clusters.extend(preferred_clusters(&self.metadata));
            }
            Owner::Foreign => {}
        }
        // One whose labels somebody changed may have been written for any cluster.
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
    /// The federated Service that it belongs to, of a route of ours.
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
