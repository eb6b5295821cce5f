//! Changes of objects, as watches show them. A write that no watch shows has changed nothing.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use control_plane::{AuditEvent, eventually};
use futures::TryStreamExt as _;
use kube::{
    Api, Client, ResourceExt as _,
    api::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::watcher::{self, Event, watcher},
};
use tokio::{sync::oneshot, task::JoinSet};

use crate::rig::wait::SOON;

/// Group, version, kind and resource of what our controller writes.
const KINDS: [(&str, &str, &str, &str); 3] = [
    ("", "v1", "Service", "services"),
    ("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"),
    ("multicluster.linkerd.io", "v1alpha3", "Link", "links"),
];

/// Resource, namespace and name of an object.
type Name = (String, String, String);
type Counts = Arc<Mutex<BTreeMap<Name, usize>>>;

/// Counts the changes of each object in a cluster, until it is dropped.
pub(crate) struct Changes {
    counts: Counts,
    _watches: JoinSet<()>,
}

impl Changes {
    /// Begins to count.
    pub(crate) async fn watch(client: &Client) -> anyhow::Result<Self> {
        let counts = Counts::default();
        let mut watches = JoinSet::new();
        for (group, version, kind, plural) in KINDS {
            let kind = GroupVersionKind::gvk(group, version, kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, plural);
            let api = Api::<DynamicObject>::all_with(client.clone(), &resource);
            let (listed, is_listed) = oneshot::channel();
            watches.spawn(follow(api, plural, counts.clone(), listed));
            is_listed
                .await
                .with_context(|| format!("no list of {plural}"))?;
        }
        Ok(Self {
            counts,
            _watches: watches,
        })
    }

    /// Fails if there are more writes to an object than changes of it. Waits for watches that lag behind.
    pub(crate) async fn include(&self, writes: &[AuditEvent]) -> anyhow::Result<()> {
        let mut written: BTreeMap<Name, usize> = BTreeMap::new();
        let known = |write: &&AuditEvent| KINDS.iter().any(|kind| kind.3 == write.resource);
        for write in writes.iter().filter(known) {
            let name = [&write.resource, &write.namespace, &write.name].map(String::clone);
            *written.entry(name.into()).or_default() += 1;
        }
        eventually("a change for each write", SOON, async || {
            let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let idle = written.iter().find_map(|(name, writes)| {
                let changes = counts.get(name).copied().unwrap_or_default();
                (*writes > changes).then(|| format!("{name:?}: {writes} writes, {changes} changes"))
            });
            idle.map_or(Ok(Some(())), |idle| anyhow::bail!("{idle}"))
        })
        .await
    }
}

async fn follow(
    api: Api<DynamicObject>,
    plural: &'static str,
    counts: Counts,
    listed: oneshot::Sender<()>,
) {
    let mut listed = Some(listed);
    let events = watcher(api, watcher::Config::default());
    let followed = events.try_for_each(|event| {
        match event {
            Event::InitDone => {
                listed.take().map(|listed| listed.send(()));
            }
            Event::Apply(object) | Event::Delete(object) => {
                let namespace = object.namespace().unwrap_or_default();
                let name = (plural.to_owned(), namespace, object.name_any());
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                *counts.entry(name).or_default() += 1;
            }
            Event::Init | Event::InitApply(_) => {}
        }
        std::future::ready(Ok(()))
    });
    if let Err(error) = followed.await {
        eprintln!("the watch of {plural} has ended: {error}");
    }
}
