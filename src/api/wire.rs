//! How objects that are kept get to API servers and back: kube's client asks for more of them than is kept.

use std::borrow::Cow;

use kube::{
    Resource,
    core::{NamespaceResourceScope, ObjectMeta},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::metadata::Metadata;

/// An object as it is kept: without what nobody reads.
pub trait Kept: Clone {
    /// Its metadata.
    fn metadata(&self) -> &Metadata;

    /// Bytes that it takes in memory, as near as is simple.
    fn weight(&self) -> usize;
}

/// An object that is kept, and a subset of a kind of Kubernetes' own.
pub trait Subset: Kept + From<Wire<Self>> {
    /// That kind.
    type Kind: Resource<DynamicType = (), Scope = NamespaceResourceScope>;
}

/// An object on its way to or from an API server, for `kube::Api` and `kube::runtime::watcher`. Not kept: what holds it
/// longer than a moment holds the object that comes out of it.
#[derive(Clone, Debug)]
pub struct Wire<T> {
    /// What kube itself reads: name, namespace, resource version.
    metadata: ObjectMeta,
    /// The object.
    pub object: T,
}

impl<T: Kept> From<T> for Wire<T> {
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
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        T::Kind::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        T::Kind::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        T::Kind::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        T::Kind::plural(&())
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

impl<'de, T: Kept + Deserialize<'de>> Deserialize<'de> for Wire<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::from)
    }
}
