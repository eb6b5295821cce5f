//! Conversion between objects in stores and objects for kube's client, which requires more metadata than stores keep.

use std::borrow::Cow;

use kube_core::{ObjectMeta, Resource};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::metadata::Metadata;

/// An object in a store, reduced to the fields that are read.
pub trait StoredObject: Clone + Default {
    /// Its metadata.
    fn metadata(&self) -> &Metadata;

    /// Approximate memory in bytes.
    fn weight(&self) -> usize;
}

/// An object in a store that is a subset of a Kubernetes type, or of a custom resource.
pub trait Subset: StoredObject + From<Wire<Self>> {
    /// The whole type.
    type Kind: Resource;
}

/// An object on its way to or from an API server, for `kube::Api`. Stores keep only [`Self::object`].
#[derive(Clone, Debug)]
pub struct Wire<T> {
    /// Metadata for kube: name, namespace, resource version.
    metadata: ObjectMeta,
    /// The object.
    pub object: T,
}

impl<T: StoredObject> From<T> for Wire<T> {
    fn from(object: T) -> Self {
        let own = object.metadata();
        let text = |text: &Option<Box<str>>| text.as_deref().map(str::to_owned);
        Self {
            metadata: ObjectMeta {
                name: text(&own.name),
                namespace: text(&own.namespace),
                resource_version: text(&own.resource_version),
                ..ObjectMeta::default()
            },
            object,
        }
    }
}

impl<T: Subset> Resource for Wire<T> {
    type DynamicType = <T::Kind as Resource>::DynamicType;
    type Scope = <T::Kind as Resource>::Scope;

    fn kind(of: &Self::DynamicType) -> Cow<'_, str> {
        T::Kind::kind(of)
    }

    fn group(of: &Self::DynamicType) -> Cow<'_, str> {
        T::Kind::group(of)
    }

    fn version(of: &Self::DynamicType) -> Cow<'_, str> {
        T::Kind::version(of)
    }

    fn plural(of: &Self::DynamicType) -> Cow<'_, str> {
        T::Kind::plural(of)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<T: Serialize> Serialize for Wire<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.object.serialize(serializer)
    }
}

impl<'de, T: StoredObject + Deserialize<'de>> Deserialize<'de> for Wire<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}
