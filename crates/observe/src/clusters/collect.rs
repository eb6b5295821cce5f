//! Takes the [`ClusterSnapshot`] of a cluster: its Links, their credentials, and Linkerd's configuration. Reads only.
//!
//! Requests run concurrently, and each ends within the client's deadline. So a cluster that does not respond delays the
//! result by one deadline in all, not by one for each request.

use std::collections::{BTreeSet, HashMap};

use client::{
    Cluster, ReadError, ReadErrorKind, credentials_expiry, credentials_identity, insecure_tls,
    kube_system_uid, kubeconfig_in, never_expires_in,
    requests::{list_all, list_matching},
    token_fingerprint,
};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, Resource as _, ResourceExt as _, api::ListParams};
use mirror_core::api::{
    labels,
    link::{Link, LinkObject},
    metadata::ResourceId,
};

use super::{
    kube_context::{KubeContext, side_by_side},
    leader::leaders,
    snapshot::{ClusterSnapshot, Known, LinkCredentials, LinkSnapshot},
    target::config_in_force,
};

/// Maximum number of credentials Secrets that are read concurrently. Those of more Links are listed.
const SECRETS_AT_ONCE: usize = 32;

/// Why there are no Links in a cluster whose API server does not know the kind.
pub const NOT_INSTALLED: &str = "the multicluster extension is not installed";

/// What to read of each Link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Only the Links.
    Links,
    /// Also the credentials Secrets.
    Credentials,
}

/// Takes the snapshots of all clusters concurrently.
pub async fn snapshots_of(contexts: &[KubeContext], depth: Depth) -> Vec<ClusterSnapshot> {
    side_by_side(contexts.iter().map(async |context| match &context.client {
        Ok(cluster) => snapshot_of(cluster, depth).await,
        Err(why) => ClusterSnapshot::unreachable(&context.name, why),
    }))
    .await
}

/// Takes the snapshot of one cluster.
pub async fn snapshot_of(cluster: &Cluster, depth: Depth) -> ClusterSnapshot {
    let links = async {
        let mut links = links(cluster).await;
        let namespaces = namespaces(&links);
        let known = links.iter_mut().flatten().collect();
        let (leaders, ()) = futures::join!(leaders(&cluster.client, namespaces), async {
            if depth == Depth::Credentials {
                add_credentials(cluster, known).await;
            }
        });
        (links, leaders)
    };
    let config = config_in_force(&cluster.client, &cluster.linkerd_namespace);
    let uid = kube_system_uid(&cluster.client);
    let ((links, leaders), config, uid) = futures::join!(links, config, uid);
    ClusterSnapshot {
        name: cluster.name.clone(),
        flags: cluster.flags.clone(),
        identity: cluster.identity.clone(),
        uid: uid.ok().flatten(),
        links,
        config,
        leaders,
    }
}

/// The namespaces of Links.
pub fn namespaces(links: &Known<Vec<LinkSnapshot>>) -> BTreeSet<String> {
    let links = links.iter().flatten();
    links.map(|link| link.namespace().to_owned()).collect()
}

/// What is wrong with a cluster whose Links have only older versions; `None` if it has no Links at all.
pub async fn older_links(client: &Client) -> Option<String> {
    let groups = client.list_api_groups().await.ok()?.groups;
    let own = Link::group(&());
    let versions = groups.into_iter().find(|group| group.name == own)?.versions;
    let versions: Vec<String> = versions.into_iter().map(|known| known.version).collect();
    (!versions.iter().any(|version| version == "v1alpha3")).then(|| {
        format!(
            "the CRD of Links has only {}, that of Linkerd 2.17 or older, and not v1alpha3",
            versions.join(", ")
        )
    })
}

/// Lists the Links, without their credentials.
pub async fn links(cluster: &Cluster) -> Known<Vec<LinkSnapshot>> {
    let listed = list_all::<LinkObject>(&Api::all(cluster.client.clone()), "").await;
    let mut links = match listed {
        Ok(links) => links,
        Err(kube::Error::Api(status)) if status.code == 404 => {
            let older = older_links(&cluster.client).await;
            return Err(match older {
                Some(older) => ReadError::new(ReadErrorKind::OldLinks, older),
                None => ReadError::new(ReadErrorKind::NotInstalled, NOT_INSTALLED),
            });
        }
        Err(error) => return Err(error.into()),
    };
    links.sort_by_cached_key(|object| ResourceId::of(&object.link));
    let links = links
        .into_iter()
        .map(|LinkObject { link, unreadable }| LinkSnapshot {
            link,
            unreadable,
            credentials: None,
            target: None,
        });
    Ok(links.collect())
}

/// Reads the credentials Secrets of these Links.
pub async fn add_credentials(cluster: &Cluster, links: Vec<&mut LinkSnapshot>) {
    let wanted: Vec<&LinkSnapshot> = links.iter().map(|link| &**link).collect();
    let listed = listed(cluster, &wanted).await;
    let read = async |link: &mut LinkSnapshot| {
        if link.unreadable.is_none() {
            let kubeconfig = kubeconfig_of(cluster, &listed, &link.link).await;
            link.credentials = Some(credentials(kubeconfig.as_deref()));
        }
    };
    let reads = stream::iter(links).map(read);
    reads
        .buffer_unordered(SECRETS_AT_ONCE)
        .collect::<()>()
        .await;
}

/// The kubeconfigs of Links, in the same order; `None` for a Link that cannot be decoded.
pub async fn kubeconfigs(
    cluster: &Cluster,
    links: &[&LinkSnapshot],
) -> Vec<Option<Known<Vec<u8>>>> {
    let listed = listed(cluster, links).await;
    let read = async |link: &&LinkSnapshot| match link.unreadable {
        Some(_) => None,
        None => Some(kubeconfig_of(cluster, &listed, &link.link).await),
    };
    let reads = stream::iter(links).map(read);
    reads.buffered(SECRETS_AT_ONCE).collect().await
}

/// The credentials Secrets of many Links, in one list for each namespace. Empty for few Links, and without permission to
/// list them: then each is read alone, as those are that have another type.
async fn listed(cluster: &Cluster, links: &[&LinkSnapshot]) -> HashMap<ResourceId, Secret> {
    let mut found = HashMap::new();
    if links.len() <= SECRETS_AT_ONCE {
        return found;
    }
    let namespaces: BTreeSet<&str> = links.iter().map(|link| link.namespace()).collect();
    let of_links = ListParams::default().fields(&format!("type={}", labels::CREDENTIALS_TYPE));
    for namespace in namespaces {
        let api: Api<Secret> = Api::namespaced(cluster.client.clone(), namespace);
        let secrets = list_matching(&api, &of_links).await.unwrap_or_default();
        let secrets = secrets.into_iter();
        found.extend(
            secrets.map(|secret| (ResourceId::new(namespace, &*secret.name_any()), secret)),
        );
    }
    found
}

/// What a kubeconfig says about its credentials.
pub fn credentials(kubeconfig: Result<&[u8], &ReadError>) -> Known<LinkCredentials> {
    let kubeconfig = kubeconfig.map_err(Clone::clone)?;
    let identity = credentials_identity(kubeconfig);
    Ok(LinkCredentials {
        identity: identity.map_err(|error| error.to_string())?,
        expiry: credentials_expiry(kubeconfig),
        endless_in: never_expires_in(kubeconfig),
        token: token_fingerprint(kubeconfig),
        insecure: insecure_tls(kubeconfig),
    })
}

/// The kubeconfig in a Link's credentials Secret, which is read if it was not `listed`. The error contains nothing of it.
async fn kubeconfig_of(
    cluster: &Cluster,
    listed: &HashMap<ResourceId, Secret>,
    link: &Link,
) -> Known<Vec<u8>> {
    let name = &link.spec.cluster_credentials_secret;
    let namespace = link.metadata.namespace.as_deref().unwrap_or_default();
    if name.is_empty() {
        return Err("the Link names no credentials Secret".into());
    }
    let read;
    let secret = if let Some(secret) = listed.get(&ResourceId::new(namespace, name.as_str())) {
        secret
    } else {
        let api: Api<Secret> = Api::namespaced(cluster.client.clone(), namespace);
        read = api.get(name).await.map_err(|error| {
            ReadError::from(error).context(format_args!("cannot read Secret {namespace}/{name}"))
        })?;
        &read
    };
    kubeconfig_in(secret)
        .map(|kubeconfig| kubeconfig.0.clone())
        .ok_or_else(|| {
            format!(
                "Secret {namespace}/{name} has no key {}",
                labels::KUBECONFIG_KEY
            )
            .into()
        })
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use client::of_test_server;
    use futures::FutureExt as _;
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};
    use serde_json::json;

    use super::*;
    use crate::clusters::fixtures::link;

    /// The requests for the Secrets of so many Links, of which the first has another type, and those that were read. The
    /// API server permits lists, or does not.
    async fn read(count: usize, may_list: bool) -> (Vec<String>, usize) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let client = of_test_server(move |request: http::Request<_>| {
            let path = request.uri().path().to_owned();
            let name = path
                .split_once("/secrets/")
                .map(|(_, name)| name.to_owned());
            let secret = |name: &str| json!({ "metadata": { "name": name }, "data": { labels::KUBECONFIG_KEY: "e30=" } });
            let (code, answer) = match &name {
                Some(name) => (200, secret(name)),
                None if may_list => {
                    let all = (1..count).map(|number| secret(&format!("c{number}")));
                    (
                        200,
                        json!({ "metadata": {}, "items": all.collect::<Vec<_>>() }),
                    )
                }
                None => (
                    403,
                    json!({ "kind": "Status", "status": "Failure", "message": "forbidden", "code": 403 }),
                ),
            };
            seen.lock()
                .unwrap()
                .push(name.unwrap_or_else(|| "all".to_owned()));
            let frame = Ok(Frame::data(Bytes::from(answer.to_string())));
            let body = StreamBody::new(stream::iter([frame]).boxed());
            let answered = http::Response::builder().status(code).body(body);
            async move { Ok(answered?) }.boxed()
        });
        let links: Vec<LinkSnapshot> = (0..count)
            .map(|number| {
                let mut link = link(&format!("c{number}"), &json!({}));
                link.link.spec.cluster_credentials_secret = format!("c{number}");
                link
            })
            .collect();
        let cluster = Cluster::of_test_server(client);
        let found = kubeconfigs(&cluster, &links.iter().collect::<Vec<_>>()).await;
        let found = found.iter().flatten().filter(|found| found.is_ok());
        let asked = asked.lock().unwrap().clone();
        (asked, found.count())
    }

    #[tokio::test]
    async fn credentials_of_many_links_are_one_list() {
        assert_eq!(
            read(500, true).await,
            (vec!["all".to_owned(), "c0".to_owned()], 500)
        );
        let (asked, found) = read(500, false).await;
        assert_eq!((asked.len(), found), (501, 500), "each is asked for");
        let (asked, found) = read(3, true).await;
        assert_eq!((asked.len(), found), (3, 3), "no list");
    }
}
