//! The result of a write.

use std::sync::Arc;

use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        map::Map,
        route::Route,
    },
    mirror::{Indexed, ObjectKind, Store},
};

/// The result of a write. It goes into the same store as the event of the watch, which follows a moment later.
#[derive(Clone, Debug)]
pub enum Written {
    /// A Service that was created, as the API server returned it.
    Created(Arc<Service>),
    /// Another Service, as the API server returned it.
    Service(Arc<Service>),
    /// An EndpointSlice, as the API server returned it.
    Slice(Arc<EndpointSlice>),
    /// A namespace that was created, with its labels; without labels if it existed already.
    Namespace(String, Map),
    /// A route, as the API server returned it.
    Route(Arc<Route>),
    /// An object that was deleted.
    Gone(Gone),
}

/// An object that was deleted. Another object may have its name by now.
#[derive(Clone, Debug)]
pub struct Gone {
    pub kind: ObjectKind,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}

impl Gone {
    /// Removes it from a store, unless the store has another object of this name.
    pub fn forget<T: Indexed>(&self, store: &mut Store<T>) -> Option<Arc<T>> {
        let known = store.get(&self.namespace, &self.name)?;
        let same = known.metadata().uid.as_deref() == Some(self.uid.as_str());
        same.then(|| store.forget(&self.namespace, &self.name))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(uid: &str) -> Arc<Service> {
        let metadata = mirror_core::api::metadata::Metadata {
            name: Some("web-east".into()),
            namespace: Some("ns".into()),
            uid: Some(uid.into()),
            resource_version: Some("7".into()),
            ..Default::default()
        };
        Arc::new(Service {
            metadata,
            ..Service::default()
        })
    }

    #[test]
    fn deleted_object_leaves_its_successor_in_the_store() {
        let gone = Gone {
            kind: ObjectKind::Service,
            namespace: "ns".to_owned(),
            name: "web-east".to_owned(),
            uid: "old".to_owned(),
        };
        let mut store = Store::default();
        store.put(service("new"));
        assert!(gone.forget(&mut store).is_none());
        assert_eq!(store.len(), 1);
        store.put(service("old"));
        assert!(gone.forget(&mut store).is_some());
        assert!(store.is_empty());
    }
}
