//! Reads the Secrets of a link, and checks that they and the target cluster belong together.

use std::collections::BTreeSet;

use client::Cluster;
use hints::hint::fail;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret as KubernetesSecret};
use kube::ResourceExt as _;
use mirror_core::{
    api::{labels, link::Link, metadata::cluster_uid},
    mirror::{has_discovery, is_through_gateway},
};
use observe::clusters::{
    collect_full,
    linkerd_secrets::linkerd_secrets,
    snapshot::{Destination, Known},
};

use crate::{
    link_credentials::{Evidence, TokenAccount, by_uid},
    linked::{links, links_elsewhere},
    rotate::{
        credentials::Stored,
        decision::{DESTINATION, TokenHolder},
        tokens::{REQUESTED, TokenOwner, TokenSecret},
    },
};

/// The source cluster.
pub struct SourceCluster {
    /// What messages call it, if they concern several source clusters.
    pub name: Option<String>,
    pub cluster: Cluster,
    /// Namespace of Links.
    pub namespace: String,
    /// Namespace of Linkerd.
    pub linkerd: String,
}

/// The target cluster of a link.
pub struct TargetCluster {
    pub cluster: Cluster,
    /// The context that was used.
    pub context: String,
}

impl SourceCluster {
    /// Linkerd's credentials, and when its destination controller started.
    pub async fn destination(&self, links: &[Link]) -> Known<Destination> {
        let (client, clusters) = (&self.cluster.client, clusters(links));
        collect_full::destination(client, &self.linkerd, &clusters).await
    }

    /// What messages call the link to this cluster.
    pub fn link_to(&self, target: &str) -> String {
        match &self.name {
            Some(name) => format!("{name} → {target}"),
            None => target.to_owned(),
        }
    }

    /// Waits for something that others do, and says so if it takes long. Waits of several clusters would draw over each
    /// other.
    pub async fn wait_for<T>(&self, message: &str, work: impl Future<Output = T>) -> T {
        match &self.name {
            Some(_) => work.await,
            None => self.cluster.console.while_waiting(message, work).await,
        }
    }
}

/// The Secret that the controller reads.
pub async fn own(source: &SourceCluster, name: &str) -> anyhow::Result<Stored> {
    let what = "read the credentials";
    let found = source
        .cluster
        .get::<KubernetesSecret>(what, &source.namespace, name)
        .await?;
    let secret = found.ok_or_else(|| {
        fail(
            format!("Secret {}/{name} not found", source.namespace),
            "link the cluster again, which creates it",
        )
    })?;
    Stored::read(&secret)
}

/// The Secrets of a cluster that Linkerd reads.
pub struct Linkerds {
    /// Those of this link.
    pub ours: Vec<Stored>,
    /// Whether another Link maintains one.
    pub is_shared: bool,
}

/// Finds the Secrets of a cluster that Linkerd reads.
pub async fn linkerds(
    source: &SourceCluster,
    link: &Link,
    own: &Stored,
    tokens: &[TokenSecret],
) -> anyhow::Result<Linkerds> {
    let cluster = &link.spec.target_cluster_name;
    let of_cluster = format!("{}={cluster}", labels::CREDENTIALS_CLUSTER);
    let only = BTreeSet::from([cluster.clone()]);
    let found = in_linkerds_namespace(source, &of_cluster, &only).await?;
    if found.is_empty() && has_discovery(link) {
        warn_of_none(source, cluster).await?;
    }
    let (mut ours, mut is_shared) = (Vec::new(), false);
    for secret in &found {
        let stored = Stored::read(secret)?;
        let mut known = tokens.iter();
        let known = known.find(|token| token.is(&stored.token));
        if known.is_some_and(|token| token.owner == TokenOwner::Another) {
            source.cluster.console.note(&format!(
                "{}: the Secret {} has the token of another Link, and stays as it is",
                source.link_to(cluster),
                stored.path()
            ));
            is_shared = true;
        } else {
            check_equal(link, own, &stored)?;
            ours.push(stored);
        }
    }
    Ok(Linkerds { ours, is_shared })
}

/// Warns that Linkerd has no credentials for a cluster. Fails if this is not Linkerd's namespace: in another one, Linkerd
/// may have them, and use the token that would be revoked.
async fn warn_of_none(source: &SourceCluster, cluster: &str) -> anyhow::Result<()> {
    let linkerd = &source.linkerd;
    if !has_destination(source).await? {
        return Err(fail(
            format!(
                "namespace {linkerd:?} is not Linkerd's: it has neither credentials for {cluster} nor the Deployment \
                 {DESTINATION}"
            ),
            "pass Linkerd's namespace with --linkerd-namespace",
        ));
    }
    source.cluster.console.warning(&format!(
        "Linkerd has no Secret for {cluster} in namespace {linkerd}: remote discovery and federated Services are down"
    ));
    Ok(())
}

/// Fails unless both Secrets have credentials for the same ServiceAccount and API server. The controller's has another
/// address if it connects through the gateway.
fn check_equal(link: &Link, own: &Stored, linkerds: &Stored) -> anyhow::Result<()> {
    let account = |stored: &Stored| {
        let account = stored.target.account.as_ref()?;
        Some((account.namespace.clone(), account.name.clone()))
    };
    let same_account = account(own).is_some() && account(own) == account(linkerds);
    let same_server = own.target.server == linkerds.target.server;
    if same_account && (same_server || is_through_gateway(link)) {
        return Ok(());
    }
    Err(fail(
        format!(
            "the Secrets {} and {} are for different ServiceAccounts or API servers",
            own.path(),
            linkerds.path()
        ),
        "link the cluster again, which makes them equal",
    ))
}

/// Whether Linkerd's namespace has its destination controller.
pub async fn has_destination(source: &SourceCluster) -> anyhow::Result<bool> {
    let (cluster, what) = (&source.cluster, "read the Deployment");
    let found = cluster
        .get::<Deployment>(what, &source.linkerd, DESTINATION)
        .await?;
    Ok(found.is_some())
}

/// The target clusters of Links.
fn clusters(links: &[Link]) -> BTreeSet<String> {
    let names = links.iter().map(|link| &link.spec.target_cluster_name);
    names.cloned().collect()
}

/// Linkerd's credentials of all clusters, or at least those of the clusters of these Links.
pub async fn of_all_clusters(
    source: &SourceCluster,
    links: &[Link],
) -> anyhow::Result<Vec<KubernetesSecret>> {
    in_linkerds_namespace(source, labels::CREDENTIALS_CLUSTER, &clusters(links)).await
}

/// The Secrets with a label in Linkerd's namespace. `clusters`: see [`linkerd_secrets`].
async fn in_linkerds_namespace(
    source: &SourceCluster,
    selector: &str,
    clusters: &BTreeSet<String>,
) -> anyhow::Result<Vec<KubernetesSecret>> {
    let secrets = source.cluster.api::<KubernetesSecret>(&source.linkerd);
    let found = linkerd_secrets(&secrets, selector, clusters);
    let what = "list Linkerd's credentials";
    source.cluster.request(what, found).await
}

/// The tokens that the controller and Linkerd have now, for all Links. With `all`, also those that Linkerd has for
/// others, and those of Links of other namespaces: this needs the rights to list its Secrets and all Links, and to read
/// the Secrets of those Links.
pub async fn holders(source: &SourceCluster, all: bool) -> anyhow::Result<Vec<TokenHolder>> {
    let links = links(&source.cluster, &source.namespace).await?;
    let known = if all { &[][..] } else { &links };
    let mut found = of_all_clusters(source, known).await?;
    let elsewhere = if all {
        let listed = links_elsewhere(&source.cluster, &source.namespace).await?;
        listed.ok_or_else(|| {
            fail(
                "Links of other namespaces may use the tokens, and you may not list these Links",
                "use an account that may list Links of all namespaces, or leave out --revoke-shared",
            )
        })?
    } else {
        Vec::new()
    };
    let links = links.iter().chain(&elsewhere);
    let named = links.map(|link| {
        let namespace = link.namespace().unwrap_or_default();
        (namespace, link.spec.cluster_credentials_secret.clone())
    });
    let named: BTreeSet<(String, String)> = named.filter(|(_, name)| !name.is_empty()).collect();
    for (namespace, name) in named {
        let secrets = source.cluster.api::<KubernetesSecret>(&namespace);
        let read = secrets.get_opt(&name);
        found.extend(source.cluster.request("read the credentials", read).await?);
    }
    // A Secret without a token uses none.
    let stored = found.iter().filter_map(|secret| Stored::read(secret).ok());
    Ok(stored
        .map(|stored| TokenHolder {
            path: stored.path(),
            token: stored.token,
        })
        .collect())
}

/// The token that the controller's Secret has.
pub fn held(own: &Stored, account: &TokenAccount) -> TokenSecret {
    TokenSecret {
        name: account
            .secret
            .clone()
            .unwrap_or_else(|| REQUESTED.to_owned()),
        uid: None,
        text: Some(own.token.clone()),
        created: None,
        owner: TokenOwner::This,
    }
}

/// Fails if tokens of the target cluster show that it is not the cluster of the link, where a new token would be of no
/// use. The link's token is not sent there, because another cluster must not see it.
pub async fn is_of_target<'t>(
    target: &TargetCluster,
    link: &Link,
    own: &Stored,
    account: &TokenAccount,
    mut tokens: impl Iterator<Item = &'t TokenSecret>,
) -> anyhow::Result<()> {
    let actual = target.cluster.uid().await;
    let is_same = match by_uid(cluster_uid(link), actual.as_deref()) {
        Some(evidence) => evidence == Evidence::Same,
        // The server of the link is of its cluster, even if the account has another UID: it may have been created again.
        None => {
            own.target.server == target.cluster.server()
                || !tokens.any(|token| {
                    let text = token.text.as_ref();
                    text.is_some_and(|text| account.is_elsewhere(text))
                })
        }
    };
    if is_same {
        return Ok(());
    }
    Err(fail(
        format!(
            "the context {} is of another cluster than the token in the Secret {}",
            target.context,
            own.path()
        ),
        "choose the context of the target cluster with --target",
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;

    #[test]
    fn token_that_was_requested_is_in_no_secret() {
        let token = |secret: Option<&str>| {
            let mut claims = json!({ "sub": "system:serviceaccount:mc:west" });
            if let Some(secret) = secret {
                claims["kubernetes.io/serviceaccount/secret.name"] = json!(secret);
            }
            let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
            manifests::kubeconfig::Secret::new(format!("e30.{claims}.sig"))
        };
        let kubeconfig = json!({
            "clusters": [{ "name": "c", "cluster": { "server": "https://192.0.2.1" } }],
            "users": [{ "name": "u", "user": { "token": token(None).expose() } }],
        });
        let own = KubernetesSecret {
            data: Some(BTreeMap::from([(
                labels::KUBECONFIG_KEY.to_owned(),
                k8s_openapi::ByteString(kubeconfig.to_string().into_bytes()),
            )])),
            ..KubernetesSecret::default()
        };
        let own = Stored::read(&own).unwrap();
        for secret in [None, Some("west-token-x7k2p")] {
            let account = TokenAccount::of(&token(secret)).unwrap();
            assert_eq!(held(&own, &account).secret(), secret);
        }
    }
}
