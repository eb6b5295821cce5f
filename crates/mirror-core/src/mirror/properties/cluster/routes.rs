//! Routes of the local cluster.

use super::{Changed, Cluster, Id, Refusal, patched};
use crate::{
    api::{
        metadata::Metadata,
        route::{ParentRef, Route, RouteKind, RouteSpec},
    },
    mirror::{Patch, is_our_route},
};

impl Cluster {
    pub(crate) fn create_route(
        &mut self,
        mut route: Route,
    ) -> Result<(Route, Vec<Changed>), Refusal> {
        let id = (route.kind, route.metadata.id());
        if self.unserved.contains(&route.kind) {
            return Err(Refusal::NotFound);
        }
        if self.routes.contains_key(&id) {
            return Err(Refusal::Exists);
        }
        self.admit(&mut route.metadata)?;
        for owner in &route.metadata.owner_references {
            assert!(!owner.uid.is_empty(), "an owner without UID: {route:?}");
        }
        self.routes.insert(id, route.clone());
        let changed = Changed::Route(None, Some(Box::new(route.clone())));
        Ok((route, vec![changed]))
    }

    pub(crate) fn patch_route(
        &mut self,
        kind: RouteKind,
        patch: &Patch,
    ) -> Result<(Route, Vec<Changed>), Refusal> {
        let id = (kind, (patch.namespace.clone(), patch.name.clone()));
        let before = self.routes.get(&id).ok_or(Refusal::NotFound)?.clone();
        let mut after: Route = patched(&before, &before.metadata, &patch.body)?;
        self.guard_strangers(&before.metadata);
        after.kind = kind;
        self.stamp(&mut after.metadata);
        self.routes.insert(id, after.clone());
        let changed = Changed::Route(Some(Box::new(before)), Some(Box::new(after.clone())));
        Ok((after, vec![changed]))
    }

    pub(crate) fn delete_route(
        &mut self,
        kind: RouteKind,
        id: &Id,
        uid: &str,
    ) -> Result<Vec<Changed>, Refusal> {
        let key = (kind, id.clone());
        let route = self.routes.get(&key).ok_or(Refusal::NotFound)?;
        if route.metadata.uid.as_deref() != Some(uid) {
            return Err(Refusal::Conflict);
        }
        // It may have lost its marks since the controller saw it.
        self.guard_strangers(&route.metadata);
        Ok(self.drop_routes(|route| (route.kind, route.metadata.id()) == key))
    }

    /// Deletes routes, as if somebody else did.
    pub(crate) fn drop_routes(&mut self, which: impl Fn(&Route) -> bool) -> Vec<Changed> {
        let gone = self.routes.values().filter(|route| which(route));
        let gone: Vec<Route> = gone.cloned().collect();
        let drop = |mut route: Route| {
            self.routes.remove(&(route.kind, route.metadata.id()));
            self.stamp(&mut route.metadata);
            Changed::Route(Some(Box::new(route)), None)
        };
        gone.into_iter().map(drop).collect()
    }

    /// Somebody removes the CRD of a kind of routes, and with it all routes of the kind, or creates it.
    pub(crate) fn serve_routes(&mut self, kind: RouteKind, on: bool) -> Vec<Changed> {
        if on {
            self.unserved.remove(&kind);
            return Vec::new();
        }
        self.unserved.insert(kind);
        self.drop_routes(|route| route.kind == kind)
    }

    /// Somebody else creates a route of a federated Service, or deletes it.
    pub(crate) fn stranger_route(
        &mut self,
        namespace: &str,
        service: &str,
        on: bool,
    ) -> Vec<Changed> {
        const NAME: &str = "theirs";
        if !on {
            let is_theirs = |route: &Route| route.metadata.id() == (namespace.into(), NAME.into());
            return self.drop_routes(is_theirs);
        }
        let parent = ParentRef {
            group: Some("".into()),
            kind: Some("Service".into()),
            name: service.into(),
            ..ParentRef::default()
        };
        let route = Route {
            metadata: Metadata {
                name: Some(NAME.into()),
                namespace: Some(namespace.into()),
                ..Metadata::default()
            },
            spec: RouteSpec {
                parent_refs: [parent].into(),
                ..RouteSpec::default()
            },
            kind: RouteKind::Grpc,
            ..Route::default()
        };
        let Ok((route, changed)) = self.create_route(route) else {
            return Vec::new();
        };
        self.strangers
            .insert(route.metadata.uid.unwrap_or_default().into());
        changed
    }

    /// Our routes that send requests to a Service, without those of a deleted Service.
    pub(crate) fn routes_to<'a>(&'a self, id: &'a Id) -> impl Iterator<Item = &'a Route> {
        let routes = self.routes.values();
        routes.filter(|route| {
            let mut parents = route.services();
            let is_followed = parents.any(|(parent, _)| {
                let parent = (id.0.clone(), parent.to_owned());
                self.services.contains_key(&parent)
            });
            is_our_route(route)
                && is_followed
                && route.metadata.namespace() == id.0
                && route.backends().any(|to| to == id.1)
        })
    }
}
