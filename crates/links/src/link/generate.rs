//! Reads from the target cluster what a link needs, and makes the link's objects.

use std::time::Duration;

use anyhow::Context as _;
use client::{Access, Cluster};
use hints::hint::fail;
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::{Secret as KubernetesSecret, Service, ServiceAccount},
};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams},
};
use manifests::{
    kubeconfig::{KubeconfigContext, Secret},
    link::{ClusterName, LinkObjects},
};
use mirror_core::api::{duration::format_go_duration, labels};

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
    rotate::tokens::{filled, token_in},
};

/// Reads the target cluster behind `access`, and builds the objects that link another cluster to it. What is there
/// already stays, unless one of the given flags names it. A dry run requests no token, and the objects have a stand-in.
/// Also returns what the user has to know.
pub async fn generate(
    access: &Access,
    cluster: &Cluster,
    linkerd_namespace: &str,
    cluster_name: &ClusterName,
    args: &LinkArgs,
    (given, existing): (&Given, Existing<'_>),
    is_dry_run: bool,
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
    let held = existing.credentials.and_then(|old| old.token.as_ref());
    let token = token(cluster, args, held, is_dry_run).await?;
    let gateway = gateway(cluster, args).await?;
    way.check(
        &context,
        &args.service_account_name,
        &token,
        cluster.console,
    )
    .await?;
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
    let objects = wanted.objects(&facts, &way, &token, &mut remarks)?;
    Ok((objects, remarks))
}

/// The target cluster, as the user's kubeconfig has it.
pub fn entry(access: &Access) -> anyhow::Result<KubeconfigContext> {
    let kubeconfig = access.kubeconfig()?;
    let name = access.context_name(&kubeconfig)?;
    KubeconfigContext::take(&kubeconfig, &name, |path| std::fs::read(path))
}

/// A token of the account. That which is `held` already is used again as long as it is valid.
async fn token(
    cluster: &Cluster,
    args: &LinkArgs,
    held: Option<&Secret>,
    is_dry_run: bool,
) -> anyhow::Result<Secret> {
    let namespace = args.service_account_namespace.as_ref();
    let (namespace, name) = (
        namespace.unwrap_or(&args.namespace),
        &args.service_account_name,
    );
    let accounts = cluster.api::<ServiceAccount>(namespace);
    let account = cluster
        .request("read the ServiceAccount", accounts.get_opt(name))
        .await?;
    if account.is_none() {
        return Err(fail(
            format!("ServiceAccount {name:?} not found in namespace {namespace:?}"),
            format!(
                "create one with {}, or choose another with --service-account-name and --service-account-namespace",
                cluster.allow(namespace, name)
            ),
        ));
    }
    match args.token_duration {
        Some(duration) if is_dry_run => {
            let expires = cluster.now().await.checked_add(duration)?;
            Ok(TokenAccount::named(namespace, name).stand_in(expires))
        }
        Some(duration) => mint(cluster, &accounts, name, duration).await,
        None => stored_token(cluster, namespace, name, held).await,
    }
}

/// The token of an account's Secret. Waits for it, because Kubernetes adds it shortly after `allow` or `install`.
async fn stored_token(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    held: Option<&Secret>,
) -> anyhow::Result<Secret> {
    let secrets = cluster.api::<KubernetesSecret>(namespace);
    let tokens =
        ListParams::default().fields(&format!("type={}", labels::SERVICE_ACCOUNT_TOKEN_TYPE));
    let all = cluster
        .request("list the token Secrets", secrets.list(&tokens))
        .await?
        .items;
    let secret = with_token(&all, name, held).ok_or_else(|| {
        fail(
            format!("no token Secret of ServiceAccount {name:?} found in namespace {namespace:?}"),
            format!(
                "create one with {}, or request a token with --token-duration",
                cluster.allow(namespace, name)
            ),
        )
    })?;
    // To wait takes the right to read single Secrets, which `list` does not give.
    if let Some(token) = token_in(secret) {
        return Ok(token);
    }
    let secret = secret.name_any();
    let work = filled(cluster, namespace, &secret);
    let secret = cluster
        .console
        .while_working("waiting for the token", work)
        .await?;
    token_in(&secret).context("the token is not valid UTF-8")
}

/// The Secret whose token is used: the one with the token that is `held` already, if it belongs to the ServiceAccount
/// `name`. A token of another account must not stay: whoever revokes that account would cut the link off.
fn with_token<'s>(
    all: &'s [KubernetesSecret],
    name: &str,
    held: Option<&Secret>,
) -> Option<&'s KubernetesSecret> {
    let is_held = |secret: &&KubernetesSecret| {
        is_for_account(secret, name) && held.is_some_and(|held| has(secret, held))
    };
    let shared = || all.iter().find(|secret| is_of(secret, name));
    all.iter().find(is_held).or_else(shared)
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

async fn mint(
    cluster: &Cluster,
    accounts: &Api<ServiceAccount>,
    name: &str,
    duration: Duration,
) -> anyhow::Result<Secret> {
    let asked = i64::try_from(duration.as_secs()).context("--token-duration is too long")?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(asked),
            ..Default::default()
        },
        ..Default::default()
    };
    let answer = cluster
        .request(
            "request a token for the ServiceAccount",
            accounts.create_token_request(name, &PostParams::default(), &request),
        )
        .await?;
    let granted = answer.spec.expiration_seconds.unwrap_or(asked);
    if granted < asked {
        let granted = Duration::from_secs(granted.unsigned_abs());
        cluster.console.warning(&format!(
            "the cluster limits the token to {}; rotate it before it expires",
            format_go_duration(granted)
        ));
    }
    let status = answer.status.context("the API server returned no token")?;
    Ok(Secret::new(status.token))
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
    use super::*;

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
    fn token_that_is_held_stays_only_with_its_own_account() {
        let secret = |account: &str, token: &str, labels: serde_json::Value| -> KubernetesSecret {
            let annotations = serde_json::json!({labels::SERVICE_ACCOUNT_NAME: account});
            let metadata = serde_json::json!({ "labels": labels, "annotations": annotations });
            let mut secret: KubernetesSecret =
                serde_json::from_value(serde_json::json!({ "metadata": metadata })).unwrap();
            let token = k8s_openapi::ByteString(token.as_bytes().to_vec());
            secret.data = Some([("token".to_owned(), token)].into());
            secret
        };
        let none = serde_json::json!({});
        let all = [
            secret("default", "first", none.clone()),
            secret("default", "second", none.clone()),
            secret("west", "third", none),
            secret(
                "west",
                "rotated",
                serde_json::json!({labels::TOKEN_OF_LINK: "0123456789abcdef"}),
            ),
        ];
        for (account, held, expected) in [
            ("default", None, Some("first")),
            ("default", Some("second"), Some("second")),
            ("default", Some("gone"), Some("first")),
            ("west", Some("second"), Some("third")),
            ("west", Some("rotated"), Some("rotated")),
            ("north", Some("second"), None),
        ] {
            let held = held.map(Secret::new);
            let used = with_token(&all, account, held.as_ref());
            let expected = expected.map(Secret::new);
            let is_expected = |secret| expected.as_ref().is_some_and(|token| has(secret, token));
            assert_eq!(used.is_some(), expected.is_some(), "{account}");
            assert!(used.is_none_or(is_expected), "{account}");
        }
    }
}
