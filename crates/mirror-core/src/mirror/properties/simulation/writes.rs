//! Reconciles a key as `controller::apply` does: its plan, the writes, and the handling of rejected writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    super::cluster::{Id, Refusal, id},
    Simulation, admission,
    checks::keys_of_others_stay,
};
use crate::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        metadata::{Metadata, OwnerReference},
        route::{Route, RouteKind},
    },
    mirror::{
        Confirmed, Inserted, Key, Object, ObjectKind, Outcome, Owner, Patch, Plan, RemoteRef,
        ServiceOutcome, Write, metadata::is_managed, owner, plan,
    },
};

impl Simulation {
    /// Checks names again that belonged to others, as the controller does from time to time.
    pub(crate) fn look_again(&mut self) {
        let slots: Vec<Id> = self.state.foreign.keys().cloned().collect();
        for slot in slots {
            let live = self.cluster.services.get(&slot).cloned();
            if live
                .as_ref()
                .is_some_and(|live| owner(&live.metadata) == Owner::Foreign)
            {
                continue;
            }
            let mut keys = self.state.keys_for_name(&slot.0, &slot.1);
            keys.extend(self.state.keys_of_namespace(&slot.0));
            self.state.foreign.remove(&slot);
            if let Some(live) = live {
                self.absorb_service(live);
            }
            self.mark(keys);
        }
    }

    pub(crate) fn work(&mut self, key: &Key) {
        let mut planned = plan(&self.state, key, Confirmed::By(&BTreeSet::new()));
        if planned.writes.is_empty() && !planned.confirm.is_empty() {
            let confirmed = self.ask(key, &planned.confirm);
            planned = plan(&self.state, key, Confirmed::By(&confirmed));
        }
        let Plan { writes, report, .. } = planned;
        if writes.is_empty() {
            self.record(&report);
            return;
        }
        let (mut uids, mut denied) = (BTreeMap::new(), BTreeSet::new());
        for write in writes {
            let service = write.service().map(str::to_owned);
            if service.as_ref().is_some_and(|of| denied.contains(of)) {
                continue;
            }
            if self.ends_after == Some(self.writes) {
                self.ends_after = None;
                self.restart();
                return;
            }
            self.writes += 1;
            match self.write(write.clone(), &mut uids) {
                Ok(()) => {}
                Err(Refusal::Denied) => denied.extend(service),
                Err(refusal) => {
                    self.refused(key, &write, &refusal);
                    return;
                }
            }
        }
        if !denied.is_empty() {
            self.failed.insert(key.clone());
            return;
        }
        self.record(&report);
        self.queued.insert(key.clone());
    }

    /// Whether all that is left to write for a key is denied.
    pub(crate) fn is_denied(&self, key: &Key) -> bool {
        let denied = |write: &Write| {
            let service = write.service();
            service.is_some_and(|service| self.cluster.denied.contains(service))
        };
        plan(&self.state, key, Confirmed::All)
            .writes
            .iter()
            .all(denied)
    }

    fn record(&mut self, report: &[ServiceOutcome]) {
        for outcome in report {
            let about = (outcome.remote.clone(), outcome.federated);
            match &outcome.report {
                Outcome::Unknown => {}
                Outcome::Absent => {
                    self.reports.remove(&about);
                }
                report => {
                    self.reports.insert(about, report.clone());
                }
            }
        }
    }

    /// Asks target clusters whether they export a Service. Returns those that confirm that they do not. If one does, the
    /// key is planned again later.
    fn ask(&mut self, key: &Key, asked: &[RemoteRef]) -> BTreeSet<String> {
        let silent = self.silent;
        let answering = asked
            .iter()
            .filter(|remote| silent != Some(&*remote.cluster));
        let (exported, confirmed): (Vec<_>, Vec<_>) =
            answering.partition(|remote| self.is_exported(remote, key));
        if !exported.is_empty() {
            self.failed.insert(key.clone());
        }
        confirmed
            .into_iter()
            .map(|remote| remote.cluster.clone())
            .collect()
    }

    /// Asks a target cluster whether it exports a Service.
    fn is_exported(&self, remote: &RemoteRef, key: &Key) -> bool {
        let id = (remote.namespace.clone(), remote.service.clone());
        let far = self.far.get(&remote.cluster);
        let (Some(service), Some((target, _))) = (
            far.and_then(|far| far.services.get(&id)),
            self.state.link(&remote.cluster),
        ) else {
            return false;
        };
        match key {
            Key::Federated { .. } => self.state.member(target, service),
            _ => self.state.mode(target, service).is_some(),
        }
    }

    fn write(&mut self, write: Write, uids: &mut BTreeMap<String, String>) -> Result<(), Refusal> {
        match write {
            Write::Create(Object::Namespace { name, labels }) => {
                self.may_be_created(&name, &labels);
                let changed = self.cluster.create_namespace(&name, &labels);
                let keys = self.state.created_namespace(&name, labels);
                self.mark(keys);
                self.watched(changed);
            }
            Write::Create(Object::Service(service)) => {
                self.may_stand(&service);
                let name = service.metadata.name().to_owned();
                let (service, changed) = self.cluster.create_service(*service)?;
                admission::admit_service(None, &service);
                uids.insert(
                    name,
                    service.metadata.uid.clone().unwrap_or_default().into(),
                );
                self.watched(changed);
                self.absorb_service(service);
            }
            Write::Create(Object::EndpointSlice(mut slice)) => {
                own(&mut slice.metadata, uids)?;
                let (slice, changed) = self.cluster.create_slice(*slice)?;
                admission::admit_slice(None, &slice);
                self.watched(changed);
                self.absorb_slice(slice);
            }
            Write::Create(Object::Route(mut route)) => {
                own(&mut route.metadata, uids)?;
                let (route, changed) = self.cluster.create_route(*route)?;
                admission::admit_route(None, &route);
                self.watched(changed);
                self.absorb_route(route);
            }
            Write::Patch(mut patch) => {
                if let Some(owners) = patch.body.pointer_mut("/metadata/ownerReferences") {
                    for owner in owners.as_array_mut().into_iter().flatten() {
                        if owner["uid"] == "" {
                            let name = owner["name"].as_str().unwrap_or_default();
                            let uid = uids.get(name).ok_or(Refusal::Conflict)?.clone();
                            owner["uid"] = uid.into();
                        }
                    }
                }
                self.patch(&patch)?;
            }
            Write::Delete {
                kind,
                namespace,
                name,
                uid,
                service: _,
            } => {
                let id = (namespace, name);
                match kind {
                    ObjectKind::EndpointSlice => self.delete_slice(&id, &uid)?,
                    ObjectKind::Route(kind) => self.delete_route(kind, &id, &uid)?,
                    ObjectKind::Service | ObjectKind::Namespace => {
                        self.delete_service(&id, &uid)?;
                    }
                }
            }
            Write::RetireEndpoints {
                namespace,
                name,
                cluster,
            } => {
                let id = (namespace, name);
                if self.cluster.endpoints.get(&id) == Some(&cluster) {
                    self.cluster.endpoints.remove(&id);
                }
            }
        }
        Ok(())
    }

    fn delete_slice(&mut self, id: &Id, uid: &str) -> Result<(), Refusal> {
        match self.cluster.delete_slice(id, uid) {
            Err(Refusal::NotFound) => {}
            other => self.watched(other?),
        }
        let here = self.state.here();
        for store in [&mut here.slices, &mut here.gateway_slices] {
            store.forget(&id.0, &id.1);
        }
        Ok(())
    }

    fn delete_route(&mut self, kind: RouteKind, id: &Id, uid: &str) -> Result<(), Refusal> {
        match self.cluster.delete_route(kind, id, uid) {
            Err(Refusal::NotFound) => {}
            other => self.watched(other?),
        }
        self.forget_route(kind, id);
        Ok(())
    }

    fn forget_route(&mut self, kind: RouteKind, id: &Id) {
        let store = self.state.here().routes.entry(kind).or_default().as_mut();
        let gone = store.and_then(|store| store.forget(&id.0, &id.1));
        let keys = gone.map(|gone| self.state.keys_of_route(&gone));
        self.mark(keys.into_iter().flatten());
    }

    fn absorb_route(&mut self, route: Route) {
        let route = Arc::new(route);
        let store = self
            .state
            .here()
            .routes
            .entry(route.kind)
            .or_default()
            .as_mut();
        let before = store.and_then(|store| match store.insert(route.clone()) {
            Inserted::Stale => None,
            Inserted::Taken(before) => before,
        });
        for state in before.into_iter().chain([route]) {
            let keys = self.state.keys_of_route(&state);
            self.mark(keys);
        }
    }

    fn delete_service(&mut self, id: &Id, uid: &str) -> Result<(), Refusal> {
        let before = self.cluster.services.get(id).cloned();
        match self.cluster.delete_service(id, uid) {
            Err(Refusal::NotFound) => {}
            other => {
                let changed = other?;
                if let Some(before) = before {
                    self.may_go(&before.metadata);
                }
                let routes: Vec<_> = self.cluster.routes_to(id).collect();
                assert!(routes.is_empty(), "requests still go to {id:?}: {routes:?}");
                self.watched(changed);
                // Kubernetes' endpoints controller.
                self.cluster.endpoints.remove(id);
            }
        }
        self.drop_service(id);
        Ok(())
    }

    /// Records that a Service is deleted.
    fn drop_service(&mut self, id: &Id) {
        let [gone, probe] = self.forget_service(id);
        let keys = gone.or(probe).map(|gone| self.state.keys_of_local(&gone));
        self.mark(keys.into_iter().flatten());
    }

    /// Forgets the mirror and the probe Service of this name, and returns them.
    fn forget_service(&mut self, id: &Id) -> [Option<Arc<Service>>; 2] {
        let here = self.state.here();
        [&mut here.mirrors, &mut here.gateways].map(|store| store.forget(&id.0, &id.1))
    }

    fn patch(&mut self, patch: &Patch) -> Result<(), Refusal> {
        let id = (patch.namespace.clone(), patch.name.clone());
        if let ObjectKind::Route(kind) = patch.kind {
            let before = self.cluster.routes.get(&(kind, id)).cloned();
            let (route, changed) = self.cluster.patch_route(kind, patch)?;
            admission::admit_route(before.as_ref().map(|before| &before.metadata), &route);
            self.watched(changed);
            self.absorb_route(route);
        } else if patch.kind == ObjectKind::EndpointSlice {
            let before = self.cluster.slices.get(&id).cloned();
            let (slice, changed) = self.cluster.patch_slice(patch)?;
            admission::admit_slice(before.as_ref().map(|before| &before.metadata), &slice);
            if let Some(before) = before {
                keys_of_others_stay(&before.metadata, &slice.metadata);
            }
            self.watched(changed);
            self.absorb_slice(slice);
        } else {
            let before = self.cluster.services.get(&id).cloned();
            let (service, changed) = self.cluster.patch_service(patch)?;
            admission::admit_service(before.as_ref().map(|before| &before.metadata), &service);
            if let Some(before) = before {
                self.names_stay(&before.metadata, Some(&service.metadata));
                keys_of_others_stay(&before.metadata, &service.metadata);
            }
            self.watched(changed);
            self.absorb_service(service);
        }
        Ok(())
    }

    /// Handles a rejected write of a key.
    fn refused(&mut self, key: &Key, write: &Write, refusal: &Refusal) {
        let (_, kind, namespace, name) = write.describe();
        let id = (namespace.to_owned(), name.to_owned());
        if let (Refusal::Exists, Write::Create(Object::Service(wanted))) = (refusal, write) {
            self.name_taken(key, wanted, id);
            return;
        }
        // Read the object from the cluster.
        let route = RouteKind::ALL
            .into_iter()
            .find(|known| known.kind() == kind);
        if let Some(kind) = route {
            if let Some(live) = self.cluster.routes.get(&(kind, id.clone())).cloned() {
                self.absorb_route(live);
            } else {
                self.forget_route(kind, &id);
            }
        } else if kind == "EndpointSlice" {
            match self.cluster.slices.get(&id).cloned() {
                Some(live) if is_managed(&live.metadata) => self.absorb_slice(live),
                Some(_) => {}
                None => {
                    self.state.here().slices.forget(&id.0, &id.1);
                }
            }
        } else if kind == "Service" {
            let ours = |live: &Service| {
                owner(&live.metadata) != Owner::Foreign || is_managed(&live.metadata)
            };
            match self.cluster.services.get(&id).cloned() {
                Some(live) if ours(&live) => self.look_at(live),
                // The same as for a Service that we delete ourselves.
                _ => self.drop_service(&id),
            }
        }
        self.failed.insert(key.clone());
    }

    /// Records that an unknown Service has the name.
    fn name_taken(&mut self, key: &Key, wanted: &Service, id: Id) {
        let live = self.cluster.services[&id].clone();
        let (found, wanted) = (&live.metadata, &wanted.metadata);
        let same_origin = is_managed(found)
            && found.annotations.get(l::REMOTE_FQ_NAME)
                == wanted.annotations.get(l::REMOTE_FQ_NAME);
        if owner(&live.metadata) != Owner::Foreign || same_origin {
            self.look_at(live);
            self.failed.insert(key.clone());
        } else {
            // Enqueue all keys that claim the name, so that they report who has it.
            let keys = self.state.keys_for_name(&id.0, &id.1);
            self.state.foreign.insert(id, "somebody".to_owned());
            self.mark(keys);
            self.queued.insert(key.clone());
        }
    }

    fn absorb_service(&mut self, service: Service) {
        let store = match owner(&service.metadata) {
            Owner::Gateway(_) => &mut self.state.here().gateways,
            _ => &mut self.state.here().mirrors,
        };
        let service = Arc::new(service);
        if let Inserted::Taken(before) = store.insert(service.clone()) {
            let states = before.into_iter().chain([service]);
            let keys = states.flat_map(|state| self.state.keys_of_preference(&state));
            let keys: Vec<Key> = keys.collect();
            self.mark(keys);
        }
    }

    /// Takes over the result of a live read. The watch's own event for it will be stale.
    fn look_at(&mut self, live: Service) {
        let mut keys = self.state.keys_of_local(&live);
        let (namespace, name) = id(&live.metadata);
        let here = self.state.local.as_ref().unwrap();
        let stores = [&here.mirrors, &here.gateways].into_iter();
        for known in stores.filter_map(|store| store.get(&namespace, &name)) {
            keys.extend(self.state.keys_of_local(known));
        }
        self.absorb_service(live);
        self.mark(keys);
    }

    fn absorb_slice(&mut self, slice: EndpointSlice) {
        let probe = slice.metadata.labels.contains_key(l::MIRRORED_GATEWAY);
        let store = if probe {
            &mut self.state.here().gateway_slices
        } else {
            &mut self.state.here().slices
        };
        store.insert(Arc::new(slice));
    }
}

/// Fills in the owner UIDs that the plan could not know.
fn own(metadata: &mut Metadata, uids: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let unknown = |owner: &&mut OwnerReference| owner.uid.is_empty();
    for owner in metadata.owner_references.iter_mut().filter(unknown) {
        let uid = uids.get(&*owner.name).ok_or(Refusal::Conflict)?;
        owner.uid = uid.as_str().into();
    }
    Ok(())
}
