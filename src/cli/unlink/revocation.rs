//! How to revoke the tokens of a link in the target cluster, which this command does not use.

use client::{Access, Cluster};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use links::{
    cluster_name::context_of,
    link_credentials::{KubeconfigTarget, TokenAccount},
    linked::LinkedObjects,
    rotate::tokens::link_id,
};
use manifests::link::ClusterName;
use mirror_core::api::labels;

/// Where Kubernetes cuts a name before it adds a random end.
const GENERATED_BASE: usize = 58;

/// The token Secrets that only one link uses.
#[derive(Debug, PartialEq, Eq)]
enum OwnTokens<'a> {
    /// All that have the label with the ID of the link.
    Labelled,
    /// The one with the token in use. It may lack the label, and the label of a fleet is on tokens of other links too.
    Named(&'a str),
}

impl<'a> OwnTokens<'a> {
    /// Those of a link that uses a token of this account; `None` if other links may use it.
    fn of(account: &'a TokenAccount, is_of_fleet: bool) -> Option<Self> {
        let secret = account.secret.as_deref()?;
        if is_of_fleet {
            // A fleet makes an account for each source cluster.
            let is_shared = account.name == labels::REMOTE_ACCESS_ACCOUNT
                && !is_of_rotation(secret, &account.name);
            return (!is_shared).then_some(Self::Named(secret));
        }
        is_of_rotation(secret, &account.name).then_some(Self::Labelled)
    }
}

/// A note with the command that revokes the tokens of this link in the target cluster; `None` if other links may use them,
/// or if the credentials or the namespace kube-system cannot be read.
pub async fn revocation(
    access: &Access,
    cluster: &Cluster,
    namespace: &str,
    name: &ClusterName,
    linked: &LinkedObjects,
) -> Option<String> {
    if !linked.remaining.is_empty() {
        return None; // the other Links may use them
    }
    let mut secrets = linked.own_secrets.iter().chain(&linked.secrets);
    let own = secrets.find(|secret| secret.object.namespace.as_deref() == Some(namespace))?;
    let secrets = cluster.api::<Secret>(namespace);
    let read = cluster.request("read the credentials", secrets.get(own.name()));
    let own = read.await.ok()?;
    let account = KubeconfigTarget::of_secret(&own)?.account?;
    let tokens = OwnTokens::of(&account, own.labels().contains_key(labels::FLEET))?;
    let cluster_name = name.to_string();
    let first = linked.elsewhere.first().and_then(|other| {
        let (namespace, _) = other.split_once('/')?;
        let rotate = cluster
            .flags
            .mc("rotate --namespace {} {}", &[namespace, &cluster_name]);
        Some(format!(
            " run {rotate}, because Linkerd's Secret may hold one;"
        ))
    });
    let contexts = access
        .kubeconfig()
        .map(|all| all.contexts)
        .unwrap_or_default();
    let contexts = contexts.iter().map(|context| context.name.as_str());
    let target = context_of(&cluster_name, contexts).unwrap_or(&cluster_name);
    let target = access.of_other(target).flags();
    let accounts = &account.namespace;
    let (stay, them, revoke) = match tokens {
        OwnTokens::Labelled => {
            let id = link_id(cluster, namespace, &cluster_name).await.ok()?;
            let label = [accounts, labels::TOKEN_OF_LINK, &id];
            let revoke = target.kubectl("-n {} delete secret -l {}={}", &label);
            ("tokens that were made for this link stay", "them", revoke)
        }
        OwnTokens::Named(secret) => {
            let revoke = target.kubectl("-n {} delete secret {}", &[accounts, secret]);
            ("the token of this link stays", "it", revoke)
        }
    };
    Some(format!(
        "note: {stay} valid in {name};{} once the link is deleted, revoke {them} with {revoke}",
        first.unwrap_or_default(),
    ))
}

/// Whether a token Secret of this account is one that was created for one link: its name has an end.
fn is_of_rotation(secret: &str, account: &str) -> bool {
    let base = format!("{account}-token-");
    let base = base.get(..GENERATED_BASE).unwrap_or(&base);
    let end = secret.strip_prefix(base);
    let is_first = secret.strip_prefix(account) == Some("-token");
    end.is_some_and(|end| !end.is_empty()) && !is_first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_secrets_of_rotations_have_a_random_end() {
        for (secret, expected) in [
            ("west-token-x7k2p", true),
            ("west-token", false),
            ("west-token-", false),
            ("west", false),
            ("east-token-x7k2p", false),
        ] {
            assert_eq!(is_of_rotation(secret, "west"), expected, "{secret}");
        }
        // As Kubernetes names them, for all lengths at which it cuts.
        for length in 1..=63 {
            let account = "w".repeat(length);
            let base: String = format!("{account}-token-").chars().take(58).collect();
            assert!(
                is_of_rotation(&format!("{base}x7k2p"), &account),
                "{length}"
            );
            assert!(!is_of_rotation(&format!("{account}-token"), &account));
        }
    }

    #[test]
    fn token_of_a_fleet_is_revoked_by_the_name_of_its_secret() {
        let shared = labels::REMOTE_ACCESS_ACCOUNT;
        let [shared_bound, shared_own] =
            ["bound", "token-x7k2p"].map(|end| format!("{shared}-{end}"));
        for (account, secret, is_of_fleet, expected) in [
            ("west", "west-token-x7k2p", false, Some(OwnTokens::Labelled)),
            ("west", "west-bound", false, None),
            // Only the label of the fleet is on these.
            (
                "west",
                "west-token-x7k2p",
                true,
                Some(OwnTokens::Named("west-token-x7k2p")),
            ),
            (
                "west",
                "west-bound",
                true,
                Some(OwnTokens::Named("west-bound")),
            ),
            (shared, &shared_bound, true, None),
            (
                shared,
                &shared_own,
                true,
                Some(OwnTokens::Named(&shared_own)),
            ),
        ] {
            let account = TokenAccount {
                secret: Some(secret.to_owned()),
                ..TokenAccount::named("mc", account)
            };
            assert_eq!(OwnTokens::of(&account, is_of_fleet), expected, "{secret}");
        }
    }
}
