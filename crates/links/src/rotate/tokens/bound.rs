//! Tokens that expire. Each is bound to an empty Secret, whose deletion revokes it.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{ResourceExt as _, api::PostParams};
use manifests::kubeconfig::Secret;
use mirror_core::api::{duration::format_go_duration, labels};

use super::token_secret::{Lifetime, TokenSecret, Tokens, USUAL};

/// Some API servers limit tokens to a day. If nobody asked for tokens that expire, shorter ones than this would end before
/// anybody rotates them.
const SHORTEST: Duration = Duration::from_secs(7 * 86_400);

impl Tokens<'_> {
    /// Creates an empty Secret, under this name or one that no other has, and a token that is bound to it and valid for
    /// the time that is `asked` for. If nobody asked for tokens that expire, and the API server grants less than
    /// [`SHORTEST`], one that does not expire.
    pub(super) async fn create_bound(
        &self,
        asked: Duration,
        name: Option<String>,
    ) -> anyhow::Result<TokenSecret> {
        let accounts = self.target.api::<ServiceAccount>(&self.account.namespace);
        let account = self.target.request(
            "read the ServiceAccount",
            accounts.get_metadata(&self.account.name),
        );
        let account = account.await?;
        let made = self
            .make(labels::BOUND_TOKEN_TYPE, account.uid(), name)
            .await?;
        let made = self.token(&made).context("the new Secret has no name")?;
        match self.request(&made, asked).await {
            Ok((text, granted)) if granted >= asked.min(SHORTEST) || self.is_given() => {
                if granted < asked {
                    self.target.console.warning(&format!(
                        "the cluster limits the token to {}; rotate it before it expires",
                        format_go_duration(granted)
                    ));
                }
                Ok(TokenSecret {
                    text: Some(text),
                    ..made
                })
            }
            Ok((_, granted)) => {
                self.revoke(&made.name, std::slice::from_ref(&made)).await?;
                self.target.console.warning(&format!(
                    "the cluster limits tokens to {}, so this one does not expire; if you rotate more often, pass \
                     --token-duration to `link`",
                    format_go_duration(granted)
                ));
                self.create_stored().await
            }
            Err(error) => {
                // Without it, the Secret is of no use.
                let revoked = self.revoke(&made.name, std::slice::from_ref(&made)).await;
                Err(match revoked {
                    Ok(()) => error,
                    Err(_) => error.context(format!("the empty Secret {} is left over", made.name)),
                })
            }
        }
    }

    /// A token Secret with its token. Another token is requested if it is bound to the Secret.
    pub async fn with_text(&self, known: &TokenSecret) -> anyhow::Result<TokenSecret> {
        let mut known = known.clone();
        if known.text.is_none() {
            let asked = self.lifetime.asked().unwrap_or(USUAL);
            known.text = Some(self.request(&known, asked).await?.0);
        }
        Ok(known)
    }

    /// Whether somebody has said how long tokens are valid.
    fn is_given(&self) -> bool {
        self.lifetime != Lifetime::Usual
    }

    /// Requests a token that is bound to this Secret. Also returns how long it is valid.
    async fn request(
        &self,
        bound_to: &TokenSecret,
        asked: Duration,
    ) -> anyhow::Result<(Secret, Duration)> {
        let seconds = i64::try_from(asked.as_secs()).context("the token is to last too long")?;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(seconds),
                bound_object_ref: Some(BoundObjectReference {
                    api_version: Some("v1".to_owned()),
                    kind: Some("Secret".to_owned()),
                    name: Some(bound_to.name.clone()),
                    uid: bound_to.uid.clone(),
                }),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let accounts = self.target.api::<ServiceAccount>(&self.account.namespace);
        let params = PostParams::default();
        let requested = accounts.create_token_request(&self.account.name, &params, &request);
        let what = "request a token for the ServiceAccount";
        let answer = self.target.request(what, requested).await?;
        let granted = answer.spec.expiration_seconds.unwrap_or(seconds);
        let status = answer.status.context("the API server returned no token")?;
        let granted = Duration::from_secs(granted.unsigned_abs());
        Ok((Secret::new(status.token), granted))
    }
}
