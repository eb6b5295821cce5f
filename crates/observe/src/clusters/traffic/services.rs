//! The mirrors and federated Services of a cluster, and which cluster has which address of a federated Service.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use client::{Cluster, from_credentials, requests::within};
use futures::future::join_all;
use kube::Client;
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        labels,
        members::{local_member, remote_members},
        metadata::ResourceId,
    },
    mirror::is_through_gateway,
};

use crate::clusters::{
    collect::{kubeconfigs, links},
    collect_full::{list_slices, mirrors},
    shown_mode::ShownMode,
    snapshot::{Known, LinkSnapshot},
};

/// The cluster in which the clients are, as in preferences.
const LOCAL: &str = "local";
/// Maximum number of Services in one request for EndpointSlices: their names are in the URL.
const NAMES_AT_ONCE: usize = 50;
/// Maximum number of requests for EndpointSlices of one cluster.
const REQUESTS: usize = 4;

/// Which Services are wanted; `None` is all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceWanted {
    /// Only those of this namespace.
    pub namespace: Option<String>,
    /// A name in this cluster or in a target cluster.
    pub name: Option<String>,
}

/// A Service to which clients send requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficService {
    /// How it gets to its endpoints; `None` for the local member of a federated Service.
    pub mode: Option<ShownMode>,
    /// The cluster of a mirror.
    pub cluster: Option<String>,
    /// Clusters of members of a federated Service whose addresses are not known.
    pub unread: BTreeSet<String>,
}

/// The Services of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrafficServices {
    /// The Services, by their name in this cluster.
    pub services: BTreeMap<ResourceId, TrafficService>,
    /// The clusters that have an address of a federated Service: usually one.
    pub addresses: BTreeMap<(ResourceId, IpAddr), BTreeSet<String>>,
    /// The ready addresses of members of federated Services, by Service and cluster.
    pub ready: BTreeMap<(ResourceId, String), BTreeSet<IpAddr>>,
    /// Why addresses of clusters are not known.
    pub notes: Vec<String>,
    /// The members whose addresses were not read yet.
    members: Vec<FederatedMember>,
}

impl TrafficServices {
    /// A Service, if it is one of these.
    pub fn get(&self, id: &ResourceId) -> Option<&TrafficService> {
        self.services.get(id)
    }

    /// How many endpoints a member of a federated Service has that are ready.
    pub fn ready_endpoints(&self, federated: &ResourceId, cluster: &str) -> usize {
        let place = (federated.clone(), cluster.to_owned());
        self.ready.get(&place).map_or(0, BTreeSet::len)
    }
}

/// A member of a federated Service whose endpoints are found by their addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FederatedMember {
    cluster: String,
    /// The Service in that cluster.
    source: ResourceId,
    federated: ResourceId,
}

/// Reads the Services of a cluster. [`TrafficServices::locate`] reads which cluster has which of their addresses.
pub async fn traffic_services(cluster: &Cluster, wanted: &ServiceWanted) -> Known<TrafficServices> {
    let mirrors = mirrors(&cluster.client, wanted.namespace.as_deref()).await?;
    let (mut services, members) = of_mirrors(&mirrors, wanted);
    services.members = members;
    Ok(services)
}

impl TrafficServices {
    /// Reads which cluster has which address of these federated Services. Only the clusters of their members are asked.
    pub async fn locate(
        &mut self,
        cluster: &Cluster,
        is_wanted: impl Fn(&ResourceId) -> bool,
    ) -> Known<()> {
        let members = std::mem::take(&mut self.members);
        let mut by_cluster: BTreeMap<&str, Vec<&FederatedMember>> = BTreeMap::new();
        for member in members.iter().filter(|member| is_wanted(&member.federated)) {
            by_cluster.entry(&member.cluster).or_default().push(member);
        }
        let links = if by_cluster.keys().any(|name| *name != LOCAL) {
            links(cluster).await?
        } else {
            Vec::new()
        };
        let targets = links.iter();
        let targets = targets.filter(|link| by_cluster.contains_key(link.cluster()));
        let targets: Vec<&LinkSnapshot> = targets.collect();
        let kubeconfigs = kubeconfigs(cluster, &targets).await;
        // Of several Links to a cluster, the first is used.
        let access = targets.into_iter().zip(kubeconfigs).rev();
        let access: BTreeMap<&str, LinkKubeconfig<'_>> =
            access.map(|access| (access.0.cluster(), access)).collect();
        let reads = by_cluster.iter().map(async |(name, members)| {
            let read = addresses(cluster, access.get(name), name, members);
            // Of a target cluster, all requests together.
            within(cluster.deadline, read).await
        });
        let reads = join_all(reads).await;
        for ((name, members), found) in by_cluster.into_iter().zip(reads) {
            self.note(name, &members, found);
        }
        Ok(())
    }

    /// Notes the slices of the members in one cluster.
    fn note(
        &mut self,
        cluster: &str,
        members: &[&FederatedMember],
        slices: Known<Vec<EndpointSlice>>,
    ) {
        let slices = match slices {
            Ok(slices) => slices,
            Err(why) => {
                for member in members {
                    if let Some(service) = self.services.get_mut(&member.federated) {
                        service.unread.insert(cluster.to_owned());
                    }
                }
                let note = format!("cannot read the EndpointSlices of {cluster}: {why}");
                self.notes.push(note);
                return;
            }
        };
        let mut by_source: BTreeMap<ResourceId, Vec<(IpAddr, &str, bool)>> = BTreeMap::new();
        for slice in &slices {
            let service = slice.metadata.label(labels::SLICE_SERVICE);
            let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
            // A federated Service that is made of slices has one for each gateway.
            let serving = match slice.metadata.label(labels::CLUSTER_NAME) {
                named if cluster == LOCAL && !named.is_empty() => named,
                _ => cluster,
            };
            let found = by_source
                .entry(ResourceId::new(namespace, service))
                .or_default();
            for endpoint in &slice.endpoints {
                let addresses = endpoint.addresses.iter();
                let addresses = addresses.filter_map(|address| address.parse().ok());
                let ready = endpoint.is_ready();
                found.extend(addresses.map(|address| (address, serving, ready)));
            }
        }
        for member in members {
            for (address, serving, ready) in by_source.get(&member.source).into_iter().flatten() {
                let place = (member.federated.clone(), *address);
                let clusters = self.addresses.entry(place).or_default();
                clusters.insert((*serving).to_owned());
                if *ready {
                    let place = (member.federated.clone(), (*serving).to_owned());
                    self.ready.entry(place).or_default().insert(*address);
                }
            }
        }
    }
}

/// The wanted Services, and the members of federated ones.
fn of_mirrors(
    mirrors: &[Service],
    wanted: &ServiceWanted,
) -> (TrafficServices, Vec<FederatedMember>) {
    let mut services = TrafficServices::default();
    let mut members = Vec::new();
    for mirror in mirrors {
        let id = mirror.metadata.resource_id();
        let annotation = |key: &str| mirror.metadata.annotations.get(key);
        let is_named = |name: &String| {
            let fq_name = mirror.metadata.annotation(labels::REMOTE_FQ_NAME);
            let source = fq_name.split('.').next().unwrap_or_default();
            let remote = mirror.metadata.label(labels::REMOTE_SERVICE);
            let mut member = remote_members(annotation).map(|(service, _)| service);
            [&*id.name, source, remote].contains(&name.as_str())
                || local_member(annotation) == Some(name)
                || member.any(|member| member == name)
        };
        let in_namespace = |namespace: &String| *namespace == id.namespace;
        if !wanted.namespace.as_ref().is_none_or(in_namespace)
            || !wanted.name.as_ref().is_none_or(is_named)
        {
            continue;
        }
        let mode = ShownMode::of(mirror);
        let cluster = mirror.metadata.label(labels::CLUSTER_NAME);
        let cluster = match mirror.metadata.label(labels::REMOTE_DISCOVERY) {
            "" => cluster,
            discovered => discovered,
        };
        let is_federated = mode == ShownMode::Federated;
        let service = TrafficService {
            mode: Some(mode),
            cluster: (!is_federated && !cluster.is_empty()).then(|| cluster.to_owned()),
            unread: BTreeSet::new(),
        };
        services.services.insert(id.clone(), service);
        if is_federated {
            let member = |service: &str, cluster: &str| FederatedMember {
                cluster: cluster.to_owned(),
                source: ResourceId::new(&id.namespace, service),
                federated: id.clone(),
            };
            let local = local_member(annotation).map(|name| member(name, LOCAL));
            // Members through gateways are in other annotations. The Service has slices of its own then.
            let is_of_slices = [labels::MEMBERS, labels::LOCAL_MEMBER]
                .into_iter()
                .any(|key| annotation(key).is_some());
            let own = is_of_slices.then(|| member(&id.name, LOCAL));
            let discovered =
                |key: &str| (key == labels::REMOTE_DISCOVERY).then(|| annotation(key))?;
            let remote = remote_members(discovered);
            let remote = remote.map(|(service, cluster)| member(service, cluster));
            members.extend(local.clone().into_iter().chain(own).chain(remote));
            // Routes lead to it by its own name.
            if let Some(local) = local {
                services.services.entry(local.source).or_default();
            }
        }
    }
    (services, members)
}

/// The EndpointSlices of members in one cluster.
async fn addresses(
    cluster: &Cluster,
    access: Option<&LinkKubeconfig<'_>>,
    name: &str,
    members: &[&FederatedMember],
) -> Known<Vec<EndpointSlice>> {
    let client = if name == LOCAL {
        cluster.client.clone()
    } else {
        target_client(cluster, access).await?
    };
    let sources = members.iter().map(|member| member.source.name.as_str());
    let sources: Vec<&str> = sources.collect::<BTreeSet<_>>().into_iter().collect();
    let mut slices = Vec::new();
    for selector in selectors(&sources) {
        slices.extend(list_slices(&client, None, &selector).await?);
    }
    Ok(slices)
}

/// What selects the slices of these Services. Of many Services, all slices are listed once: the API server looks at each
/// slice for each request. Slices of others are ignored.
fn selectors(sources: &[&str]) -> Vec<String> {
    if sources.len() > NAMES_AT_ONCE * REQUESTS {
        return vec![labels::SLICE_SERVICE.to_owned()];
    }
    let chunks = sources.chunks(NAMES_AT_ONCE);
    let selector = |names: &[&str]| format!("{} in ({})", labels::SLICE_SERVICE, names.join(","));
    chunks.map(selector).collect()
}

/// A Link, and the kubeconfig of its target cluster; `None` if the Link cannot be decoded.
type LinkKubeconfig<'l> = (&'l LinkSnapshot, Option<Known<Vec<u8>>>);

/// A client of a target cluster, with the Link's credentials.
async fn target_client(cluster: &Cluster, access: Option<&LinkKubeconfig<'_>>) -> Known<Client> {
    let (link, kubeconfig) = access.ok_or("there is no Link to it")?;
    if is_through_gateway(&link.link) {
        return Err("only the controller reaches its API server, through the gateway".into());
    }
    let kubeconfig = kubeconfig.as_ref().ok_or("its Link cannot be read")?;
    let kubeconfig = kubeconfig.as_ref().map_err(Clone::clone)?;
    let client = from_credentials(kubeconfig, cluster.deadline).await;
    client.map_err(|error| error.to_string().into())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn service(name: &str, labels: &Value, annotations: &Value) -> Service {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "shop", "labels": labels, "annotations": annotations},
        }))
        .unwrap()
    }

    fn mirrors() -> Vec<Service> {
        let cluster = json!({ labels::CLUSTER_NAME: "east" });
        let remote = json!({ labels::REMOTE_FQ_NAME: "gated.shop.svc.cluster.local" });
        let discovery = json!({ labels::REMOTE_DISCOVERY: "east", labels::REMOTE_SERVICE: "flat" });
        let flat = json!({ labels::LOCAL_DISCOVERY: "web", labels::REMOTE_DISCOVERY: "web@east,web@north" });
        let gateways = json!({ labels::LOCAL_MEMBER: "api", labels::MEMBERS: "api@east" });
        vec![
            service("gated-east", &cluster, &remote),
            service("flat-east", &discovery, &json!({})),
            service("web-federated", &json!({}), &flat),
            service("api-federated", &json!({}), &gateways),
        ]
    }

    fn slice(service: &str, addresses: &[&str]) -> EndpointSlice {
        serde_json::from_value(json!({
            "metadata": {"name": "x", "namespace": "shop", "labels": {labels::SLICE_SERVICE: service}},
            "addressType": "IPv4",
            "endpoints": [{ "addresses": addresses }],
        }))
        .unwrap()
    }

    #[test]
    fn services_have_a_mode_and_mirrors_a_cluster() {
        let (services, members) = of_mirrors(&mirrors(), &ServiceWanted::default());
        let shown = services.services.iter().map(|(id, service)| {
            let mode = service.mode.map_or("-", ShownMode::as_str);
            format!(
                "{} {mode} {}",
                id.name,
                service.cluster.as_deref().unwrap_or("-")
            )
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "api - -",
                "api-federated federated -",
                "flat-east remote-discovery east",
                "gated-east gateway east",
                "web - -",
                "web-federated federated -",
            ]
        );
        let members = members.iter();
        let members =
            members.map(|m| format!("{}@{} of {}", m.source, m.cluster, m.federated.name));
        assert_eq!(
            members.collect::<Vec<_>>(),
            [
                "shop/web@local of web-federated",
                "shop/web@east of web-federated",
                "shop/web@north of web-federated",
                "shop/api@local of api-federated",
                "shop/api-federated@local of api-federated",
            ]
        );
    }

    #[test]
    fn slices_of_many_services_are_listed_once() {
        let names: Vec<String> = (0..10_000).map(|number| format!("web-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(selectors(&names), [labels::SLICE_SERVICE]);
        assert_eq!(selectors(&names[..200]).len(), 4);
        let two = format!("{} in (web-0,web-1)", labels::SLICE_SERVICE);
        assert_eq!(selectors(&names[..2]), [two]);
        assert!(selectors(&[]).is_empty());
    }

    #[test]
    fn wanted_services_are_named_here_or_in_the_target() {
        for (namespace, name, expected) in [
            (Some("other"), None, &[][..]),
            (Some("shop"), Some("gated"), &["gated-east"]),
            (None, Some("flat"), &["flat-east"]),
            (None, Some("flat-east"), &["flat-east"]),
            (None, Some("web"), &["web", "web-federated"]),
            (None, Some("none"), &[]),
        ] {
            let wanted = ServiceWanted {
                namespace: namespace.map(str::to_owned),
                name: name.map(str::to_owned),
            };
            let (services, _) = of_mirrors(&mirrors(), &wanted);
            let names: Vec<&str> = services.services.keys().map(|id| &*id.name).collect();
            assert_eq!(names, expected, "{wanted:?}");
        }
    }

    #[test]
    fn addresses_are_those_of_the_members_and_what_is_unread_is_noted() {
        let (mut services, members) = of_mirrors(&mirrors(), &ServiceWanted::default());
        let of = |cluster: &str| {
            let members = members.iter().filter(|member| member.cluster == cluster);
            members.collect::<Vec<_>>()
        };
        let slices = vec![
            slice("web", &["10.1.0.1", "odd"]),
            slice("other", &["10.1.0.9"]),
        ];
        let mut gateway = slice("api-federated", &["192.0.2.1"]);
        let labels =
            json!({ labels::SLICE_SERVICE: "api-federated", labels::CLUSTER_NAME: "east" });
        gateway.metadata.labels = serde_json::from_value(labels).unwrap();
        services.note("local", &of("local"), Ok([slices, vec![gateway]].concat()));
        services.note(
            "east",
            &of("east"),
            Ok(vec![slice("web", &["10.2.0.1", "10.1.0.1"])]),
        );
        services.note("north", &of("north"), Err("forbidden".into()));
        let shown = services.addresses.iter().map(|((id, address), clusters)| {
            let clusters: Vec<&str> = clusters.iter().map(String::as_str).collect();
            format!("{} {address} {}", id.name, clusters.join(","))
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [
                "api-federated 192.0.2.1 east",
                "web-federated 10.1.0.1 east,local",
                "web-federated 10.2.0.1 east"
            ]
        );
        let federated = services
            .get(&ResourceId::new("shop", "web-federated"))
            .unwrap();
        assert_eq!(federated.unread, BTreeSet::from(["north".to_owned()]));
        assert_eq!(
            services.notes,
            ["cannot read the EndpointSlices of north: forbidden"]
        );
    }
}
