//! A look at the clusters as they are, for the core to plan with: what the controller would see at its start.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, Client, Resource, ResourceExt, api::ListParams};
use serde::de::DeserializeOwned;

use super::gateway::{Resolution, Resolver, fixed};
use crate::{
    api::{labels as l, link::Link, wire::Wire},
    client::from_credentials,
    hint::{HintExt as _, fail},
    mirror::{
        Config, GatewayState, Grouped, LinkEntry, Links, Liveness, NamespacePhase, Objects, Remote,
        Selector, Target, World,
    },
};

/// Objects per page.
const PAGE: u32 = 500;

/// A Link that is not applied yet, and its credentials if they are not either.
pub struct Proposed {
    /// The Link.
    pub link: Link,
    /// Kubeconfigs by name of their Secret.
    pub credentials: BTreeMap<String, Vec<u8>>,
}

/// Everything that is known when one Link is looked at: its target cluster is, those of other Links are not.
///
/// `deadline` bounds each request to the target cluster. Fails when a cluster cannot be listed, and when there
/// is no such Link or it cannot be worked with.
pub async fn world(
    client: &Client,
    config: Config,
    headless: bool,
    name: &str,
    proposed: Option<Proposed>,
    deadline: Duration,
) -> anyhow::Result<World> {
    let namespace = config.namespace.clone();
    let mirrored = format!("{}=true", l::MIRRORED_SERVICE);
    let gateways = format!("{}=true", l::MIRRORED_GATEWAY);
    let ours = || Api::namespaced(client.clone(), &namespace);
    let (mut known, mut credentials) = (list::<Link>(&ours(), None).await?, BTreeMap::new());
    if let Some(proposed) = proposed {
        known.retain(|link| link.name_any() != proposed.link.name_any());
        known.push(proposed.link);
        credentials = proposed.credentials;
    }
    let link = known
        .iter()
        .find(|link| link.name_any() == name)
        .ok_or_else(|| {
            let names: Vec<_> = known.iter().map(ResourceExt::name_any).collect();
            fail(
                format!("there is no Link {name} in the namespace {namespace}"),
                if names.is_empty() {
                    "--link-file previews a Link that is not applied yet".to_owned()
                } else {
                    format!("known Links: {}", names.join(", "))
                },
            )
        })?;
    let target =
        Target::parse(link, headless).with_context(|| format!("Link {name} is invalid"))?;
    let secret = &link.spec.cluster_credentials_secret;
    let kubeconfig = match credentials.remove(secret) {
        Some(kubeconfig) => kubeconfig,
        None => read_credentials(client, &namespace, secret).await?,
    };
    let there = from_credentials(&kubeconfig, deadline).await?;
    let remote = remote(&there, &target).await.hint(
        || format!("cannot list what {} exports", target.cluster),
        || "`linkerd-mc check` says whether its credentials are good".into(),
    )?;
    let addresses = addresses(&target).await;
    let members = match &config.local_members {
        None => Vec::new(),
        Some(selector) => list(&Api::all(client.clone()), Some(&selector.query())).await?,
    };
    let mut links = Links::default();
    for other in &known {
        let remembered = other
            .status
            .as_ref()
            .and_then(|s| s.gateway.as_ref())
            .and_then(|g| g.alive);
        let liveness = match remembered {
            None => Liveness::Unknown,
            Some(true) => Liveness::Alive,
            Some(false) => Liveness::Dead,
        };
        let this = other.name_any() == name;
        links.insert(
            other.name_any(),
            LinkEntry {
                cluster: other.spec.target_cluster_name.clone(),
                target: Target::parse(other, headless),
                remote: this.then(|| remote.clone()),
                gateway: GatewayState {
                    addresses: addresses.clone().filter(|_| this),
                    liveness,
                },
            },
        );
    }
    let phase = |namespace: &Namespace| match namespace.metadata.deletion_timestamp {
        None => NamespacePhase::Active,
        Some(_) => NamespacePhase::Terminating,
    };
    let namespaces = list::<Namespace>(&Api::all(client.clone()), None).await?;
    Ok(World {
        namespaces: Some(
            namespaces
                .iter()
                .map(|n| (n.name_any(), phase(n)))
                .collect(),
        ),
        mirrors: Some(objects(
            list(&Api::all(client.clone()), Some(&mirrored)).await?,
        )),
        slices: Some(objects(
            list(&Api::all(client.clone()), Some(&mirrored)).await?,
        )),
        probes: Some(objects(
            list(
                &Api::namespaced(client.clone(), &namespace),
                Some(&gateways),
            )
            .await?,
        )),
        probe_slices: Some(objects(
            list(
                &Api::namespaced(client.clone(), &namespace),
                Some(&gateways),
            )
            .await?,
        )),
        members: Some(objects(members)),
        links: Some(links),
        foreign: BTreeMap::new(),
        config,
    })
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
        .and_then(|secret| secret.data?.remove(l::KUBECONFIG_KEY))
        .map(|kubeconfig| kubeconfig.0)
        .ok_or_else(|| {
            fail(
                format!("there are no credentials in Secret {namespace}/{secret}"),
                "`linkerd-mc link-gen` prints it together with the Link",
            )
        })
}

async fn remote(client: &Client, target: &Target) -> anyhow::Result<Remote> {
    let mut services = Vec::new();
    for selector in target.service_selectors() {
        services.push(objects(
            list(&Api::all(client.clone()), Some(&selector.query())).await?,
        ));
    }
    let slices = match target.gateway_selector.as_ref().map(Selector::query) {
        Some(query) => objects(list(&Api::all(client.clone()), Some(&query)).await?),
        None => Objects::default(),
    };
    Ok(Remote {
        services,
        slices: vec![slices],
        over_limit: false,
    })
}

async fn addresses(target: &Target) -> Option<Vec<std::net::IpAddr>> {
    let hosts = &target.gateway.as_ref()?.hosts;
    if let Some(addresses) = fixed(hosts) {
        return Some(addresses);
    }
    match Resolver::new(hosts).resolve().await {
        Resolution::Addresses(addresses) => Some(addresses),
        Resolution::Unresolved(_) => None,
    }
}

fn objects<T: Grouped>(items: Vec<Wire<T>>) -> Objects<T> {
    let mut objects = Objects::default();
    for item in items {
        objects.put(Arc::new(item.into()));
    }
    objects
}

/// Lists all objects, page by page.
async fn list<K>(api: &Api<K>, labels: Option<&str>) -> anyhow::Result<Vec<K>>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + std::fmt::Debug,
{
    let mut parameters = ListParams::default().limit(PAGE);
    if let Some(labels) = labels {
        parameters = parameters.labels(labels);
    }
    let mut items = Vec::new();
    loop {
        let page = api
            .list(&parameters)
            .await
            .with_context(|| format!("cannot list {}", K::plural(&())))?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => parameters.continue_token = Some(next),
            None => return Ok(items),
        }
    }
}
