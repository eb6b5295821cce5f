//! Takes the [`FullSnapshot`] of one cluster, part by part. Each [`Part`] is reported as soon as it is known, so that a
//! target cluster that does not respond delays nothing but what is asked of it.
//!
//! All requests run concurrently, as soon as what they depend on is known.

use std::{
    collections::{BTreeSet, VecDeque},
    net::IpAddr,
    sync::Arc,
};

use client::{Cluster, ReadError, kube_system_uid, requests::clock_ahead};
use futures::{FutureExt as _, StreamExt as _, future::LocalBoxFuture, stream::FuturesUnordered};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use mirror_core::{
    api::{k8s::Service, labels, link::LinkerdConfig},
    mirror::is_through_gateway,
};
use tokio::sync::Semaphore;

use super::{
    access::controller_denied,
    certificates::{IssuerCertificate, ProxyCertificates},
    collect::{credentials, kubeconfigs, links},
    collect_full::{
        OwnObjects, deployments, destination, extension_namespaces, foreign, link_api, own_objects,
        own_routes, pods, service_range, services,
    },
    collect_mesh::{self, issuer},
    confinement::confined,
    destination_restart::meshed,
    foreign_endpoints::ForeignEndpoints,
    gateway_permits::{Export, GatewayPermits, exports, permits},
    leader::{Leaders, leaders},
    own_routes::OwnRoute,
    pod_networks::PodNetworks,
    service_range,
    snapshot::{
        ClusterSnapshot, Confinement, Crd, Destination, Endpoints, FullSnapshot, Known,
        LinkCredentials, LinkSnapshot, MeshedPod, Part, ServiceRange, TargetSnapshot, Workload,
    },
    target::{self, config_in_force, trust_roots},
    workloads::{ParseArgs, meshed_pod},
};

/// Maximum number of target clusters that are asked concurrently.
const TARGETS_AT_ONCE: usize = 128;
/// The error in place of a fact that was not read yet. Rules only look at facts of parts that are known.
const NOT_READ: &str = "not read yet";

/// A snapshot that is being taken.
pub struct Gathering<'a> {
    cluster: &'a Cluster,
    snapshot: FullSnapshot,
    /// The parts that are read.
    wanted: BTreeSet<Part>,
    running: FuturesUnordered<LocalBoxFuture<'a, GatheredFacts>>,
    /// Whether the Links, and the Deployments, are known.
    has: (bool, bool),
    /// The objects of the controller, until what depends on them is read.
    objects: Option<OwnObjects>,
    /// The Links whose target clusters have not answered.
    unanswered: BTreeSet<usize>,
    /// Parts that are known, and not reported yet.
    complete: VecDeque<Part>,
}

/// Facts that become known together.
enum GatheredFacts {
    Installation(Box<InstallationFacts>),
    Deployments(Known<Vec<Workload>>),
    Objects(OwnObjects),
    Controller(Known<Vec<String>>, Known<Confinement>, Leaders),
    Services(Box<Services>),
    Credentials(Box<CredentialFacts>),
    Proxies(Box<ProxyFacts>),
    Target(usize, Known<TargetSnapshot>),
}

struct InstallationFacts {
    uid: Option<String>,
    extension_namespaces: Known<Vec<String>>,
    links: Known<Vec<LinkSnapshot>>,
    config: Known<LinkerdConfig>,
    link_api: (Known<bool>, Known<bool>, Known<Crd>),
    ahead: SignedDuration,
}

struct CredentialFacts {
    access: Vec<LinkAccess>,
    destination: Known<Destination>,
    issuer: Known<IssuerCertificate>,
    meshed: Known<usize>,
}

struct ProxyFacts {
    pods: Known<Vec<MeshedPod>>,
    exports: Known<Vec<Export>>,
    permits: Known<GatewayPermits>,
    trust_roots: Known<Option<String>>,
    certificates: Known<ProxyCertificates>,
    pod_networks: Known<PodNetworks>,
}

struct Services {
    objects: OwnObjects,
    local_members: Known<Vec<Service>>,
    routes: Known<Vec<OwnRoute>>,
    foreign: Known<Vec<ForeignEndpoints>>,
    range: Known<Option<ServiceRange>>,
}

/// The kubeconfig of a Link, and what it says; nothing for a Link that cannot be decoded.
struct LinkAccess {
    credentials: Option<Known<LinkCredentials>>,
    kubeconfig: Option<Vec<u8>>,
}

impl<'a> Gathering<'a> {
    /// Starts to read what depends on nothing else. Of the parts, these are read, and the installation.
    pub fn start(
        cluster: &'a Cluster,
        now: Timestamp,
        version: &str,
        parse: ParseArgs,
        wanted: BTreeSet<Part>,
    ) -> Self {
        let client = &cluster.client;
        let running = FuturesUnordered::new();
        running.push(installation(cluster).boxed_local());
        if wanted.contains(&Part::Controller) || wanted.contains(&Part::Services) {
            let deployments = deployments(client, parse).map(GatheredFacts::Deployments);
            running.push(deployments.boxed_local());
        }
        if wanted.contains(&Part::Services) {
            let objects = own_objects(client).map(GatheredFacts::Objects);
            running.push(objects.boxed_local());
        }
        Self {
            cluster,
            snapshot: nothing_known(cluster, now, version),
            wanted,
            running,
            has: (false, false),
            objects: None,
            unanswered: BTreeSet::new(),
            complete: VecDeque::new(),
        }
    }

    /// The next part that is known; `None` after the last one.
    pub async fn next(&mut self) -> Option<Part> {
        while self.complete.is_empty() {
            let answer = self.running.next().await?;
            self.take(answer);
        }
        self.complete.pop_front()
    }

    /// What is known so far.
    pub fn snapshot(&self) -> &FullSnapshot {
        &self.snapshot
    }

    /// The target clusters that have not answered yet.
    pub fn unanswered(&self) -> impl Iterator<Item = &str> {
        let links = self.snapshot.links();
        let unanswered = self.unanswered.iter();
        unanswered.filter_map(|at| links.get(*at).map(LinkSnapshot::cluster))
    }

    /// Adds facts to the snapshot, and starts to read what depends on them.
    fn take(&mut self, answer: GatheredFacts) {
        let snapshot = &mut self.snapshot;
        match answer {
            GatheredFacts::Installation(facts) => {
                let InstallationFacts {
                    uid,
                    extension_namespaces,
                    links,
                    config,
                    link_api,
                    ahead,
                } = *facts;
                snapshot.now += ahead;
                snapshot.ahead = ahead;
                (snapshot.serves_links, snapshot.may_list_links, snapshot.crd) = link_api;
                snapshot.extension_namespaces = extension_namespaces;
                snapshot.cluster.uid = uid;
                snapshot.cluster.links = links;
                snapshot.cluster.config = config;
                self.complete.push_back(Part::Installation);
                self.has.0 = true;
                self.read_of_installation();
            }
            GatheredFacts::Deployments(deployments) => {
                snapshot.deployments = deployments;
                self.has.1 = true;
                self.read_of_controllers();
            }
            GatheredFacts::Objects(objects) => {
                self.objects = Some(objects);
                self.read_of_controllers();
            }
            GatheredFacts::Controller(denied, confinement, leaders) => {
                snapshot.controller_denied = denied;
                snapshot.confinement = confinement;
                snapshot.cluster.leaders = leaders;
                self.complete.push_back(Part::Controller);
            }
            GatheredFacts::Services(facts) => {
                let Services {
                    objects,
                    local_members,
                    routes,
                    foreign,
                    range,
                } = *facts;
                snapshot.mirrors = objects.mirrors;
                snapshot.probes = objects.probes;
                snapshot.endpoints = objects.slices.map(|mut slices| {
                    slices.retain(|slice| !slice.metadata.label(labels::CLUSTER_NAME).is_empty());
                    Endpoints::count(&slices)
                });
                snapshot.local_members = local_members;
                snapshot.routes = routes;
                snapshot.foreign = foreign;
                snapshot.range = range;
                self.complete.push_back(Part::Services);
            }
            GatheredFacts::Credentials(facts) => {
                snapshot.destination = facts.destination;
                snapshot.issuer = facts.issuer;
                snapshot.meshed = facts.meshed;
                self.complete.push_back(Part::Credentials);
                self.ask_targets(facts.access);
            }
            GatheredFacts::Proxies(facts) => {
                snapshot.pods = facts.pods;
                snapshot.exports = facts.exports;
                snapshot.permits = facts.permits;
                snapshot.trust_roots = facts.trust_roots;
                snapshot.certificates = facts.certificates;
                snapshot.pod_networks = facts.pod_networks;
                self.complete.push_back(Part::Proxies);
            }
            GatheredFacts::Target(at, target) => {
                if let Some(link) = snapshot.cluster.links.iter_mut().flatten().nth(at) {
                    link.target = Some(target);
                }
                self.unanswered.remove(&at);
                self.end_targets();
            }
        }
    }

    fn read_of_installation(&mut self) {
        let (cluster, links) = (self.cluster, self.snapshot.links().to_vec());
        let namespaces = namespaces(&self.snapshot);
        if self.wanted.contains(&Part::Credentials) || self.wanted.contains(&Part::Targets) {
            self.running.push(access(cluster, links).boxed_local());
        }
        if self.wanted.contains(&Part::Proxies) {
            self.running
                .push(proxies(cluster, namespaces).boxed_local());
        }
        self.read_of_controllers();
    }

    /// Reads what depends on the Links and on the Deployments of the controllers, once both are known, and what depends on
    /// their objects too, once these are known.
    fn read_of_controllers(&mut self) {
        if self.has != (true, true) {
            return;
        }
        let (cluster, snapshot) = (self.cluster, &self.snapshot);
        let found = snapshot.deployments.iter().flatten();
        let found: Vec<Workload> = found.filter(|w| w.is_ours()).cloned().collect();
        let links = snapshot.links();
        if self.wanted.remove(&Part::Controller) {
            let of_links = links.iter().map(|link| link.namespace().to_owned());
            let namespaces = namespaces(snapshot);
            let namespace = found.first().map(|first| first.id.namespace.clone());
            let namespace = namespace.or_else(|| namespaces.first().cloned());
            let writes_routes = found.first().is_some_and(|first| first.applies_preferences);
            let facts = controller(cluster, namespace, writes_routes, of_links.collect());
            self.running.push(facts.boxed_local());
        }
        if let Some(objects) = self.objects.take() {
            let waiting = waiting(links, &objects.mirrors);
            let facts = of_services(cluster, found, objects, waiting);
            self.running.push(facts.boxed_local());
        }
    }

    /// Asks the target clusters of all Links whose credentials could be read, and whose API servers others than the
    /// controller can reach.
    fn ask_targets(&mut self, access: Vec<LinkAccess>) {
        let are_wanted = self.wanted.contains(&Part::Targets);
        let slots = Arc::new(Semaphore::new(TARGETS_AT_ONCE));
        let links = self.snapshot.cluster.links.iter_mut().flatten();
        for (at, (link, access)) in links.zip(access).enumerate() {
            link.credentials = access.credentials;
            let asked = are_wanted && !is_through_gateway(&link.link);
            let Some(kubeconfig) = access.kubeconfig.filter(|_| asked) else {
                continue;
            };
            let (slots, deadline) = (slots.clone(), self.cluster.deadline);
            let namespace = link.link.spec.target_cluster_linkerd_namespace.clone();
            self.unanswered.insert(at);
            self.running.push(
                async move {
                    let _slot = slots.acquire_owned().await;
                    GatheredFacts::Target(
                        at,
                        target::target_snapshot(&kubeconfig, &namespace, deadline).await,
                    )
                }
                .boxed_local(),
            );
        }
        self.end_targets();
    }

    fn end_targets(&mut self) {
        if self.unanswered.is_empty() {
            self.complete.push_back(Part::Targets);
        }
    }
}

/// The namespaces of the extension and of the Links.
pub fn namespaces(snapshot: &FullSnapshot) -> BTreeSet<String> {
    let of_extension = snapshot.extension_namespaces.iter().flatten().cloned();
    let links = snapshot.links().iter();
    of_extension
        .chain(links.map(|link| link.namespace().to_owned()))
        .collect()
}

/// How many Services wait for a `ClusterIP`.
fn waiting(links: &[LinkSnapshot], mirrors: &Known<Vec<Service>>) -> usize {
    let known = mirrors.as_deref().unwrap_or_default();
    let waiting = links.iter().map(|link| service_range::waiting(link, known));
    waiting.sum()
}

async fn installation(cluster: &Cluster) -> GatheredFacts {
    let client = &cluster.client;
    let (uid, extension_namespaces, links, config, link_api, ahead) = futures::join!(
        kube_system_uid(client),
        extension_namespaces(client),
        links(cluster),
        config_in_force(client, &cluster.linkerd_namespace),
        link_api(client),
        clock_ahead(client),
    );
    GatheredFacts::Installation(Box::new(InstallationFacts {
        uid: uid.ok().flatten(),
        extension_namespaces,
        links,
        config,
        link_api,
        ahead,
    }))
}

/// The facts about the controller in `namespace`: `writes_routes` if it applies preferences. `of_links` are the
/// namespaces of Links.
async fn controller(
    cluster: &Cluster,
    namespace: Option<String>,
    writes_routes: bool,
    of_links: BTreeSet<String>,
) -> GatheredFacts {
    let client = &cluster.client;
    let nowhere = || ReadError::from("extension namespace not found");
    let of_namespace = async {
        let Some(namespace) = namespace else {
            return (Err(nowhere()), Err(nowhere()));
        };
        futures::join!(
            controller_denied(client, &namespace, writes_routes),
            confined(client, &namespace)
        )
    };
    let ((denied, confinement), leaders) = futures::join!(of_namespace, leaders(client, of_links));
    GatheredFacts::Controller(denied, confinement, leaders)
}

/// The facts about the objects of the controllers; `found` are the controllers that are known.
async fn of_services(
    cluster: &Cluster,
    found: Vec<Workload>,
    objects: OwnObjects,
    waiting: usize,
) -> GatheredFacts {
    let client = &cluster.client;
    let local_members = async {
        match found
            .first()
            .and_then(|first| first.local_members.as_deref())
        {
            Some(selector) => services(client, None, selector).await,
            None => Ok(vec![]),
        }
    };
    // No routes can be left over if all controllers write routes.
    let all_write_routes = !found.is_empty() && found.iter().all(|w| w.applies_preferences);
    let routes = async {
        if all_write_routes {
            Ok(vec![])
        } else {
            own_routes(client).await
        }
    };
    let (local_members, routes, range) =
        futures::join!(local_members, routes, service_range(client, waiting));
    let foreign = foreign(&objects);
    GatheredFacts::Services(Box::new(Services {
        objects,
        local_members,
        routes,
        foreign,
        range,
    }))
}

/// The credentials of Links, and those that Linkerd has.
async fn access(cluster: &Cluster, links: Vec<LinkSnapshot>) -> GatheredFacts {
    let clusters = links.iter().map(|link| link.cluster().to_owned()).collect();
    let all: Vec<&LinkSnapshot> = links.iter().collect();
    let (client, linkerd) = (&cluster.client, &cluster.linkerd_namespace);
    let (kubeconfigs, destination, issuer, meshed) = futures::join!(
        kubeconfigs(cluster, &all),
        destination(client, linkerd, &clusters),
        issuer(client, linkerd),
        meshed(client)
    );
    let mut all = Vec::new();
    for kubeconfig in kubeconfigs {
        let credentials = kubeconfig
            .as_ref()
            .map(|kubeconfig| credentials(kubeconfig.as_deref()));
        all.push(LinkAccess {
            credentials,
            kubeconfig: kubeconfig.and_then(Result::ok),
        });
    }
    GatheredFacts::Credentials(Box::new(CredentialFacts {
        access: all,
        destination,
        issuer,
        meshed,
    }))
}

async fn proxies(cluster: &Cluster, namespaces: BTreeSet<String>) -> GatheredFacts {
    let (client, linkerd) = (&cluster.client, &cluster.linkerd_namespace);
    let of_pods = async {
        let own = namespaces.iter().map(String::as_str);
        let (own, of_linkerd) = futures::join!(pods(client, own), pods(client, [linkerd.as_str()]));
        let of_linkerd = of_linkerd.iter().flatten();
        let all: Vec<Pod> = own.iter().flatten().chain(of_linkerd).cloned().collect();
        let certificates = collect_mesh::of_proxies(client, &all, cluster.deadline).await;
        let addresses: Vec<IpAddr> = all.iter().filter_map(collect_mesh::address).collect();
        let own = own.map(|pods| pods.iter().map(meshed_pod).collect::<Vec<_>>());
        let is_limited = |pod: &&MeshedPod| {
            let to = pod
                .proxy
                .as_ref()
                .and_then(|proxy| proxy.forwards_to.as_ref());
            to.is_some_and(|to| !to.are_of_all())
        };
        let limited = own.iter().flatten().find(is_limited);
        let (exports, permits) = match limited.map(|pod| &pod.id.namespace) {
            Some(namespace) => futures::join!(exports(client), permits(client, namespace)),
            None => (Ok(Vec::new()), Ok(GatewayPermits::default())),
        };
        (own, (exports, permits), addresses, certificates)
    };
    let ((pods, (exports, permits), own, certificates), trust_roots, networks) = futures::join!(
        of_pods,
        trust_roots(client, linkerd),
        collect_mesh::of_nodes(client)
    );
    GatheredFacts::Proxies(Box::new(ProxyFacts {
        pods,
        exports,
        permits,
        trust_roots,
        certificates,
        pod_networks: networks.map(|networks| PodNetworks { networks, own }),
    }))
}

/// A snapshot without facts.
fn nothing_known(cluster: &Cluster, now: Timestamp, version: &str) -> FullSnapshot {
    fn not_read<T>() -> Known<T> {
        Err(NOT_READ.into())
    }
    FullSnapshot {
        now,
        ahead: SignedDuration::ZERO,
        version: version.to_owned(),
        extension_namespaces: not_read(),
        cluster: ClusterSnapshot {
            flags: cluster.flags.clone(),
            identity: cluster.identity.clone(),
            ..ClusterSnapshot::unreachable(&cluster.name, &NOT_READ.into())
        },
        serves_links: not_read(),
        may_list_links: not_read(),
        crd: not_read(),
        deployments: not_read(),
        controller_denied: not_read(),
        confinement: not_read(),
        mirrors: not_read(),
        local_members: not_read(),
        routes: not_read(),
        probes: not_read(),
        endpoints: not_read(),
        foreign: not_read(),
        range: not_read(),
        pods: not_read(),
        exports: not_read(),
        permits: not_read(),
        destination: not_read(),
        trust_roots: not_read(),
        issuer: not_read(),
        certificates: not_read(),
        meshed: not_read(),
        pod_networks: not_read(),
    }
}
