//! Reads from the target cluster what a link needs, and makes the link's objects.

use client::{Access, Cluster};
use hints::hint::fail;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Secret as KubernetesSecret, Service, ServiceAccount};
use kube::ResourceExt as _;
use manifests::{
    kubeconfig::{KubeconfigContext, Secret},
    link::{ClusterName, LinkObjects},
};
use mirror_core::api::labels;

use crate::{
    given::Given,
    link::{
        api_server::{ApiServerFacts, Way},
        existing::Existing,
        facts::{LinkFacts, WantedLink},
        flags::LinkArgs,
        remark::Remark,
    },
    link_credentials::TokenAccount,
    linkerd::linkerd_config,
    rotate::tokens::{Lifetime, TokenSecret, Tokens},
};

/// Where a new token comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewToken<'l> {
    /// There is none, only what stands in for it: for a dry run.
    StandIn,
    /// It is that of the link with this ID.
    OfLink(&'l str),
    /// All links with this account may use it.
    OfAccount,
}

/// Reads the target cluster behind `access`, and builds the objects that link another cluster to it. What is there
/// already stays, unless one of the given flags names it. Also returns what the user has to know.
pub async fn generate(
    access: &Access,
    cluster: &Cluster,
    linkerd_namespace: &str,
    cluster_name: &ClusterName,
    args: &LinkArgs,
    (given, existing): (&Given, Existing<'_>),
    new: NewToken<'_>,
) -> anyhow::Result<(LinkObjects, Vec<Remark>)> {
    let context = entry(access)?;
    let (args, given) = &args.with_profile(given)?;
    let args = &existing.over(args, given);
    args.agree_on_discovery()?;
    let mut remarks = Vec::new();
    let inside = ApiServerFacts::read(cluster, args).await?;
    let way = Way::of(&context, &inside, cluster_name, args, &mut remarks)?;
    // In sequence: they share a connection, and the first error is the one to report.
    let config = linkerd_config(cluster, linkerd_namespace).await?;
    let account = account(cluster, args).await?;
    let gateway = gateway(cluster, args).await?;
    let facts = LinkFacts {
        context,
        uid: cluster.uid().await,
        flags: cluster.flags.clone(),
        config,
        gateway,
    };
    let wanted = WantedLink {
        name: cluster_name,
        linkerd: linkerd_namespace,
        args,
        given,
        existing,
    };
    // What is wrong is found before a token is requested for nothing.
    wanted.objects(&facts, &way, &account.stand_in(None), &mut Vec::new())?;
    let held = existing.credentials.and_then(|old| old.token.as_ref());
    let token = token(cluster, args, &account, held, new).await?;
    way.check(&facts.context, &account.name, &token, cluster.console)
        .await?;
    let objects = wanted.objects(&facts, &way, &token, &mut remarks)?;
    Ok((objects, remarks))
}

/// The target cluster, as the user's kubeconfig has it.
pub fn entry(access: &Access) -> anyhow::Result<KubeconfigContext> {
    let kubeconfig = access.kubeconfig()?;
    let name = access.context_name(&kubeconfig)?;
    KubeconfigContext::take(&kubeconfig, &name, |path| std::fs::read(path))
}

/// The account of the link.
async fn account(cluster: &Cluster, args: &LinkArgs) -> anyhow::Result<TokenAccount> {
    let namespace = args.service_account_namespace.as_ref();
    let (namespace, name) = (
        namespace.unwrap_or(&args.namespace),
        &args.service_account_name,
    );
    let what = "read the ServiceAccount";
    let account = cluster.get::<ServiceAccount>(what, namespace, name).await?;
    let account = account.ok_or_else(|| {
        fail(
            format!("ServiceAccount {name:?} not found in namespace {namespace:?}"),
            format!(
                "create one with {}, or choose another with --service-account-name and --service-account-namespace",
                cluster.allow(namespace, name)
            ),
        )
    })?;
    Ok(TokenAccount {
        uid: account.uid(),
        ..TokenAccount::named(namespace, name)
    })
}

/// A token of the account. That which is `held` already is used again as long as it is valid.
async fn token(
    cluster: &Cluster,
    args: &LinkArgs,
    own: &TokenAccount,
    held: Option<&Secret>,
    new: NewToken<'_>,
) -> anyhow::Result<Secret> {
    let link = match new {
        NewToken::OfLink(id) => Some(id),
        NewToken::StandIn | NewToken::OfAccount => None,
    };
    let lifetime = args.token_duration.unwrap_or(Lifetime::Usual);
    let tokens = Tokens::of(cluster, own, link, None).valid_for(lifetime);
    let known = tokens.list().await?;
    let is_kept = args.token_duration.is_none_or(|of| of == Lifetime::Endless);
    let held = held.filter(|_| is_kept);
    let now = cluster.now().await;
    if let Some(held) = held.filter(|held| is_valid(held, own, &known, now)) {
        return Ok(held.clone());
    }
    if new == NewToken::StandIn {
        let asked = lifetime.asked();
        let expires = asked.map(|asked| now.checked_add(asked)).transpose()?;
        return Ok(own.stand_in(expires));
    }
    tokens.obtain(&known).await
}

/// Whether a token is of this account, and valid: its Secret is one of the `known` ones, unless it has none. A token of another
/// account must not stay: whoever revokes that account would cut the link off.
fn is_valid(token: &Secret, of: &TokenAccount, known: &[TokenSecret], now: Timestamp) -> bool {
    let Some(own) = TokenAccount::of(token) else {
        return false;
    };
    let is_same = (&own.namespace, &own.name, &own.uid) == (&of.namespace, &of.name, &of.uid);
    let lasts = own.expires.is_none_or(|at| at > now);
    let is_unbound = own.secret.is_none() && own.expires.is_some();
    is_same && lasts && (is_unbound || known.iter().any(|known| known.is(token)))
}

/// Whether a Secret has this token.
pub fn has(secret: &KubernetesSecret, token: &Secret) -> bool {
    let data = secret.data.as_ref().and_then(|data| data.get("token"));
    data.is_some_and(|data| data.0 == token.expose().as_bytes())
}

/// Whether a token belongs to the ServiceAccount `name`, and was not created by `rotate` for one link, which revokes it
/// some day.
pub fn is_of(secret: &KubernetesSecret, name: &str) -> bool {
    is_for_account(secret, name) && !secret.labels().contains_key(labels::TOKEN_OF_LINK)
}

/// Whether a token Secret is for the ServiceAccount `name`.
fn is_for_account(secret: &KubernetesSecret, name: &str) -> bool {
    let account = secret.annotations().get(labels::SERVICE_ACCOUNT_NAME);
    account.is_some_and(|account| account == name)
}

/// The gateway's Service; `None` for a link without a gateway.
pub async fn gateway(cluster: &Cluster, args: &LinkArgs) -> anyhow::Result<Option<Service>> {
    if !args.gateway {
        return Ok(None);
    }
    let (namespace, name) = (&args.gateway_namespace, &args.gateway_name);
    let what = "read the gateway's Service";
    let service = cluster.get::<Service>(what, namespace, name).await?;
    let service = service.ok_or_else(|| {
        fail(
            format!("gateway Service {name:?} not found in namespace {namespace:?}"),
            format!(
                "install it with {}, choose another with --gateway-name and --gateway-namespace, or link without one with \
                 --gateway=false",
                cluster.install()
            ),
        )
    })?;
    Ok(Some(service))
}

#[cfg(test)]
mod tests {
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    use serde_json::json;

    use super::*;
    use crate::rotate::tokens::TokenOwner;

    #[test]
    fn token_of_another_link_is_not_used() {
        let secret = |labels: serde_json::Value| {
            let annotations = serde_json::json!({labels::SERVICE_ACCOUNT_NAME: "west"});
            let metadata = serde_json::json!({"labels": labels, "annotations": annotations});
            serde_json::from_value(serde_json::json!({ "metadata": metadata })).unwrap()
        };
        let shared = secret(serde_json::json!({labels::EXTENSION: "multicluster"}));
        assert!(is_of(&shared, "west"));
        assert!(!is_of(&shared, "other"));
        let of_a_link = secret(serde_json::json!({labels::TOKEN_OF_LINK: "0123456789abcdef"}));
        assert!(!is_of(&of_a_link, "west"));
    }

    #[test]
    fn token_that_is_held_stays_while_it_is_valid_for_its_account() {
        let token = |claims: serde_json::Value| {
            let claims = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
            Secret::new(format!("e30.{claims}.sig"))
        };
        let subject = "system:serviceaccount:mc:west";
        let stored = |uid: &str| {
            let claim = "kubernetes.io/serviceaccount/service-account.uid";
            token(
                json!({ "sub": subject, claim: uid, "kubernetes.io/serviceaccount/secret.name": "west-token" }),
            )
        };
        let bound = |secret: Option<&str>, exp: i64| {
            let secret = secret.map(|uid| json!({ "name": "west-token-x", "uid": uid }));
            let bound = json!({ "serviceaccount": { "uid": "west" }, "secret": secret });
            token(json!({ "sub": subject, "exp": exp, "kubernetes.io": bound }))
        };
        let account = TokenAccount {
            uid: Some("west".into()),
            ..TokenAccount::named("mc", "west")
        };
        let known = |uid: &str, text| TokenSecret {
            name: "west-token".into(),
            uid: Some(uid.into()),
            text,
            created: None,
            owner: TokenOwner::Unknown,
        };
        let known = [known("s", Some(stored("west"))), known("b", None)];
        let now = Timestamp::from_second(100).unwrap();
        for (held, expected) in [
            (stored("west"), true),
            // Of an account that was deleted and created again, and of a Secret that was deleted.
            (stored("other"), false),
            (bound(Some("b"), 200), true),
            (bound(Some("b"), 100), false),
            (bound(Some("gone"), 200), false),
            // Requested with kubectl.
            (bound(None, 200), true),
            (bound(None, 100), false),
            (Secret::new("opaque"), false),
        ] {
            assert_eq!(is_valid(&held, &account, &known, now), expected);
        }
    }
}
