//! What a service mirror has written in a namespace, in a form that does not show how it is written: Linkerd's writes
//! v1 Endpoints, ours EndpointSlices (D-2).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

use control_plane::ControlPlane;
use k8s_openapi::api::{
    core::v1::{Endpoints, Service},
    discovery::v1::EndpointSlice,
};
use kube::{Api, Client, Resource, api::ListParams, core::NamespaceResourceScope};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{clusters::FAR, history::LAST};

/// Label of all that a service mirror writes.
const MIRRORED: &str = "mirror.linkerd.io/mirrored-service";
/// The remote members of a federated Service.
pub(super) const REMOTE_DISCOVERY: &str = "multicluster.linkerd.io/remote-discovery";
/// Who makes slices of Endpoints.
const COPIES: &str = "endpointslicemirroring-controller.k8s.io";
/// Annotations that say what was written, and not what a mirror is like: the version of the Service that it was written
/// for, and notes of ours.
const NOTES: [&str; 5] = [
    "mirror.linkerd.io/remote-resource-version",
    "mirror.linkerd.io/copied-keys",
    "mirror.linkerd.io/desired-state",
    "mirror.linkerd.io/installation",
    "mirror.linkerd.io/managed-by",
];

/// The mirrors and federated Services of a namespace, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen(pub(super) BTreeMap<String, SeenService>);

/// A mirror or federated Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenService {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// By name and number: protocol, port of the target, protocol of the application.
    pub(super) ports: BTreeMap<String, SeenPort>,
    pub(super) is_headless: bool,
    /// Addresses of endpoints: whether they are ready.
    pub(super) endpoints: BTreeMap<String, bool>,
    /// Names, numbers and protocols of their ports.
    pub(super) endpoint_ports: BTreeSet<String>,
    /// Annotations of Endpoints or slices that Linkerd reads.
    pub(super) gateway: BTreeMap<String, String>,
}

/// A port of a Service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenPort {
    pub(super) protocol: String,
    pub(super) target: String,
    pub(super) application: Option<String>,
}

impl Seen {
    /// Reads a namespace of a source cluster.
    pub(super) async fn read(plane: &ControlPlane, namespace: &str) -> anyhow::Result<Self> {
        let client = plane.client();
        let (services, endpoints, slices) = tokio::try_join!(
            list::<Service>(&client, namespace),
            list::<Endpoints>(&client, namespace),
            list::<EndpointSlice>(&client, namespace)
        )?;
        let (mut seen, mut names) = (Self::default(), BTreeMap::new());
        for service in &services {
            let labels = texts(&service["metadata"]["labels"]);
            if labels.contains_key(MIRRORED) {
                let name = text(&service["metadata"]["name"]);
                names.insert(text(&service["spec"]["clusterIP"]), name.clone());
                seen.0.insert(name, SeenService::of(service));
            }
        }
        for endpoints in &endpoints {
            if let Some(service) = seen.0.get_mut(&text(&endpoints["metadata"]["name"])) {
                service.add_endpoints(endpoints);
            }
        }
        for slice in &slices {
            let labels = texts(&slice["metadata"]["labels"]);
            let is_copy = labels
                .get("endpointslice.kubernetes.io/managed-by")
                .is_some_and(|by| by == COPIES);
            let name = labels.get("kubernetes.io/service-name");
            let service = name.and_then(|name| seen.0.get_mut(name));
            if let Some(service) = service.filter(|_| !is_copy) {
                service.add_slice(slice);
            }
        }
        // Hosts lead to the ClusterIPs of their mirrors, which are others in each cluster.
        for service in seen.0.values_mut() {
            let endpoints = std::mem::take(&mut service.endpoints).into_iter();
            let named = endpoints.map(|(endpoint, ready)| {
                let (host, address) = endpoint.split_once('=').unwrap_or(("", &endpoint));
                match names.get(address) {
                    Some(mirror) => (format!("{host}={mirror}"), ready),
                    None => (endpoint, ready),
                }
            });
            service.endpoints = named.collect();
        }
        Ok(seen)
    }

    /// Whether the mirror of the last Service has this port.
    pub(super) fn is_marked(&self, port: usize) -> bool {
        let last = self.0.get(&format!("{LAST}-{FAR}"));
        last.is_some_and(|last| last.ports.contains_key(&format!("http:{port}")))
    }
}

/// The Services of the target cluster, by name.
pub(super) struct Target(BTreeMap<String, TargetService>);

/// A Service of the target cluster.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a property of its own"
)]
pub(super) struct TargetService {
    /// Whether it has a ready endpoint.
    pub(super) is_backed: bool,
    /// Whether somebody writes its endpoints.
    pub(super) is_manual: bool,
    /// Whether it is headless.
    pub(super) is_headless: bool,
    /// Whether it leads to a name.
    pub(super) is_external: bool,
    /// Whether it is mirrored from Pod to Pod.
    pub(super) is_discovered: bool,
    /// Whether it is exported, but for federated Services.
    pub(super) is_exported: bool,
    /// Whether it is a member of a federated Service.
    pub(super) is_member: bool,
}

impl Target {
    /// Reads a namespace of the target cluster.
    pub(super) async fn read(plane: &ControlPlane, namespace: &str) -> anyhow::Result<Self> {
        let client = plane.client();
        let (services, endpoints) = tokio::try_join!(
            list::<Service>(&client, namespace),
            list::<Endpoints>(&client, namespace)
        )?;
        let ready = endpoints.iter().filter(|endpoints| {
            let mut subsets = endpoints["subsets"].as_array().into_iter().flatten();
            subsets.any(|subset| subset["addresses"].is_array())
        });
        let ready: BTreeSet<String> = ready.map(|of| text(&of["metadata"]["name"])).collect();
        let services = services.iter().map(|service| {
            let name = text(&service["metadata"]["name"]);
            let labels = texts(&service["metadata"]["labels"]);
            let exported = labels.get("mirror.linkerd.io/exported");
            let found = TargetService {
                is_backed: ready.contains(&name),
                is_manual: service["spec"]["selector"].is_null(),
                is_headless: service["spec"]["clusterIP"] == "None",
                is_external: service["spec"]["type"] == "ExternalName",
                is_discovered: exported.is_some_and(|value| value == "remote-discovery"),
                is_exported: exported.is_some(),
                is_member: labels.contains_key("mirror.linkerd.io/federated"),
            };
            (name, found)
        });
        Ok(Self(services.collect()))
    }

    /// The Service of a mirror, or the member of a federated Service, if there is one.
    pub(super) fn of(&self, mirror: &str) -> TargetService {
        let name = mirror.rsplit_once('-').map(|(name, _)| name);
        let found = name.and_then(|name| self.0.get(name));
        found.copied().unwrap_or_default()
    }
}

impl SeenService {
    fn of(service: &Value) -> Self {
        let mut annotations = texts(&service["metadata"]["annotations"]);
        annotations.retain(|key, _| !NOTES.contains(&key.as_str()));
        // Linkerd's keeps the list of remote members when the last one has left.
        if annotations
            .get(REMOTE_DISCOVERY)
            .is_some_and(String::is_empty)
        {
            annotations.remove(REMOTE_DISCOVERY);
        }
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let ports = ports.map(|port| {
            let seen = SeenPort {
                protocol: text(&port["protocol"]),
                target: port["targetPort"].to_string(),
                application: port["appProtocol"].as_str().map(str::to_owned),
            };
            (format!("{}:{}", text(&port["name"]), port["port"]), seen)
        });
        Self {
            labels: texts(&service["metadata"]["labels"]),
            annotations,
            ports: ports.collect(),
            is_headless: service["spec"]["clusterIP"] == "None",
            ..Self::default()
        }
    }

    fn add_endpoints(&mut self, endpoints: &Value) {
        let subsets = endpoints["subsets"].as_array();
        for subset in subsets.into_iter().flatten() {
            for (field, ready) in [("addresses", true), ("notReadyAddresses", false)] {
                let addresses = subset[field].as_array().into_iter().flatten();
                let addresses =
                    addresses.map(|address| (named(&address["ip"], &address["hostname"]), ready));
                self.endpoints.extend(addresses);
            }
            self.add_ports(&subset["ports"]);
        }
        if subsets.is_some_and(|subsets| !subsets.is_empty()) {
            self.gateway(&endpoints["metadata"]["annotations"]);
        }
    }

    fn add_slice(&mut self, slice: &Value) {
        let mut is_empty = true;
        for endpoint in slice["endpoints"].as_array().into_iter().flatten() {
            is_empty = false;
            let ready = endpoint["conditions"]["ready"] != false;
            let addresses = endpoint["addresses"].as_array().into_iter().flatten();
            let addresses = addresses.map(|address| (named(address, &endpoint["hostname"]), ready));
            self.endpoints.extend(addresses);
        }
        if !is_empty {
            self.add_ports(&slice["ports"]);
            self.gateway(&slice["metadata"]["annotations"]);
        }
    }

    fn add_ports(&mut self, ports: &Value) {
        let ports = ports.as_array().into_iter().flatten();
        let ports = ports.map(|port| {
            format!(
                "{}:{}/{}",
                text(&port["name"]),
                port["port"],
                text(&port["protocol"])
            )
        });
        self.endpoint_ports.extend(ports);
    }

    fn gateway(&mut self, annotations: &Value) {
        let read = [
            "mirror.linkerd.io/remote-gateway-identity",
            "mirror.linkerd.io/remote-svc-fq-name",
        ];
        let annotations = texts(annotations).into_iter();
        self.gateway
            .extend(annotations.filter(|(key, _)| read.contains(&key.as_str())));
    }
}

/// The objects of a kind in a namespace.
async fn list<K>(client: &Client, namespace: &str) -> anyhow::Result<Vec<Value>>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + Debug
        + DeserializeOwned
        + Serialize,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let found = api.list(&ListParams::default()).await?;
    let objects = found.items.iter().map(serde_json::to_value);
    Ok(objects.collect::<Result<_, _>>()?)
}

fn named(address: &Value, hostname: &Value) -> String {
    match hostname.as_str() {
        Some(hostname) => format!("{hostname}={}", text(address)),
        None => text(address),
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(map: &Value) -> BTreeMap<String, String> {
    let map = map.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.clone(), text(value))).collect()
}
