//! Reads the Links of a cluster, their credentials, and Linkerd's configuration.
//!
//! Requests run concurrently, each with the client's timeout: a cluster that does not respond takes one timeout, not
//! one per request.

use std::{fmt::Debug, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Config, ResourceExt as _, api::ListParams};
use serde::de::DeserializeOwned;

use super::{
    config::linkerd_config,
    facts::{Credentials, Known, LinkFacts, Survey},
    remote,
};
use crate::{
    api::{
        labels,
        link::{Link, LinkObject},
    },
    client::{
        Access, Identity, build, credentials_expiry, credentials_identity, explain, insecure_tls,
        token_fingerprint,
    },
};

/// Objects per page of a list.
const PAGE: u32 = 500;
/// Links that are read concurrently.
const LINKS_AT_ONCE: usize = 32;

/// A cluster with a client.
#[derive(Clone)]
pub struct Source {
    /// What the user calls the cluster.
    pub name: String,
    /// Where its API server is.
    pub identity: Identity,
    /// Its client, for one-shot requests.
    pub client: Client,
    config: Config,
    /// Timeout of a request, and of all requests to one target cluster together.
    pub deadline: Duration,
    /// Namespace of Linkerd's control plane.
    pub linkerd_namespace: String,
}

impl Source {
    /// Creates the client. Sends no requests.
    pub async fn new(
        name: &str,
        access: &Access,
        deadline: Duration,
        linkerd_namespace: &str,
    ) -> anyhow::Result<Self> {
        let config = access.config().await?;
        Ok(Self {
            name: name.to_owned(),
            identity: Identity::of(&config),
            client: build(config.clone(), deadline)?,
            config,
            deadline,
            linkerd_namespace: linkerd_namespace.to_owned(),
        })
    }

    /// A client for watches, whose timeout is longer than a watch.
    pub fn watch_client(&self) -> anyhow::Result<Client> {
        build(self.config.clone(), WATCH + self.deadline)
    }
}

/// How long the API server keeps a watch open, and thus how long a broken watch may go unnoticed.
pub const WATCH: Duration = Duration::from_secs(60);

/// What to read about Links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only the Links.
    Links,
    /// Also the credentials Secrets.
    Credentials,
    /// Also their target clusters, with these credentials.
    Targets,
}

/// Reads from a cluster.
pub async fn survey(source: &Source, depth: Depth) -> Survey {
    let (links, config) = futures::join!(
        links(source, depth),
        linkerd_config(&source.client, &source.linkerd_namespace)
    );
    Survey {
        name: source.name.clone(),
        identity: source.identity.clone(),
        links,
        config,
    }
}

async fn links(source: &Source, depth: Depth) -> Known<Vec<LinkFacts>> {
    let mut links: Vec<LinkObject> = list(&Api::all(source.client.clone()), "")
        .await
        .map_err(|error| explain(&error))?;
    links.sort_by_cached_key(|object| (object.namespace(), object.name_any()));
    // Unordered, so that a target that does not respond does not delay the others.
    let mut facts: Vec<_> = stream::iter(links.into_iter().enumerate())
        .map(async |(at, link)| (at, link_facts(source, depth, link).await))
        .buffer_unordered(LINKS_AT_ONCE)
        .collect()
        .await;
    facts.sort_by_key(|(at, _)| *at);
    Ok(facts.into_iter().map(|(_, facts)| facts).collect())
}

async fn link_facts(source: &Source, depth: Depth, object: LinkObject) -> LinkFacts {
    let LinkObject { link, unreadable } = object;
    let mut facts = LinkFacts {
        link,
        unreadable,
        credentials: None,
        remote: None,
    };
    if depth == Depth::Links || facts.unreadable.is_some() {
        return facts;
    }
    match kubeconfig_of(source, &facts.link).await {
        Err(why) => facts.credentials = Some(Err(why)),
        Ok(kubeconfig) => {
            let identity = credentials_identity(&kubeconfig).await;
            let expiry = credentials_expiry(&kubeconfig);
            let token = token_fingerprint(&kubeconfig);
            let insecure = insecure_tls(&kubeconfig);
            facts.credentials = Some(
                identity
                    .map(|identity| Credentials {
                        identity,
                        expiry,
                        token,
                        insecure,
                    })
                    .map_err(|error| error.to_string()),
            );
            if depth == Depth::Targets {
                let namespace = &facts.link.spec.target_cluster_linkerd_namespace;
                facts.remote = Some(remote::ask(&kubeconfig, namespace, source.deadline).await);
            }
        }
    }
    facts
}

/// The kubeconfig in a Link's credentials Secret. Errors do not quote it.
async fn kubeconfig_of(source: &Source, link: &Link) -> Known<Vec<u8>> {
    let name = &link.spec.cluster_credentials_secret;
    let namespace = link.metadata.namespace.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Err("spec.clusterCredentialsSecret is empty".to_owned());
    }
    let api: Api<Secret> = Api::namespaced(source.client.clone(), namespace);
    let secret = api
        .get(name)
        .await
        .map_err(|error| format!("cannot read Secret {namespace}/{name}: {}", explain(&error)))?;
    secret
        .data
        .and_then(|mut data| data.remove(labels::KUBECONFIG_KEY))
        .map(|kubeconfig| kubeconfig.0)
        .ok_or_else(|| {
            format!(
                "Secret {namespace}/{name} has no key {}",
                labels::KUBECONFIG_KEY
            )
        })
}

/// Lists all objects that match a label selector, page by page.
pub(super) async fn list<K>(api: &Api<K>, selector: &str) -> kube::Result<Vec<K>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut objects = Vec::new();
    let mut page = ListParams::default().labels(selector).limit(PAGE);
    loop {
        let answer = match api.list(&page).await {
            // The continue token has expired: list again, without pages.
            Err(kube::Error::Api(status))
                if status.code == 410 && page.continue_token.is_some() =>
            {
                objects.clear();
                api.list(&ListParams::default().labels(selector)).await?
            }
            answer => answer?,
        };
        objects.extend(answer.items);
        match answer.metadata.continue_ {
            Some(token) if !token.is_empty() => page.continue_token = Some(token),
            _ => return Ok(objects),
        }
    }
}
