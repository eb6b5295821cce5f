//! The kinds of objects that are watched in the local cluster, and what is kept of each.

use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::core::PartialObjectMeta;
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        link::LinkObject,
        map::Map,
        metadata::Metadata,
        route::Route,
        wire::Wire,
    },
    mirror::{FEDERATED_SUFFIX, is_our_route},
};
use serde::de::DeserializeOwned;

use crate::metrics::ResourceKind;

/// A kind of objects that is watched in the local cluster.
pub trait LocalKind: Sized + Send + Sync + 'static {
    /// The type that responses are deserialized into.
    type Requested: Clone + DeserializeOwned + std::fmt::Debug + Send + Sync + 'static;
    const KIND: ResourceKind;

    /// The metadata whose annotations are reduced to those that we read, if all together are too large. `None` if all are
    /// kept, however large.
    fn metadata(&mut self) -> Option<&mut Metadata> {
        None
    }

    /// Whether the object is kept.
    fn is_needed(&self) -> bool {
        true
    }

    /// Removes the fields that nobody reads.
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

    /// Routes of others are kept only if they apply to federated Services.
    fn is_needed(&self) -> bool {
        is_our_route(self) || (self.services()).any(|(name, _)| name.ends_with(FEDERATED_SUFFIX))
    }

    /// Of a route of others, only the references to the Services that it applies to are kept.
    fn reduced(mut self) -> Self {
        if is_our_route(&self) {
            return self;
        }
        self.metadata.labels = Map::default();
        self.metadata.annotations = Map::default();
        self.without_rules()
    }
}
