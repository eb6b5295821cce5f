//! Reads the current state of the clusters for the core to plan with, as the controller does at its start.

mod list;
mod proposed;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use anyhow::Context as _;
use client::{cluster_networks, from_credentials, kubeconfig_in, timing};
use hints::hint::{HintExt as _, fail};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Namespace, Secret},
};
use kube::{Api, Client, ResourceExt};
use mirror_core::{
    api::{
        k8s::{EndpointSlice, Service},
        labels as l,
        link::{Link, LinkObject},
        metadata::ResourceId,
        selector::Selector,
        wire::{StoredObject, Subset, Wire},
    },
    budget::Budget,
    mirror::{
        self, Config, Confirmed, Indexed, Limit, Limits, LinkEntry, Links, Liveness, Local, Names,
        Object, Omitted, Queries, RemoteState, State, Store, Target, Write,
    },
};

pub use self::proposed::Proposed;
use self::{
    list::{filed, list, routes},
    proposed::add,
};
use super::{
    apply::{Failure, Written, name_conflict},
    gateway::{Resolution, Resolver, fixed},
    session::{bare, limit_of_slices, service_of},
};

/// The settings of the controller that affect its plans.
pub struct PreviewSettings {
    /// The settings of the core.
    pub config: Config,
    /// Whether headless Services are mirrored as headless, if a Link does not set this.
    pub headless: bool,
    /// Limits on the objects that are kept of a target cluster.
    pub limits: Limits,
    /// What to do if the target cluster cannot be read with the Link's credentials.
    pub unreadable: String,
}

/// The arguments of the controller in a namespace, for each container of its Deployment. `None` if the Deployment does
/// not exist.
pub async fn controller_args(
    client: &Client,
    namespace: &str,
) -> anyhow::Result<Option<Vec<Vec<String>>>> {
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), namespace);
    let found = deployments
        .get_opt(l::CONTROLLER_NAME)
        .await
        .with_context(|| format!("cannot read Deployment {namespace}/{}", l::CONTROLLER_NAME))?;
    let Some(found) = found else { return Ok(None) };
    let pod = found.spec.and_then(|spec| spec.template.spec);
    let containers = pod.map(|pod| pod.containers).unwrap_or_default();
    Ok(Some(
        containers
            .into_iter()
            .map(|container| container.args.unwrap_or_default())
            .collect(),
    ))
}

/// What was read for a preview of one Link.
pub struct PreviewOf {
    /// What the core plans with.
    pub state: State,
    /// The Link.
    pub link: Link,
    /// The client of its target cluster.
    pub there: Client,
}

/// The state for a preview of one Link: its target cluster is known, those of other Links are not.
///
/// `there`: a client for the target cluster. Without it, the Link's credentials are used, and `deadline` is the timeout
/// of each request with them. Fails if a cluster cannot be listed, or if the Link does not exist or is invalid.
pub async fn state(
    client: &Client,
    settings: PreviewSettings,
    name: &str,
    proposed: Option<Proposed>,
    there: Option<Client>,
    deadline: Duration,
) -> anyhow::Result<PreviewOf> {
    let PreviewSettings {
        config,
        headless,
        limits,
        unreadable,
    } = settings;
    let namespace = config.namespace.clone();
    let api: Api<LinkObject> = Api::namespaced(client.clone(), &namespace);
    let (mut known, mut credentials) = (list(&api, None).await?, BTreeMap::new());
    if let Some(proposed) = proposed {
        add(&mut known, proposed.link, timing::now());
        credentials = proposed.credentials;
    }
    let link = find(&known, name, &namespace)?;
    let target =
        Target::parse_object(link, headless).with_context(|| format!("invalid Link {name}"))?;
    let there = if let Some(there) = there {
        there
    } else {
        let secret = &link.link.spec.cluster_credentials_secret;
        let kubeconfig = match credentials.remove(secret) {
            Some(kubeconfig) => kubeconfig,
            None => read_credentials(client, &namespace, secret).await?,
        };
        from_credentials(&kubeconfig, deadline).await?
    };
    let addresses = addresses(target.gateway.as_ref()).await;
    let api_gateway = target.api_gateway.as_ref().map(|way| &way.gateway);
    let api_gateway = self::addresses(api_gateway).await;
    let mut links = Links::default();
    for other in &known {
        let mut entry = LinkEntry::new(other, headless);
        entry.gateway.liveness = Liveness::recorded(other.link.status.as_ref());
        if other.name_any() == name {
            entry.gateway.addresses.clone_from(&addresses);
            entry.api_gateway.addresses.clone_from(&api_gateway);
        }
        links.insert(other.name_any(), entry);
    }
    let local = local(client, &config, &links).await?;
    let by_slices = links.by_slices(|| local.has_federated_slices());
    let stands = local.services_with_objects(&target.cluster);
    let remote = remote(&there, &target, limits, &stands, by_slices)
        .await
        .hint(
            || format!("cannot list the exported Services of {}", target.cluster),
            || match target.api_gateway {
                None => unreadable,
                Some(_) => {
                    "only the controller reaches its API server through a gateway; pass --target with a context for it"
                        .into()
                }
            },
        )?;
    if let Some(entry) = links.get_mut(name) {
        *entry.remote = Some(remote);
    }
    let mut state = State {
        config,
        local: Some(local),
        links,
        foreign: BTreeMap::new(),
        now: timing::now(),
    };
    find_taken_names(client, &mut state, &target.cluster).await?;
    Ok(PreviewOf {
        state,
        link: link.link.clone(),
        there,
    })
}

/// The Link of this name.
fn find<'a>(
    known: &'a [LinkObject],
    name: &str,
    namespace: &str,
) -> anyhow::Result<&'a LinkObject> {
    let mut links = known.iter();
    links.find(|link| link.name_any() == name).ok_or_else(|| {
        let names: Vec<_> = known.iter().map(ResourceExt::name_any).collect();
        let hint = if names.is_empty() {
            "preview a Link that is not applied yet with --link-file".to_owned()
        } else {
            format!("known Links: {}", names.join(", "))
        };
        fail(
            format!("Link {name} not found in namespace {namespace}"),
            hint,
        )
    })
}

/// Lists the objects in this cluster that the controller watches.
async fn local(client: &Client, config: &Config, links: &Links) -> anyhow::Result<Local> {
    let queries = mirror::local_queries();
    let networks = cluster_networks(client).await;
    let networks = networks.context("cannot read the networks of the cluster")?;
    let selector = config.local_members.as_ref().map(Selector::query);
    let members = match &selector {
        None => Vec::new(),
        Some(selector) => list(&Api::all(client.clone()), Some(selector)).await?,
    };
    let namespaces = list::<Namespace>(&Api::all(client.clone()), None).await?;
    let gateways = Api::namespaced(client.clone(), &config.namespace);
    let gateway_slices = Api::namespaced(client.clone(), &config.namespace);
    let mut local = Local {
        namespaces: namespaces
            .iter()
            .map(|namespace| {
                (
                    namespace.name_any(),
                    mirror::Namespace::of(&namespace.metadata),
                )
            })
            .collect(),
        mirrors: objects(list(&Api::all(client.clone()), queries.mirrors.labels.as_deref()).await?),
        slices: objects(list(&Api::all(client.clone()), queries.mirrors.labels.as_deref()).await?),
        gateways: objects(list(&gateways, queries.gateways.labels.as_deref()).await?),
        gateway_slices: objects(
            list(&gateway_slices, queries.gateway_slices.labels.as_deref()).await?,
        ),
        members: objects(members),
        member_slices: None,
        routes: match config.routes {
            Some(_) => routes(client).await?,
            None => BTreeMap::new(),
        },
        networks: networks.networks,
    };
    if let Some(selector) = selector
        && (config.routes.is_some() || links.by_slices(|| local.has_federated_slices()))
    {
        let slices = list(&Api::all(client.clone()), Some(&selector)).await?;
        local.member_slices = Some(objects(slices));
    }
    Ok(local)
}

/// Finds names of objects to create that are already taken. The controller learns this from the API server's responses.
async fn find_taken_names(client: &Client, state: &mut State, cluster: &str) -> anyhow::Result<()> {
    let mut looked: BTreeMap<String, BTreeMap<String, Service>> = BTreeMap::new();
    let mut planned: BTreeSet<ResourceId> = BTreeSet::new();
    loop {
        let plans = state.keys_of_cluster(cluster);
        let created: Vec<Service> = plans
            .iter()
            .flat_map(|key| mirror::plan(state, key, Confirmed::All).writes)
            .filter_map(|write| match write {
                Write::Create(Object::Service(service)) => Some(*service),
                _ => None,
            })
            .filter(|service| !planned.contains(&service.metadata.resource_id()))
            .collect();
        if created.is_empty() {
            return Ok(());
        }
        for wanted in created {
            let id = wanted.metadata.resource_id();
            planned.insert(id.clone());
            let ResourceId { namespace, name } = id;
            if !looked.contains_key(&namespace) {
                let api: Api<Wire<Service>> = Api::namespaced(client.clone(), &namespace);
                let there = list(&api, None).await?.into_iter().map(Service::from);
                let there = there.map(|service| (service.metadata.name().to_owned(), service));
                looked.insert(namespace.clone(), there.collect());
            }
            let live = looked.get(&namespace).and_then(|there| there.get(&name));
            let Some(live) = live.cloned() else { continue };
            match name_conflict(namespace, name, Some(live), &wanted) {
                Failure::Foreign {
                    namespace,
                    name,
                    who,
                } => {
                    state.foreign.insert((namespace, name), who);
                }
                Failure::Outdated(Some(standing)) => {
                    if let (Written::Service(service), Some(local)) = (*standing, &mut state.local)
                    {
                        local.mirrors.put(service);
                    }
                }
                _ => {}
            }
        }
    }
}

async fn read_credentials(
    client: &Client,
    namespace: &str,
    secret: &str,
) -> anyhow::Result<Vec<u8>> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let found = secrets
        .get_opt(secret)
        .await
        .with_context(|| format!("cannot read Secret {secret}"))?;
    found
        .and_then(|secret| Some(kubeconfig_in(&secret)?.0.clone()))
        .ok_or_else(|| {
            fail(
                format!("no credentials found in Secret {namespace}/{secret}"),
                "link the cluster again, which creates it",
            )
        })
}

/// Lists the objects in the target cluster that a session of the controller watches.
async fn remote(
    client: &Client,
    target: &Target,
    limits: Limits,
    stands: &Names,
    by_slices: bool,
) -> anyhow::Result<RemoteState> {
    let Queries { services, slices } = target.queries(by_slices);
    let limits = limits.of(target);
    let budget = Budget::new(limits.bytes);
    let within = |limit: Limit| limit.within(budget.clone());
    let (mut known, mut omitted) = (Vec::new(), Vec::new());
    let (mut known_slices, mut omitted_slices) = (Vec::new(), Vec::new());
    for selector in services {
        let listed: Vec<Wire<Service>> = list(&Api::all(client.clone()), Some(&selector)).await?;
        let listed = listed
            .into_iter()
            .map(|listed| listed.object.trimmed(limits.metadata));
        let limit = within(Limit::of(limits.services)).first(stands);
        let (taken, left) = limited(limit, limits, listed, |service| service.metadata.id());
        known.push(taken);
        omitted.push(left);
    }
    for selector in slices {
        let found: Vec<Wire<EndpointSlice>> =
            list(&Api::all(client.clone()), Some(&selector)).await?;
        let listed = found.into_iter().map(|found| bare(found.object));
        let limit = within(limit_of_slices(limits));
        let (taken, left) = limited(limit, limits, listed, service_of);
        known_slices.push(taken);
        omitted_slices.push(left);
    }
    Ok(RemoteState {
        services: known,
        slices: known_slices,
        omitted,
        omitted_slices,
    })
}

async fn addresses(gateway: Option<&mirror::Gateway>) -> Option<Vec<std::net::IpAddr>> {
    let hosts = &gateway?.hosts;
    if let Some(addresses) = fixed(hosts) {
        return Some(addresses);
    }
    match Resolver::new(hosts).resolve().await {
        Resolution::Addresses(addresses) => Some(addresses),
        Resolution::Unresolved(_) => None,
    }
}

/// The objects within the limit, and those that it omits.
fn limited<T: StoredObject + Indexed>(
    mut limit: Limit,
    limits: Limits,
    items: impl Iterator<Item = T>,
    service: impl Fn(&T) -> (String, String),
) -> (Store<T>, Omitted) {
    let mut listing = limit.list();
    for object in items {
        let metadata = object.metadata();
        let number = listing.number(metadata.namespace(), metadata.name());
        listing.put(number, limits.cost(&object), Arc::new(object), &service);
    }
    let (taken, omitted) = listing.end(service);
    let mut objects = Store::remote();
    for object in taken {
        objects.put(object);
    }
    (objects, omitted)
}

fn objects<T: Indexed + Subset>(items: Vec<Wire<T>>) -> Store<T> {
    filed(items.into_iter().map(T::from))
}

#[cfg(test)]
mod tests;
