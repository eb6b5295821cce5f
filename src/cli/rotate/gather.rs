//! Reads the Secrets of a link, and checks that they and the target cluster belong together.

use std::collections::BTreeSet;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret as KubernetesSecret};
use kube::{Api, api::ListParams};

use super::{
    credentials::{Account, Stored},
    decision::{DESTINATION, Holder},
    tokens::{Owner, Token},
};
use crate::{
    api::labels,
    cli::common::{cluster::Cluster, linked::links, output},
    client::Access,
    hint::fail,
};

/// The source cluster.
pub(super) struct Source {
    pub(super) cluster: Cluster,
    pub(super) access: Access,
    /// Namespace of Links.
    pub(super) namespace: String,
    /// Namespace of Linkerd.
    pub(super) linkerd: String,
}

/// The target cluster of a link.
pub(super) struct Target {
    pub(super) cluster: Cluster,
    /// The context that was used.
    pub(super) context: String,
}

/// The Secret that the controller reads.
pub(super) async fn own(source: &Source, name: &str) -> anyhow::Result<Stored> {
    let secrets =
        Api::<KubernetesSecret>::namespaced(source.cluster.client.clone(), &source.namespace);
    let found = source
        .cluster
        .request("read the credentials", secrets.get_opt(name))
        .await?;
    let secret = found.ok_or_else(|| {
        fail(
            format!("Secret {}/{name} not found", source.namespace),
            "create it with `linkerd-mc link` or `linkerd-mc link-gen`",
        )
    })?;
    Stored::read(&secret)
}

/// The Secrets of a cluster that Linkerd reads.
pub(super) struct Linkerds {
    /// Those of this link.
    pub(super) ours: Vec<Stored>,
    /// Whether another Link maintains one.
    pub(super) is_shared: bool,
}

/// Finds the Secrets of a cluster that Linkerd reads.
pub(super) async fn linkerds(
    source: &Source,
    cluster: &str,
    own: &Stored,
    tokens: &[Token],
) -> anyhow::Result<Linkerds> {
    let of_cluster = format!("{}={cluster}", labels::CREDENTIALS_CLUSTER);
    let found = in_linkerds_namespace(source, &of_cluster).await?;
    if found.is_empty() {
        // In another namespace, Linkerd may have them, and use the token that would be revoked.
        if !has_destination(source).await? {
            return Err(fail(
                format!(
                    "namespace {:?} is not Linkerd's: it has neither credentials for {cluster} nor the Deployment \
                     {DESTINATION}",
                    source.linkerd
                ),
                "pass Linkerd's namespace with --linkerd-namespace",
            ));
        }
        output::warning(&format!(
            "namespace {} has no credentials for {cluster}, so remote discovery and federated Services do not work",
            source.linkerd
        ));
    }
    let (mut ours, mut is_shared) = (Vec::new(), false);
    for secret in &found {
        let stored = Stored::read(secret)?;
        let known = tokens
            .iter()
            .find(|token| stored.has(&token.text))
            .map(|token| token.owner);
        if known == Some(Owner::Another) {
            output::note(&format!(
                "{cluster}: the Secret {} has the token of another Link, and stays as it is",
                stored.path()
            ));
            is_shared = true;
            continue;
        }
        let same_account = |account: &Account| {
            own.credentials.account().is_some_and(|own| {
                (&own.namespace, &own.name) == (&account.namespace, &account.name)
            })
        };
        let same = stored
            .credentials
            .account()
            .as_ref()
            .is_some_and(same_account)
            && stored.credentials.server() == own.credentials.server();
        if !same {
            return Err(fail(
                format!(
                    "the Secrets {} and {} are for different ServiceAccounts or API servers",
                    own.path(),
                    stored.path()
                ),
                "make them equal with `linkerd-mc link`, or apply all that `linkerd-mc link-gen` prints",
            ));
        }
        ours.push(stored);
    }
    Ok(Linkerds { ours, is_shared })
}

/// Whether Linkerd's namespace has its destination controller.
pub(super) async fn has_destination(source: &Source) -> anyhow::Result<bool> {
    let api = Api::<Deployment>::namespaced(source.cluster.client.clone(), &source.linkerd);
    let found = api.get_opt(DESTINATION);
    let found = source.cluster.request("read the Deployment", found).await?;
    Ok(found.is_some())
}

/// The Secrets with a label in Linkerd's namespace.
async fn in_linkerds_namespace(
    source: &Source,
    selector: &str,
) -> anyhow::Result<Vec<KubernetesSecret>> {
    let client = source.cluster.client.clone();
    let secrets = Api::<KubernetesSecret>::namespaced(client, &source.linkerd);
    let params = ListParams::default().labels(selector);
    let found = secrets.list(&params);
    let found = source.cluster.request("list Linkerd's credentials", found);
    Ok(found.await?.items)
}

/// The tokens that the controller and Linkerd have now, for all Links.
pub(super) async fn holders(source: &Source) -> anyhow::Result<Vec<Holder>> {
    let client = source.cluster.client.clone();
    let secrets = Api::<KubernetesSecret>::namespaced(client, &source.namespace);
    let mut found = in_linkerds_namespace(source, labels::CREDENTIALS_CLUSTER).await?;
    let links = links(&source.cluster, &source.namespace).await?;
    let names = links
        .iter()
        .map(|link| &link.spec.cluster_credentials_secret);
    let names: BTreeSet<&String> = names.filter(|name| !name.is_empty()).collect();
    for name in names {
        let read = secrets.get_opt(name);
        found.extend(source.cluster.request("read the credentials", read).await?);
    }
    // A Secret without a token uses none.
    let stored = found.iter().filter_map(|secret| Stored::read(secret).ok());
    Ok(stored
        .map(|stored| Holder {
            path: stored.path(),
            token: stored.credentials.token().clone(),
        })
        .collect())
}

/// Fails if tokens of the target cluster show that it is not the cluster of the link, where a new token would be of no
/// use. The link's token is not sent there, because another cluster must not see it.
pub(super) fn is_of_target<'t>(
    target: &Target,
    own: &Stored,
    account: &Account,
    mut tokens: impl Iterator<Item = &'t Token>,
) -> anyhow::Result<()> {
    // An account that was created again has another UID.
    let same_server = own.credentials.server() == target.cluster.server();
    if same_server || !tokens.any(|token| account.is_elsewhere(&token.text)) {
        return Ok(());
    }
    Err(fail(
        format!(
            "the context {:?} is not of the cluster that issued the token in the Secret {}",
            target.context,
            own.path()
        ),
        "choose the context of the target cluster with --from",
    ))
}
