//! The kinds of objects that are watched in the local cluster, and what is kept of each.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkObject,
        map::Map,
        metadata::Metadata,
        route::Route,
        wire::Wire,
    },
    controller::metrics::ResourceKind,
    mirror::{FEDERATED_SUFFIX, is_our_route},
};

/// A kind of objects that is watched in the local cluster.
pub(super) trait LocalKind: Sized + Send + Sync + 'static {
    /// As which it is requested.
    type Requested: Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static;
    const KIND: ResourceKind;

    /// The metadata, if annotations that nobody reads are dropped when they are too large.
    fn metadata(&mut self) -> Option<&mut Metadata> {
        None
    }

    /// Whether the object is kept.
    fn is_needed(&self) -> bool {
        true
    }

    /// The object without what nobody reads.
    fn reduced(self) -> Self {
        self
    }
}

impl LocalKind for PartialObjectMeta<Namespace> {
    type Requested = Self;
    const KIND: ResourceKind = ResourceKind::Namespace;
}

impl LocalKind for LinkObject {
    type Requested = Self;
    const KIND: ResourceKind = ResourceKind::Link;
}

impl LocalKind for Secret {
    type Requested = Self;
    const KIND: ResourceKind = ResourceKind::Secret;
}

impl LocalKind for Service {
    type Requested = Wire<Self>;
    const KIND: ResourceKind = ResourceKind::Service;

    fn metadata(&mut self) -> Option<&mut Metadata> {
        Some(&mut self.metadata)
    }
}

impl LocalKind for EndpointSlice {
    type Requested = Wire<Self>;
    const KIND: ResourceKind = ResourceKind::EndpointSlice;

    fn metadata(&mut self) -> Option<&mut Metadata> {
        Some(&mut self.metadata)
    }
}

impl LocalKind for Route {
    type Requested = Wire<Self>;
    const KIND: ResourceKind = ResourceKind::Route;

    fn metadata(&mut self) -> Option<&mut Metadata> {
        Some(&mut self.metadata)
    }

    /// Of others' routes, only those that apply to federated Services.
    fn is_needed(&self) -> bool {
        is_our_route(self) || (self.services()).any(|(name, _)| name.ends_with(FEDERATED_SUFFIX))
    }

    /// Of others' routes, only the objects that they apply to.
    fn reduced(mut self) -> Self {
        if is_our_route(&self) {
            return self;
        }
        self.metadata.labels = Map::default();
        self.metadata.annotations = Map::default();
        self.without_rules()
    }
}
