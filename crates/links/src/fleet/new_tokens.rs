//! A new token for a source cluster, to hand it over.

use anyhow::Context as _;
use client::{Cluster, timing};
use jiff::Timestamp;
use manifests::{kubeconfig::Secret, link::ClusterName};

use crate::{
    fleet::loaded::LoadedFleet,
    link_credentials::TokenAccount,
    rotate::tokens::{TokenOwner, TokenSecret, Tokens},
};

/// Creates a token for a source cluster in a target cluster, or takes that of an earlier run. Old tokens stay valid.
pub async fn new_token(
    loaded: &LoadedFleet,
    target: &Cluster,
    source: &ClusterName,
) -> anyhow::Result<Secret> {
    let account = TokenAccount::named(&loaded.accounts, &source.to_string());
    let tokens = Tokens::of(target, &account, None, Some(loaded.fleet.name.clone()));
    let known = tokens.list().await?;
    let made = match pending(&known, &account.name, timing::now()) {
        Some(token) => tokens.with_text(token).await?,
        None => tokens.create().await?,
    };
    made.text.context("the Secret has no token")
}

/// The token that an earlier run has created and that is not the only one, so that older ones are still to be revoked.
/// The tokens are sorted, newest last.
fn pending<'t>(known: &'t [TokenSecret], account: &str, now: Timestamp) -> Option<&'t TokenSecret> {
    let [_, .., newest] = known else {
        return None;
    };
    let is_first = newest.name == format!("{account}-token");
    (newest.owner == TokenOwner::This && !is_first && newest.is_recent(now)).then_some(newest)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn an_interrupted_hand_over_is_continued() {
        use TokenOwner::{Another, This, Unknown};
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        let token = |(name, owner, minutes): (&str, TokenOwner, i64)| TokenSecret {
            name: name.into(),
            uid: None,
            text: Some(Secret::new(name)),
            created: Some(now - SignedDuration::from_mins(minutes)),
            owner,
        };
        for (known, expected) in [
            (vec![], None),
            // The account has just been made.
            (vec![("west-token", This, 5)], None),
            (
                vec![("west-token-a", This, 90), ("west-token", This, 5)],
                None,
            ),
            (
                vec![("west-token", This, 90), ("west-token-a", This, 5)],
                Some("west-token-a"),
            ),
            // It was finished.
            (vec![("west-token-a", This, 5)], None),
            (
                vec![("west-token", This, 90), ("west-token-a", This, 61)],
                None,
            ),
            (vec![("west-token", This, 90), ("x", Unknown, 5)], None),
            (vec![("west-token", This, 90), ("x", Another, 5)], None),
        ] {
            let known: Vec<_> = known.into_iter().map(token).collect();
            let found = pending(&known, "west", now).map(|token| token.name.as_str());
            assert_eq!(found, expected, "{known:?}");
        }
    }
}
