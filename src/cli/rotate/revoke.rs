//! The part of a target cluster in a rotation, if the source cluster cannot be used: when that uses a new token, older ones
//! are revoked.

use anyhow::Context as _;
use client::Cluster;
use futures::future::join_all;
use hints::hint::fail;
use k8s_openapi::api::core::v1::ServiceAccount;
use links::{
    fleet::{facts::is_of as is_of_fleet, loaded::LoadedFleet},
    fleet_file::LinkEnds,
    link_credentials::TokenAccount,
    rotate::{
        outcome::{Ending, RotationOutcome},
        tokens::{TokenOwner, TokenSecret, Tokens},
    },
};
use manifests::link::ClusterName;

use super::RotationRun;
use crate::cli::common::output;

impl RotationRun<'_> {
    /// Does the part of one target cluster for these source clusters.
    pub async fn of_target(
        &self,
        loaded: &LoadedFleet,
        target: &ClusterName,
        sources: &[&ClusterName],
    ) -> Vec<RotationOutcome> {
        let connected = loaded.connect(&self.global.access(), target).await;
        let connected =
            connected.with_context(|| format!("cannot rotate the credentials of {target}"));
        let connected = connected.inspect_err(output::error);
        let parts = sources.iter().map(async |source| {
            let ends = LinkEnds {
                source: (*source).clone(),
                target: target.clone(),
            };
            match &connected {
                Ok((_, cluster)) => {
                    let done = Box::pin(self.revoke(loaded, &ends, cluster)).await;
                    done.unwrap_or_else(|error| {
                        output::warning(&format!("{source} → {target}: {error:#}"));
                        RotationOutcome::failed(&ends, &error)
                    })
                }
                Err(error) => RotationOutcome::failed(&ends, error),
            }
        });
        join_all(parts).await
    }

    /// Deletes the tokens before the one that the source cluster of a link uses.
    async fn revoke(
        &self,
        loaded: &LoadedFleet,
        ends: &LinkEnds,
        cluster: &Cluster,
    ) -> anyhow::Result<RotationOutcome> {
        let LinkEnds { source, target } = ends;
        let say = |what: &str| output::note(&format!("{source} → {target}: {what}"));
        let outcome = |result, reason: Option<String>| RotationOutcome::of(ends, result, reason);
        let mut in_use = self.args.in_use.iter();
        let Some(in_use) = in_use.find(|in_use| in_use.source == *source) else {
            let reason = "its source cluster is not one of --only; `fleet credentials --new-tokens` makes a new token for it";
            say(&format!("skipped: {reason}"));
            return Ok(outcome(Ending::Skipped, Some(reason.to_owned())));
        };
        let _permit = self.limit.acquire().await;
        let account = TokenAccount::named(&loaded.accounts, &source.to_string());
        let (namespace, name) = (&account.namespace, &account.name);
        let what = "read the ServiceAccount";
        let found = cluster.get::<ServiceAccount>(what, namespace, name).await?;
        let found = found.ok_or_else(|| {
            fail(
                format!("there is no ServiceAccount {namespace}/{name}"),
                "`fleet apply` makes it",
            )
        })?;
        let fleet = &loaded.fleet.name;
        let tokens = Tokens::of(cluster, &account, None, Some(fleet.clone()));
        let known = tokens.list().await?;
        let OutdatedTokens { revoked, kept } =
            outdated(&known, &in_use.secret, is_of_fleet(&found, fleet))?;
        if self.flags.dry_run {
            let reason = match revoked.as_slice() {
                [] => "there is no older token".to_owned(),
                names => format!("would delete the token Secret {}", names.join(", ")),
            };
            say(&reason);
            return Ok(outcome(Ending::Planned, Some(reason)));
        }
        let in_target = |name: &String| format!("{namespace}/{name}");
        for name in &revoked {
            tokens.revoke(name, &known).await?;
            say(&format!("deleted the token Secret {}", in_target(name)));
        }
        for name in &kept {
            say(&format!(
                "kept the token Secret {}, which others may use, or which is newer",
                in_target(name)
            ));
        }
        let mut outcome = outcome(Ending::Revoked, None);
        outcome.done.revoked = revoked.iter().map(in_target).collect();
        outcome.done.kept = kept.iter().map(in_target).collect();
        Ok(outcome)
    }
}

/// The tokens that are not in use any more.
#[derive(Debug, PartialEq, Eq)]
struct OutdatedTokens {
    revoked: Vec<String>,
    /// Those that others may use, and those that are newer.
    kept: Vec<String>,
}

/// The tokens of an account, if the source cluster uses the one with this name. `is_own` if the account is the fleet's, so
/// that nobody else uses it.
fn outdated(known: &[TokenSecret], in_use: &str, is_own: bool) -> anyhow::Result<OutdatedTokens> {
    let Some(at) = known.iter().position(|token| token.name == in_use) else {
        return Err(fail(
            format!("the account has no token Secret {in_use}, so nothing was revoked"),
            "pass the name that `rotate` printed for the source cluster",
        ));
    };
    let is_older = |of: &TokenSecret| of.created < known[at].created;
    let others = known.iter().filter(|token| token.name != in_use);
    let (revoked, kept): (Vec<_>, Vec<_>) =
        others.partition(|token| is_older(token) && (is_own || token.owner == TokenOwner::This));
    let names = |tokens: Vec<&TokenSecret>| tokens.iter().map(|it| it.name.clone()).collect();
    Ok(OutdatedTokens {
        revoked: names(revoked),
        kept: names(kept),
    })
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};
    use manifests::kubeconfig::Secret;

    use super::*;

    /// A token with this name, created so many minutes ago.
    fn token(name: &str, owner: TokenOwner, minutes: i64) -> TokenSecret {
        let now: Timestamp = "2026-11-26T12:00:00Z".parse().unwrap();
        TokenSecret {
            name: name.into(),
            uid: None,
            text: Some(Secret::new(name)),
            created: Some(now - SignedDuration::from_mins(minutes)),
            owner,
        }
    }

    #[test]
    fn only_older_tokens_of_the_account_are_revoked() {
        use TokenOwner::{Another, This, Unknown};
        let known = [
            token("old", Unknown, 100),
            token("west-token", This, 90),
            token("other", Another, 80),
            token("used", This, 60),
            token("next", This, 5),
        ];
        let names = |names: &[&str]| names.iter().map(|&n| n.to_owned()).collect::<Vec<_>>();
        for (is_own, revoked, kept) in [
            (true, &["old", "west-token", "other"][..], &["next"][..]),
            (false, &["west-token"], &["old", "other", "next"]),
        ] {
            let expected = OutdatedTokens {
                revoked: names(revoked),
                kept: names(kept),
            };
            assert_eq!(outdated(&known, "used", is_own).unwrap(), expected);
        }
        assert!(outdated(&known, "missing", true).is_err());
    }
}
