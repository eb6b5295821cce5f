//! Reads the Secrets of a link, and checks that they and the target cluster belong together.

use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kube::{Api, api::ListParams};

use super::{
    credentials::Account,
    secrets::Stored,
    tokens::{Owner, Token},
};
use crate::{
    api::labels,
    cli::{cluster::Cluster, output},
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

/// The Secrets of a cluster that Linkerd reads, without those that another Link maintains.
pub(super) async fn linkerds(
    source: &Source,
    cluster: &str,
    own: &Stored,
    tokens: &[Token],
) -> anyhow::Result<Vec<Stored>> {
    let secrets =
        Api::<KubernetesSecret>::namespaced(source.cluster.client.clone(), &source.linkerd);
    let of_cluster = format!("{}={cluster}", labels::CREDENTIALS_CLUSTER);
    let params = ListParams::default().labels(&of_cluster);
    let found = source
        .cluster
        .request("list Linkerd's credentials", secrets.list(&params))
        .await?;
    if found.items.is_empty() {
        output::warning(&format!(
            "namespace {} has no credentials for {cluster}, so remote discovery and federated Services do not work",
            source.linkerd
        ));
    }
    let mut ours = Vec::new();
    for secret in &found.items {
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
    Ok(ours)
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
