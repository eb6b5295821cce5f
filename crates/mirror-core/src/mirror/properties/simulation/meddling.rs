//! What others do in the local cluster: they create and delete namespaces, change and delete objects, and Linkerd's own
//! service mirror has created some.

use super::{
    super::{
        cluster::{Id, JUNK, id},
        operations::{CLUSTERS, Edit},
    },
    Simulation,
};
use crate::{
    api::{
        k8s::Service,
        labels as l,
        map::Map,
        metadata::{Metadata, OwnerReference},
    },
    mirror::{
        Indexed as _, NamespacePhase, federated_name,
        fixtures::{LINKS, Svc, port, slice, svc},
        metadata::{installation, is_managed},
    },
};

/// Name of the other installation.
const OTHER: &str = "other";

/// A mirror, or a federated Service, whose labels say what it is for, without an annotation for who created it.
fn standing_for(cluster: &str, service: &str, federated: bool) -> Svc {
    if federated {
        svc(&federated_name(service))
            .label(l::MIRRORED_SERVICE, "true")
            .annotation(l::REMOTE_DISCOVERY, &format!("{service}@{cluster}"))
    } else {
        svc(&format!("{service}-{cluster}")).mirrored_by_linkerd(cluster, service)
    }
}

impl Simulation {
    pub(crate) fn namespace(&mut self, name: &str, phase: Option<NamespacePhase>) {
        let known = self.cluster.namespaces.get(name);
        if name == LINKS || known.map(|known| known.phase) == phase {
            return;
        }
        let changed = if phase == Some(NamespacePhase::Active) {
            // A terminating namespace cannot become active. It is deleted, and another one is created.
            let mut changed = self.cluster.clear_namespace(name, None);
            changed.extend(self.cluster.create_namespace(name, &Map::default()));
            changed
        } else {
            self.cluster.clear_namespace(name, phase)
        };
        self.watched(changed);
        if phase != Some(NamespacePhase::Active) {
            let gone: Vec<Id> = self
                .members
                .keys()
                .filter(|id| id.0 == name)
                .cloned()
                .collect();
            for id in gone {
                self.member(&id, None);
            }
        }
    }

    pub(crate) fn stranger(&mut self, namespace: &str, name: &str, on: bool) {
        let id = (namespace.to_owned(), name.to_owned());
        let theirs = self.cluster.services.get(&id).is_some_and(|service| {
            self.cluster
                .strangers
                .contains(service.metadata.uid.as_deref().unwrap_or_default())
        });
        if on {
            let service = svc(name).within(namespace).0;
            if let Ok((service, changed)) = self.cluster.create_service(service) {
                self.cluster
                    .strangers
                    .insert(service.metadata.uid.clone().unwrap_or_default().into());
                self.watched(changed);
            }
        } else if theirs {
            let changed = self.cluster.drop_service(&id);
            self.watched(changed);
        }
    }

    /// Creates an object as Linkerd's own service mirror would have left it.
    pub(crate) fn legacy(
        &mut self,
        cluster: &str,
        namespace: &str,
        service: &str,
        federated: bool,
    ) {
        let made = standing_for(cluster, service, federated)
            .within(namespace)
            .label("old", "yes");
        if let Ok((made, changed)) = self.cluster.create_service(made.0) {
            self.watched(changed);
            if !federated {
                self.cluster
                    .endpoints
                    .insert(id(&made.metadata), cluster.to_owned());
                let changed = self.cluster.mirror_endpoints(&made, cluster);
                self.watched(changed);
            }
        }
    }

    /// Whether a slice of ours belongs to a Service that records no installation any more, and whose Link is gone. Nobody
    /// owns such a Service, so nobody repairs its slices.
    pub(crate) fn has_orphans(&self) -> bool {
        self.cluster.slices.iter().any(|((namespace, _), slice)| {
            let id = slice
                .group()
                .map(|name| (namespace.clone(), name.to_owned()));
            let service = id.and_then(|id| self.cluster.services.get(&id));
            installation(&slice.metadata).is_some()
                && service.is_some_and(|service| installation(&service.metadata).is_none())
        })
    }

    /// Creates an object of another installation, whose Links are in another namespace.
    pub(crate) fn theirs(
        &mut self,
        cluster: &str,
        namespace: &str,
        service: &str,
        federated: bool,
    ) {
        let made = standing_for(cluster, service, federated)
            .within(namespace)
            .annotation(l::MANAGED_BY, l::MANAGER)
            .annotation(l::INSTALLATION, OTHER);
        let Ok((made, changed)) = self.cluster.create_service(made.0) else {
            return;
        };
        self.watched(changed);
        let uid = made.metadata.uid.clone().unwrap_or_default();
        self.cluster.strangers.insert(uid.clone().into());
        let mut slice = slice(made.metadata.name(), "ipv4");
        slice.metadata.namespace = Some(namespace.into());
        for (key, value) in [
            (l::MIRRORED_SERVICE, "true"),
            (l::CLUSTER_NAME, cluster),
            (l::SLICE_MANAGED_BY, l::MANAGER),
        ] {
            slice.metadata.labels.insert(key, value);
        }
        for (key, value) in [(l::MANAGED_BY, l::MANAGER), (l::INSTALLATION, OTHER)] {
            slice.metadata.annotations.insert(key, value);
        }
        slice.metadata.owner_references = [OwnerReference {
            api_version: "v1".into(),
            kind: "Service".into(),
            name: made.metadata.name().into(),
            uid,
            ..OwnerReference::default()
        }]
        .into();
        if let Ok((slice, changed)) = self.cluster.create_slice(slice) {
            let uid = slice.metadata.uid.clone().unwrap_or_default();
            self.cluster.strangers.insert(uid.into());
            self.watched(changed);
        }
    }

    pub(crate) fn nth_of_ours(&self, pick: usize) -> Option<Id> {
        let ours: Vec<&Id> = self
            .cluster
            .services
            .iter()
            .filter(|(_, service)| {
                let metadata = &service.metadata;
                is_managed(metadata) && installation(metadata) != Some(OTHER)
            })
            .map(|(id, _)| id)
            .collect();
        (!ours.is_empty()).then(|| ours[pick % ours.len()].clone())
    }

    pub(crate) fn edit(&mut self, pick: usize, edit: Edit) {
        let slices: Vec<Id> = self
            .cluster
            .slices
            .iter()
            .filter(|(_, slice)| slice.metadata.labels.contains_key(l::MIRRORED_SERVICE))
            .filter(|(_, slice)| installation(&slice.metadata) != Some(OTHER))
            .map(|(id, _)| id.clone())
            .collect();
        let nth = |ids: &[Id]| (!ids.is_empty()).then(|| ids[pick % ids.len()].clone());
        let changed = match edit {
            Edit::SliceEndpoints => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    slice.endpoints = Box::default();
                    slice.ports = Box::default();
                })
            }),
            Edit::SliceLabels => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    drop_label(&mut slice.metadata, l::CLUSTER_NAME);
                })
            }),
            Edit::SliceService => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    slice.metadata.labels.insert(l::SLICE_SERVICE, "somebody");
                })
            }),
            Edit::SliceOwner => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    for owner in &mut slice.metadata.owner_references {
                        owner.uid = "somebody-else".into();
                    }
                })
            }),
            Edit::SliceOwners => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    slice.metadata.owner_references = Box::default();
                })
            }),
            Edit::SecondOwner => nth(&slices).map(|id| {
                self.cluster.edit_slice(&id, |slice| {
                    let own = slice.metadata.owner_references.iter().cloned();
                    let added = OwnerReference::to_service("somebody", "somebody-else");
                    slice.metadata.owner_references = own.chain([added]).collect();
                })
            }),
            Edit::SliceAnnotations => nth(&slices).map(|id| {
                self.cluster
                    .edit_slice(&id, |slice| slice.metadata.annotations = Map::default())
            }),
            Edit::SliceJunk => nth(&slices).map(|id| {
                self.cluster
                    .edit_slice(&id, |slice| add_junk(&mut slice.metadata))
            }),
            Edit::RouteOwner | Edit::RouteLabel | Edit::RouteAnnotations | Edit::RouteJunk => {
                let ours = self.cluster.routes.iter();
                let ours: Vec<_> = ours
                    .filter(|(_, route)| is_managed(&route.metadata))
                    .map(|(id, _)| id.clone())
                    .collect();
                let nth = (!ours.is_empty()).then(|| ours[pick % ours.len()].clone());
                nth.map(|id| {
                    self.cluster
                        .edit_route(&id, |route| edit_route(&mut route.metadata, edit))
                })
            }
            _ => self.nth_of_ours(pick).map(|id| {
                self.cluster
                    .edit_service(&id, |service| edit_service(service, edit))
            }),
        };
        self.watched(changed.unwrap_or_default());
    }
}

fn drop_label(metadata: &mut Metadata, key: &str) {
    metadata.labels.remove(key);
}

fn add_junk(metadata: &mut Metadata) {
    metadata.labels.insert(JUNK, "1");
    metadata.annotations.insert(JUNK, "1");
}

fn edit_route(metadata: &mut Metadata, edit: Edit) {
    match edit {
        Edit::RouteJunk => add_junk(metadata),
        Edit::RouteOwner => metadata.owner_references = Box::default(),
        Edit::RouteLabel => drop_label(metadata, l::MIRRORED_SERVICE),
        _ => metadata.annotations = Map::default(),
    }
}

fn edit_service(service: &mut Service, edit: Edit) {
    let metadata = &mut service.metadata;
    match edit {
        Edit::StripCluster => drop_label(metadata, l::CLUSTER_NAME),
        Edit::MoveCluster(cluster) => {
            metadata.labels.insert(l::CLUSTER_NAME, CLUSTERS[cluster]);
        }
        Edit::StripMirrored => drop_label(metadata, l::MIRRORED_SERVICE),
        Edit::StripHeadless => drop_label(metadata, l::HEADLESS_MIRROR),
        Edit::Unmanage => {
            metadata.annotations.remove(l::MANAGED_BY);
        }
        Edit::Disown => {
            metadata.annotations.remove(l::INSTALLATION);
        }
        Edit::Junk => add_junk(metadata),
        Edit::Unrecord => metadata.annotations.remove(l::COPIED_KEYS),
        // Only a label that we have set: others may add labels.
        Edit::Relabel if metadata.labels.contains_key("team") => {
            metadata.labels.insert("team", "somebody");
        }
        Edit::Ports => service.spec.ports = [port("odd", 1)].into(),
        Edit::Tokens => {
            let annotations = &mut metadata.annotations;
            for key in [l::REMOTE_DISCOVERY, l::MEMBERS] {
                if let Some(tokens) = annotations.get(key) {
                    let tokens = format!("x@gone, {tokens},,");
                    annotations.insert(key, tokens);
                }
            }
        }
        _ => {} // of other kinds
    }
}
