//! A local cluster in memory. It stores Services, EndpointSlices and namespaces as a Kubernetes API server does, with
//! preconditions, merge patches and garbage collection. A guard checks that each write of ours changes only our
//! objects.

mod canonical;
mod routes;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        map::Map,
        metadata::{Metadata, OwnerReference},
        route::{Route, RouteKind},
    },
    mirror::{
        Indexed as _, Namespace, NamespacePhase, Patch,
        desired::endpoints::MAX_ENDPOINTS,
        fixtures::{GATEWAY, endpoint, merge_patch, slice},
        metadata::is_managed,
    },
};

/// A label and an annotation that somebody adds.
pub(crate) const JUNK: &str = "example.io/junk";

/// Namespace and name.
pub(crate) type Id = (String, String);

/// Why the API server rejects a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    Exists,
    NotFound,
    Conflict,
    NoNamespace,
    /// A policy or a quota does not allow the object.
    Denied,
}

/// A state before and after a change, for the watches.
#[derive(Clone, Debug)]
pub(crate) enum Changed {
    Service(Option<Box<Service>>, Option<Box<Service>>),
    Slice(Option<Box<EndpointSlice>>, Option<Box<EndpointSlice>>),
    Route(Option<Box<Route>>, Option<Box<Route>>),
    Namespace(String),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Cluster {
    pub(crate) services: BTreeMap<Id, Service>,
    pub(crate) slices: BTreeMap<Id, EndpointSlice>,
    pub(crate) routes: BTreeMap<(RouteKind, Id), Route>,
    /// v1 Endpoints, with the cluster that their label names.
    pub(crate) endpoints: BTreeMap<Id, String>,
    pub(crate) namespaces: BTreeMap<String, Namespace>,
    /// UIDs of objects that other people created. The controller must never touch them.
    pub(crate) strangers: BTreeSet<String>,
    /// Names of Services that the API server does not let anybody create.
    pub(crate) denied: BTreeSet<String>,
    /// Kinds of routes that the API server does not serve.
    pub(crate) unserved: BTreeSet<RouteKind>,
    serial: u64,
}

pub(crate) fn id(metadata: &Metadata) -> Id {
    metadata.id()
}

fn owners(slice: &EndpointSlice) -> &[OwnerReference] {
    &slice.metadata.owner_references
}

impl Cluster {
    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    fn stamp(&mut self, metadata: &mut Metadata) {
        metadata.resource_version = Some(self.next().to_string().into());
    }

    fn admit(&mut self, metadata: &mut Metadata) -> Result<(), Refusal> {
        let (namespace, name) = id(metadata);
        let is_suffixed = name.contains("-ipv") || name.contains("-federated-");
        assert!(name.len() <= 63 || is_suffixed, "{name} too long");
        let phase = self.namespaces.get(&namespace).map(|known| known.phase);
        if phase != Some(NamespacePhase::Active) {
            return Err(Refusal::NoNamespace);
        }
        metadata.uid = Some(format!("u{}", self.next()).into());
        self.stamp(metadata);
        Ok(())
    }

    pub(crate) fn create_namespace(&mut self, name: &str, labels: &Map) -> Vec<Changed> {
        self.namespaces
            .entry(name.to_owned())
            .or_insert_with(|| Namespace::new(NamespacePhase::Active, labels.iter()));
        vec![Changed::Namespace(name.to_owned())]
    }

    /// Somebody sets a label of a namespace, or removes it.
    pub(crate) fn label_namespace(
        &mut self,
        name: &str,
        key: &str,
        value: Option<&str>,
    ) -> Vec<Changed> {
        let Some(known) = self.namespaces.get_mut(name) else {
            return Vec::new();
        };
        match value {
            Some(value) => known.labels.insert(key, value),
            None => known.labels.remove(key),
        }
        vec![Changed::Namespace(name.to_owned())]
    }

    pub(crate) fn create_service(
        &mut self,
        mut service: Service,
    ) -> Result<(Service, Vec<Changed>), Refusal> {
        let id = id(&service.metadata);
        if self.services.contains_key(&id) {
            return Err(Refusal::Exists);
        }
        if self.denied.contains(&id.1) {
            return Err(Refusal::Denied);
        }
        self.admit(&mut service.metadata)?;
        if service.spec.cluster_ip.as_deref() != Some("None") {
            assert!(!service.spec.ports.is_empty(), "a Service needs ports");
            let serial = self.next();
            service.spec.cluster_ip =
                Some(format!("10.{}.{}.1", serial / 200, serial % 200).into());
        }
        self.services.insert(id, service.clone());
        let changed = Changed::Service(None, Some(Box::new(service.clone())));
        Ok((service, vec![changed]))
    }

    pub(crate) fn create_slice(
        &mut self,
        mut slice: EndpointSlice,
    ) -> Result<(EndpointSlice, Vec<Changed>), Refusal> {
        let id = id(&slice.metadata);
        if self.slices.contains_key(&id) {
            return Err(Refusal::Exists);
        }
        self.admit(&mut slice.metadata)?;
        valid_slice(&slice);
        self.slices.insert(id, slice.clone());
        let changed = Changed::Slice(None, Some(Box::new(slice.clone())));
        Ok((slice, vec![changed]))
    }

    pub(crate) fn patch_service(
        &mut self,
        patch: &Patch,
    ) -> Result<(Service, Vec<Changed>), Refusal> {
        let id = (patch.namespace.clone(), patch.name.clone());
        let before = self.services.get(&id).ok_or(Refusal::NotFound)?.clone();
        let mut after = patched(&before, &before.metadata, &patch.body)?;
        self.guard(&before.metadata);
        assert_eq!(
            before.is_headless(),
            after.is_headless(),
            "a ClusterIP is immutable"
        );
        self.stamp(&mut after.metadata);
        self.services.insert(id, after.clone());
        let changed = Changed::Service(Some(Box::new(before)), Some(Box::new(after.clone())));
        Ok((after, vec![changed]))
    }

    pub(crate) fn patch_slice(
        &mut self,
        patch: &Patch,
    ) -> Result<(EndpointSlice, Vec<Changed>), Refusal> {
        let id = (patch.namespace.clone(), patch.name.clone());
        let before = self.slices.get(&id).ok_or(Refusal::NotFound)?.clone();
        let mut after: EndpointSlice = patched(&before, &before.metadata, &patch.body)?;
        self.guard(&before.metadata);
        assert_eq!(before.address_type, after.address_type, "immutable");
        valid_slice(&after);
        self.stamp(&mut after.metadata);
        self.slices.insert(id, after.clone());
        let changed = Changed::Slice(Some(Box::new(before)), Some(Box::new(after.clone())));
        Ok((after, vec![changed]))
    }

    pub(crate) fn delete_service(&mut self, id: &Id, uid: &str) -> Result<Vec<Changed>, Refusal> {
        let service = self.services.get(id).ok_or(Refusal::NotFound)?;
        if service.metadata.uid.as_deref() != Some(uid) {
            return Err(Refusal::Conflict);
        }
        self.guard(&service.metadata.clone());
        Ok(self.drop_service(id))
    }

    pub(crate) fn delete_slice(&mut self, id: &Id, uid: &str) -> Result<Vec<Changed>, Refusal> {
        let slice = self.slices.get(id).ok_or(Refusal::NotFound)?;
        if slice.metadata.uid.as_deref() != Some(uid) {
            return Err(Refusal::Conflict);
        }
        self.guard(&slice.metadata.clone());
        Ok(self.drop_slice(id))
    }

    /// Deletes a Service, as if somebody else did.
    pub(crate) fn drop_service(&mut self, id: &Id) -> Vec<Changed> {
        let Some(mut gone) = self.services.remove(id) else {
            return Vec::new();
        };
        self.stamp(&mut gone.metadata);
        vec![Changed::Service(Some(Box::new(gone)), None)]
    }

    pub(crate) fn drop_slice(&mut self, id: &Id) -> Vec<Changed> {
        let Some(mut gone) = self.slices.remove(id) else {
            return Vec::new();
        };
        self.stamp(&mut gone.metadata);
        vec![Changed::Slice(Some(Box::new(gone)), None)]
    }

    /// Changes a Service, as if somebody else did.
    pub(crate) fn edit_service(
        &mut self,
        id: &Id,
        edit: impl FnOnce(&mut Service),
    ) -> Vec<Changed> {
        let Some(before) = self.services.get(id).cloned() else {
            return Vec::new();
        };
        let mut after = before.clone();
        edit(&mut after);
        self.stamp(&mut after.metadata);
        self.services.insert(id.clone(), after.clone());
        vec![Changed::Service(
            Some(Box::new(before)),
            Some(Box::new(after)),
        )]
    }

    pub(crate) fn edit_slice(
        &mut self,
        id: &Id,
        edit: impl FnOnce(&mut EndpointSlice),
    ) -> Vec<Changed> {
        let Some(before) = self.slices.get(id).cloned() else {
            return Vec::new();
        };
        let mut after = before.clone();
        edit(&mut after);
        self.stamp(&mut after.metadata);
        self.slices.insert(id.clone(), after.clone());
        vec![Changed::Slice(
            Some(Box::new(before)),
            Some(Box::new(after)),
        )]
    }

    /// Changes a route, as if somebody else did.
    pub(crate) fn edit_route(
        &mut self,
        id: &(RouteKind, Id),
        edit: impl FnOnce(&mut Route),
    ) -> Vec<Changed> {
        let Some(before) = self.routes.get(id).cloned() else {
            return Vec::new();
        };
        let mut after = before.clone();
        edit(&mut after);
        self.stamp(&mut after.metadata);
        self.routes.insert(id.clone(), after.clone());
        vec![Changed::Route(
            Some(Box::new(before)),
            Some(Box::new(after)),
        )]
    }

    /// Deletes a namespace, or makes it terminate. All objects in it are deleted.
    pub(crate) fn clear_namespace(
        &mut self,
        name: &str,
        phase: Option<NamespacePhase>,
    ) -> Vec<Changed> {
        let inside = |id: &&Id| id.0 == name;
        let services: Vec<Id> = self.services.keys().filter(inside).cloned().collect();
        let slices: Vec<Id> = self.slices.keys().filter(inside).cloned().collect();
        let mut changed: Vec<Changed> = Vec::new();
        changed.extend(services.iter().flat_map(|id| self.drop_service(id)));
        changed.extend(slices.iter().flat_map(|id| self.drop_slice(id)));
        changed.extend(self.drop_routes(|route| route.metadata.namespace() == name));
        self.endpoints.retain(|id, _| id.0 != name);
        match phase {
            Some(phase) => {
                let known = self.namespaces.entry(name.to_owned());
                known.or_insert_with(|| phase.into()).phase = phase;
            }
            None => drop(self.namespaces.remove(name)),
        }
        changed.push(Changed::Namespace(name.to_owned()));
        changed
    }

    /// Kubernetes creates a slice for the Endpoints that Linkerd's service mirror created for this mirror.
    pub(crate) fn mirror_endpoints(&mut self, service: &Service, cluster: &str) -> Vec<Changed> {
        let mut made = slice(service.metadata.name(), "mirrored");
        made.metadata
            .namespace
            .clone_from(&service.metadata.namespace);
        for (key, value) in [
            (l::MIRRORED_SERVICE, "true"),
            (l::CLUSTER_NAME, cluster),
            (l::SLICE_MANAGED_BY, l::ENDPOINTS_MIRRORING),
        ] {
            made.metadata.labels.insert(key, value);
        }
        made.endpoints = [endpoint(GATEWAY, None, true)].into();
        for port in &mut made.ports {
            port.port = Some(4143);
        }
        let made = self.create_slice(made);
        made.map(|(_, changed)| changed).unwrap_or_default()
    }

    /// Kubernetes deletes objects whose owners are all deleted, and its slices of deleted Endpoints.
    pub(crate) fn collect_garbage(&mut self) -> Vec<Changed> {
        let alive: BTreeSet<&str> = self
            .services
            .values()
            .filter_map(|service| service.metadata.uid.as_deref())
            .collect();
        let garbage: Vec<Id> = self
            .slices
            .iter()
            .filter(|(id, slice)| {
                let owners = owners(slice);
                let lost =
                    !owners.is_empty() && owners.iter().all(|owner| !alive.contains(&*owner.uid));
                let service = slice.group().unwrap_or_default().to_owned();
                let of_endpoints =
                    slice.metadata.labels.get(l::SLICE_MANAGED_BY) == Some(l::ENDPOINTS_MIRRORING);
                lost || of_endpoints && !self.endpoints.contains_key(&(id.0.clone(), service))
            })
            .map(|(id, _)| id.clone())
            .collect();
        let orphans: BTreeSet<(RouteKind, Id)> = self
            .routes
            .iter()
            .filter(|(_, route)| {
                let owners = &route.metadata.owner_references;
                !owners.is_empty() && owners.iter().all(|owner| !alive.contains(&*owner.uid))
            })
            .map(|(id, _)| id.clone())
            .collect();
        let mut changed: Vec<Changed> = garbage.iter().flat_map(|id| self.drop_slice(id)).collect();
        let is_orphan = |route: &Route| orphans.contains(&(route.kind, route.metadata.id()));
        changed.extend(self.drop_routes(is_orphan));
        changed
    }

    /// Checks that an object that is written is ours.
    fn guard(&self, metadata: &Metadata) {
        self.guard_strangers(metadata);
        let labelled = metadata.labels.contains_key(l::MIRRORED_SERVICE)
            || metadata.labels.contains_key(l::MIRRORED_GATEWAY)
            || metadata.labels.get(l::SLICE_MANAGED_BY) == Some(l::MANAGER);
        assert!(labelled || is_managed(metadata), "not ours: {metadata:?}");
    }
}

impl Cluster {
    /// Checks that an object is not one that other people created.
    fn guard_strangers(&self, metadata: &Metadata) {
        let uid = metadata.uid.as_deref().unwrap_or_default();
        assert!(!self.strangers.contains(uid), "not ours: {metadata:?}");
    }
}

fn json(object: &impl Serialize) -> Value {
    serde_json::to_value(object).unwrap()
}

fn valid_slice(slice: &EndpointSlice) {
    assert!(slice.endpoints.len() <= MAX_ENDPOINTS, "{slice:?}");
    for owner in owners(slice) {
        assert!(!owner.uid.is_empty(), "an owner without UID: {slice:?}");
    }
    for address in slice.endpoints.iter().flat_map(|e| &e.addresses) {
        let v6 = address.contains(':');
        assert_eq!(v6, *slice.address_type == *"IPv6", "{slice:?}");
    }
}

fn patched<T>(before: &T, metadata: &Metadata, body: &Value) -> Result<T, Refusal>
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    let held = |key: &str, value: Option<&str>| body["metadata"][key].as_str() == value;
    if !held("uid", metadata.uid.as_deref())
        || !held("resourceVersion", metadata.resource_version.as_deref())
    {
        return Err(Refusal::Conflict);
    }
    let mut value = json(before);
    merge_patch(&mut value, body);
    let after = serde_json::from_value(value).unwrap();
    assert_ne!(before, &after, "a patch that changes nothing: {body}");
    Ok(after)
}
