//! A canonical form of the cluster, so that two runs can be compared.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Cluster, Id, JUNK, json};
use crate::{
    api::{labels as l, metadata::Metadata},
    mirror::{Indexed as _, metadata::is_managed},
};

impl Cluster {
    /// All objects, without what differs from run to run: UIDs, versions, allocated addresses.
    pub(crate) fn canonical(&self) -> BTreeMap<String, Value> {
        let uids: BTreeMap<&str, &str> = self
            .services
            .values()
            .map(|s| {
                let metadata = &s.metadata;
                let uid = metadata.uid.as_deref().unwrap_or_default();
                (uid, metadata.name.as_deref().unwrap_or_default())
            })
            .collect();
        let addresses: BTreeMap<&str, &str> = self
            .services
            .values()
            .filter(|service| !service.is_headless())
            .filter_map(|s| Some((s.spec.cluster_ip.as_deref()?, s.metadata.name.as_deref()?)))
            .collect();
        let mut all = BTreeMap::new();
        for ((namespace, name), service) in &self.services {
            let mut service = service.clone();
            neutral(&mut service.metadata);
            if !service.is_headless() {
                service.spec.cluster_ip = None;
            }
            all.insert(format!("Service {namespace}/{name}"), json(&service));
        }
        for ((namespace, name), slice) in &self.slices {
            // A slice without endpoints means the same as no slice. Slices of Endpoints are Kubernetes' own.
            let of_endpoints =
                slice.metadata.labels.get(l::SLICE_MANAGED_BY) == Some(l::ENDPOINTS_MIRRORING);
            // A Service whose endpoints Linkerd discovers has slices only if it was in another mode before.
            let service = slice.group().unwrap_or_default().to_owned();
            let is_flat = self.is_discovered(&(namespace.clone(), service));
            if slice.endpoints.is_empty() || of_endpoints || is_flat {
                continue;
            }
            let mut slice = slice.clone();
            neutral(&mut slice.metadata);
            for owner in &mut slice.metadata.owner_references {
                owner.uid = (*uids.get(&*owner.uid).unwrap_or(&"nobody")).into();
            }
            let mut translated = false;
            for endpoint in &mut slice.endpoints {
                for address in &mut endpoint.addresses {
                    if let Some(name) = addresses.get(&**address) {
                        *address = (*name).into();
                        translated = true;
                    }
                }
            }
            if translated {
                // The hash covers addresses, which differ from run to run.
                slice.metadata.annotations.remove(l::DESIRED_STATE);
            }
            all.insert(format!("Slice {namespace}/{name}"), json(&slice));
        }
        for ((kind, (namespace, name)), route) in &self.routes {
            let mut route = route.clone();
            neutral(&mut route.metadata);
            for owner in &mut route.metadata.owner_references {
                owner.uid = (*uids.get(&*owner.uid).unwrap_or(&"nobody")).into();
            }
            all.insert(format!("{} {namespace}/{name}", kind.kind()), json(&route));
        }
        for ((namespace, name), cluster) in &self.endpoints {
            all.insert(
                format!("Endpoints {namespace}/{name}"),
                Value::from(cluster.clone()),
            );
        }
        all
    }

    /// Whether Linkerd discovers the endpoints of a Service.
    pub(crate) fn is_discovered(&self, id: &Id) -> bool {
        self.services.get(id).is_some_and(|service| {
            let Metadata {
                labels,
                annotations,
                ..
            } = &service.metadata;
            labels.contains_key(l::REMOTE_DISCOVERY)
                || [l::REMOTE_DISCOVERY, l::LOCAL_DISCOVERY]
                    .iter()
                    .any(|key| annotations.contains_key(key))
        })
    }

    /// The UIDs of all Services.
    pub(crate) fn uids(&self) -> BTreeSet<String> {
        let uids = self.services.values();
        uids.filter_map(|service| service.metadata.uid.as_deref().map(str::to_owned))
            .collect()
    }

    /// UIDs of Services, by what they are: a mirror, an endpoint mirror, a federated Service, headless or not.
    pub(crate) fn identities(&self) -> BTreeMap<String, String> {
        self.services
            .iter()
            .filter(|(_, service)| is_managed(&service.metadata))
            .map(|((namespace, name), service)| {
                let metadata = &service.metadata;
                let what = format!(
                    "{namespace}/{name} {:?} {:?} {:?} {}",
                    metadata.labels.get(l::CLUSTER_NAME),
                    metadata.labels.get(l::HEADLESS_MIRROR),
                    metadata.annotations.get(l::REMOTE_FQ_NAME),
                    service.is_headless(),
                );
                (what, metadata.uid.as_deref().unwrap_or_default().to_owned())
            })
            .collect()
    }
}

fn neutral(metadata: &mut Metadata) {
    metadata.uid = None;
    metadata.resource_version = None;
    metadata.annotations.remove(l::REMOTE_RESOURCE_VERSION);
    metadata.annotations.remove(l::COPIED_KEYS); // somebody may have removed it
    for keys in [&mut metadata.labels, &mut metadata.annotations] {
        keys.remove(JUNK); // others may add keys
    }
}
