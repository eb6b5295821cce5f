//! The part of a target cluster in a rotation, if the source cluster cannot be used: a new token is created and handed
//! over as a file, and when the source cluster uses it, older tokens are revoked.

use std::{fs, path::Path, time::Duration};

use anyhow::Context as _;
use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Secret as KubernetesSecret, ServiceAccount};
use kube::ResourceExt as _;
use serde_json::json;

use super::{
    context::FleetRotation,
    outcome::{LinkRotation, failed},
};
use crate::{
    api::labels::KUBECONFIG_KEY,
    cli::{
        common::{
            files::{FileReaders, write_whole},
            output,
        },
        fleet::{
            facts::is_of,
            gather::{ReadTarget, read_target},
            loaded::LoadedLink,
        },
        rotate::{
            Credentials, Ending, RECENT, RotationDetails, RotationOutcome, TokenAccount,
            TokenOwner, TokenSecret, Tokens,
        },
        steps::labelled,
    },
    fleet::LinkEnds,
    hint::fail,
    manifests::{kubeconfig::Secret, link::ClusterName, render::Manifest, yaml},
    timing,
};

/// The file in which a token is handed over.
pub(super) fn path_of(folder: &Path, ends: &LinkEnds) -> std::path::PathBuf {
    folder
        .join(ends.source.to_string())
        .join(format!("{}.yaml", ends.target))
}

/// The token that was handed over for a link, if there is a file for it.
pub(super) fn handed(folder: &Path, ends: &LinkEnds) -> anyhow::Result<Option<Secret>> {
    let path = path_of(folder, ends);
    let shown = path.display();
    let text = match fs::read_to_string(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {shown}"))?,
    };
    let invalid = || {
        fail(
            format!("no credentials for {} in {shown}", ends.target),
            "take the file as `fleet rotate --hand-over` wrote it",
        )
    };
    let documents = yaml::documents(&text).map_err(|_| invalid())?;
    let name = ends.target.credentials_secret();
    let secrets = documents.into_iter();
    let secrets = secrets.filter_map(|it| serde_json::from_value::<KubernetesSecret>(it).ok());
    let mut secrets = secrets.filter(|secret| secret.name_any() == name);
    let kubeconfig = secrets.find_map(|secret| secret.data?.remove(KUBECONFIG_KEY));
    let kubeconfig = kubeconfig.ok_or_else(invalid)?;
    let credentials = Credentials::read(&kubeconfig.0).map_err(|_| invalid())?;
    Ok(Some(credentials.token().clone()))
}

impl FleetRotation<'_> {
    /// Does the part of one target cluster for these source clusters.
    pub(super) async fn of_target(
        &self,
        target: &ClusterName,
        sources: &[&ClusterName],
    ) -> Vec<LinkRotation> {
        let links = self.loaded.links.iter();
        let links = links
            .filter(|link| link.ends.target == *target && sources.contains(&&link.ends.source));
        let links: Vec<&LoadedLink> = links.collect();
        let [first, ..] = links.as_slice() else {
            return Vec::new();
        };
        let read = Box::pin(read_target(self.global, self.loaded, first)).await;
        let read = read.with_context(|| format!("cannot rotate the credentials of {target}"));
        let read = read.inspect_err(output::error);
        let parts = links.iter().map(async |link| {
            let source = &link.ends.source;
            let outcome = match &read {
                Ok(read) => {
                    let part = TargetPart::of(self, link, read);
                    Box::pin(part.run()).await.unwrap_or_else(|error| {
                        output::warning(&format!("{source} → {target}: {error:#}"));
                        failed(target, &error)
                    })
                }
                Err(error) => failed(target, error),
            };
            LinkRotation {
                source: source.to_string(),
                outcome,
            }
        });
        join_all(parts).await
    }
}

/// One link whose source cluster cannot be used.
struct TargetPart<'a> {
    fleet: &'a FleetRotation<'a>,
    link: &'a LoadedLink,
    target: &'a ReadTarget,
    account: TokenAccount,
}

impl<'a> TargetPart<'a> {
    fn of(fleet: &'a FleetRotation<'a>, link: &'a LoadedLink, target: &'a ReadTarget) -> Self {
        Self {
            fleet,
            link,
            target,
            account: TokenAccount::named(&fleet.loaded.namespace, &link.ends.source.to_string()),
        }
    }

    async fn run(&self) -> anyhow::Result<RotationOutcome> {
        let args = self.fleet.args;
        let mut in_use = args.in_use.iter();
        let in_use = in_use.find(|in_use| in_use.source == self.link.ends.source);
        if in_use.is_none() && args.hand_over.is_none() {
            let reason = "its source cluster is not one of --only; pass --hand-over to make a new token for it";
            self.say(&format!("skipped: {reason}"));
            return Ok(self.outcome(Ending::Skipped, Some(reason.to_owned())));
        }
        let _permit = self.fleet.limit.acquire().await;
        let (namespace, name) = (&self.account.namespace, &self.account.name);
        let cluster = &self.target.cluster;
        let what = "read the ServiceAccount";
        let account = cluster.get::<ServiceAccount>(what, namespace, name).await?;
        let account = account.ok_or_else(|| {
            fail(
                format!("there is no ServiceAccount {namespace}/{name}"),
                "`fleet apply` makes it",
            )
        })?;
        let fleet = &self.fleet.loaded.fleet.name;
        let tokens = Tokens::of(cluster, &self.account, None, Some(fleet.clone()));
        let known = tokens.list().await?;
        match (in_use, &args.hand_over) {
            (Some(in_use), _) => {
                let outdated = outdated(&known, &in_use.secret, is_of(&account, fleet))?;
                self.revoke(&tokens, outdated).await
            }
            (None, Some(folder)) => self.issue(&tokens, &known, folder).await,
            (None, None) => Ok(self.outcome(Ending::Skipped, None)),
        }
    }

    /// Creates a token, or takes that of an earlier run, and writes it to a file.
    async fn issue(
        &self,
        tokens: &Tokens<'_>,
        known: &[TokenSecret],
        folder: &Path,
    ) -> anyhow::Result<RotationOutcome> {
        let (flags, now) = (&self.fleet.flags, timing::now());
        let pending = pending(known, &self.account.name, now);
        if pending.is_none()
            && flags
                .older_than
                .is_some_and(|limit| is_young(known, limit, now))
        {
            return Ok(self.outcome(Ending::Skipped, Some("its token is young".to_owned())));
        }
        let path = path_of(folder, &self.link.ends);
        if flags.dry_run {
            let account = format!("{}/{}", self.account.namespace, self.account.name);
            let token = match pending {
                Some(token) => format!("hand over the token Secret {}", token.name),
                None => format!("create a token Secret for {account}"),
            };
            let reason = format!("would {token}, and write {}", path.display());
            self.say(&reason);
            let mut outcome = self.outcome(Ending::Planned, Some(reason));
            outcome.done.creates = pending.is_none();
            return Ok(outcome);
        }
        let token = match pending {
            Some(token) => token.clone(),
            None => tokens.create().await?,
        };
        self.write(&path, &token.text).await?;
        self.say(&format!(
            "wrote {} with the token of the Secret {}",
            path.display(),
            self.in_target(&token.name)
        ));
        let mut outcome = self.outcome(Ending::HandedOver, None);
        outcome.done.token_secret = Some(self.in_target(&token.name));
        outcome.done.kept = known
            .iter()
            .filter(|old| old.name != token.name)
            .map(|old| self.in_target(&old.name))
            .collect();
        Ok(outcome)
    }

    /// Writes the Secrets of the link with this token, for the source cluster.
    async fn write(&self, path: &Path, token: &Secret) -> anyhow::Result<()> {
        let (loaded, side) = (self.fleet.loaded, &self.target.side);
        let mut remarks = Vec::new();
        let made = self.link.objects(loaded, side, Some(token), &mut remarks)?;
        self.link.check_way(side, token).await?;
        let secrets = made.secrets();
        let secrets = secrets.map(|secret| labelled(json!(secret), &loaded.fleet.name));
        let manifest = Manifest::from_objects(secrets.collect::<Vec<_>>())?;
        let folder = path.parent().unwrap_or_else(|| Path::new(""));
        fs::create_dir_all(folder)
            .and_then(|()| write_whole(path, manifest.to_yaml().as_bytes(), FileReaders::Owner))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Deletes the tokens before the one in use.
    async fn revoke(
        &self,
        tokens: &Tokens<'_>,
        outdated: OutdatedTokens,
    ) -> anyhow::Result<RotationOutcome> {
        let OutdatedTokens { revoked, kept } = outdated;
        let in_target = |name: &String| self.in_target(name);
        if self.fleet.flags.dry_run {
            let reason = match revoked.as_slice() {
                [] => "there is no older token".to_owned(),
                names => format!("would delete the token Secret {}", names.join(", ")),
            };
            self.say(&reason);
            return Ok(self.outcome(Ending::Planned, Some(reason)));
        }
        for name in &revoked {
            tokens.revoke(name).await?;
            self.say(&format!("deleted the token Secret {}", in_target(name)));
        }
        for name in &kept {
            self.say(&format!(
                "kept the token Secret {}, which others may use, or which is newer",
                in_target(name)
            ));
        }
        let mut outcome = self.outcome(Ending::Revoked, None);
        outcome.done.revoked = revoked.iter().map(in_target).collect();
        outcome.done.kept = kept.iter().map(in_target).collect();
        Ok(outcome)
    }

    fn outcome(&self, result: Ending, reason: Option<String>) -> RotationOutcome {
        RotationOutcome {
            cluster: self.link.ends.target.to_string(),
            result,
            reason,
            done: RotationDetails::default(),
        }
    }

    fn in_target(&self, name: &str) -> String {
        format!("{}/{name}", self.account.namespace)
    }

    fn say(&self, what: &str) {
        let LinkEnds { source, target } = &self.link.ends;
        output::note(&format!("{source} → {target}: {what}"));
    }
}

/// The token that an earlier run has created and that is not the only one, so that older ones are still to be revoked.
/// The tokens are sorted, newest last.
fn pending<'t>(known: &'t [TokenSecret], account: &str, now: Timestamp) -> Option<&'t TokenSecret> {
    let [_, .., newest] = known else {
        return None;
    };
    let is_first = newest.name == format!("{account}-token");
    let is_recent = newest.created.is_some_and(|at| at >= now - RECENT);
    (newest.owner == TokenOwner::This && !is_first && is_recent).then_some(newest)
}

/// Whether the newest token is younger than this.
fn is_young(known: &[TokenSecret], limit: Duration, now: Timestamp) -> bool {
    let limit = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    let created = known.last().and_then(|newest| newest.created);
    created.is_some_and(|created| now.duration_since(created) < limit)
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
            "pass the name that `fleet rotate` printed for the source cluster",
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
    use super::*;

    fn now() -> Timestamp {
        "2026-11-26T12:00:00Z".parse().unwrap()
    }

    /// A token with this name, created so many minutes ago.
    fn token(name: &str, owner: TokenOwner, minutes: i64) -> TokenSecret {
        TokenSecret {
            name: name.into(),
            text: Secret::new(name),
            created: Some(now() - SignedDuration::from_mins(minutes)),
            owner,
        }
    }

    #[test]
    fn an_interrupted_hand_over_is_continued() {
        use TokenOwner::{Another, This, Unknown};
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
            let known: Vec<_> = known.into_iter().map(|(n, o, m)| token(n, o, m)).collect();
            let found = pending(&known, "west", now()).map(|token| token.name.as_str());
            assert_eq!(found, expected, "{known:?}");
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
        for (is_own, revoked, kept) in [
            (true, &["old", "west-token", "other"][..], &["next"][..]),
            (false, &["west-token"], &["old", "other", "next"]),
        ] {
            let found = outdated(&known, "used", is_own).unwrap();
            assert_eq!(
                (&found.revoked[..], &found.kept[..]),
                (
                    &revoked.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()[..],
                    &kept.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()[..]
                )
            );
        }
        assert!(outdated(&known, "missing", true).is_err());
        assert!(is_young(&known, Duration::from_secs(301), now()));
        assert!(!is_young(&known, Duration::from_secs(300), now()));
    }

    #[test]
    fn a_file_that_is_not_one_is_refused_and_not_quoted() {
        let folder = tempfile::tempdir().unwrap();
        let ends = LinkEnds {
            source: "west".parse().unwrap(),
            target: "east".parse().unwrap(),
        };
        assert!(handed(folder.path(), &ends).unwrap().is_none());
        fs::create_dir(folder.path().join("west")).unwrap();
        for text in [
            "{",
            "s3cret",
            "kind: Secret\nmetadata: {name: cluster-credentials-east}\nstringData: {kubeconfig: s3cret}",
        ] {
            fs::write(path_of(folder.path(), &ends), text).unwrap();
            let Err(error) = handed(folder.path(), &ends) else {
                panic!("{text}");
            };
            assert!(
                format!("{error:#}").starts_with("no credentials for east in "),
                "{error:#}"
            );
            assert!(!format!("{error:#}").contains("s3cret"));
        }
    }
}
