//! What to do for one link, from the tokens in the target cluster and in the Secrets. Pure.

use std::time::Duration;

use hints::prose::counted;
use jiff::Timestamp;
use manifests::kubeconfig::Secret;

use crate::{
    link_credentials::TokenAccount,
    rotate::{
        flags::RotationFlags,
        tokens::{TokenOwner, TokenSecret},
    },
};

/// The Deployment of Linkerd's destination controller.
pub const DESTINATION: &str = "linkerd-destination";

/// The credentials of a link.
pub struct Facts<'a> {
    /// The tokens of the account, newest last.
    pub tokens: &'a [TokenSecret],
    /// The tokens in the Secrets of the link: first the controller's, then those of Linkerd.
    pub held: Vec<&'a Secret>,
    /// The account of the controller's token.
    pub account: &'a TokenAccount,
    /// Whether Linkerd's destination controller started before its Secret was changed.
    pub restart_is_due: bool,
    /// The current time.
    pub now: Timestamp,
}

/// What to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Decision<'a> {
    /// Nothing, for this reason.
    Skip(String),
    /// Create a token, and put it into use.
    Create,
    /// Put the token of an interrupted run into use.
    Continue(&'a TokenSecret),
    /// All Secrets have this token. An earlier run did not restart Linkerd, or did not revoke all old tokens.
    Finish(&'a TokenSecret),
}

/// The token Secrets that are old once the new token is in use.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Old {
    /// Those to delete.
    pub revoked: Vec<String>,
    /// Those that other links may use.
    pub kept: Vec<String>,
}

/// A Secret of the source cluster, and the token that it has.
pub struct TokenHolder {
    /// Namespace and name of the Secret.
    pub path: String,
    pub token: Secret,
}

impl Old {
    /// Keeps the token Secrets whose token somebody uses, although they were to be deleted. Returns their names, each
    /// with the path of one Secret that has the token.
    pub fn keep_used(
        &mut self,
        tokens: &[TokenSecret],
        holders: &[TokenHolder],
    ) -> Vec<(String, String)> {
        let holder = |name: &String| {
            let token = tokens.iter().find(|token| token.name == *name)?;
            holders.iter().find(|holder| token.is(&holder.token))
        };
        let used = self.revoked.iter();
        let used = used.filter_map(|name| Some((name.clone(), holder(name)?.path.clone())));
        let used: Vec<(String, String)> = used.collect();
        self.revoked
            .retain(|name| !used.iter().any(|(used, _)| used == name));
        used
    }
}

/// A duration in the largest unit that it reaches, rounded down.
fn lasting(seconds: u64) -> String {
    let units = [("day", 86_400), ("hour", 3600), ("minute", 60)];
    let fits = units.into_iter().find(|(_, length)| seconds >= *length);
    let (unit, length) = fits.unwrap_or(("second", 1));
    counted(
        usize::try_from(seconds / length).unwrap_or(usize::MAX),
        unit,
    )
}

impl<'a> Facts<'a> {
    /// Decides what to do. `older_than` skips credentials that are younger and do not expire within that time, and
    /// `revoke_shared` also revokes tokens that other links may use.
    pub fn decide(&self, flags: &RotationFlags) -> Decision<'a> {
        let older_than = flags.older_than;
        let young = older_than.and_then(|limit| self.young(limit));
        let all_equal = self.held.windows(2).all(|pair| pair[0] == pair[1]);
        let mut newest_first = self.tokens.iter().rev();
        if let Some(newest) = newest_first.find(|token| token.owner == TokenOwner::This) {
            let is_recent = newest.is_recent(self.now);
            if all_equal && self.held.iter().all(|held| newest.is(held)) {
                // Who rotates may do so because the token has leaked, so one that is older is replaced, whatever else is
                // unfinished. Without a restart, the run before was perhaps days ago.
                let may_finish = match older_than {
                    Some(_) => young.is_some(),
                    None => is_recent || flags.no_restart,
                };
                let old = || self.old(Some(&newest.name), flags.revoke_shared);
                if may_finish && (self.restart_is_due || !old().revoked.is_empty()) {
                    return Decision::Finish(newest);
                }
            } else if is_recent {
                return Decision::Continue(newest);
            }
        }
        match young.filter(|_| all_equal) {
            Some(age) => Decision::Skip(format!(
                "skipped: {} old (limit {})",
                lasting(age.unsigned_abs()),
                lasting(older_than.unwrap_or_default().as_secs())
            )),
            None => Decision::Create,
        }
    }

    /// What to do with a token that was handed over, which is the only one that is known.
    pub fn taken(&self) -> Decision<'a> {
        match self.tokens {
            [token, ..]
                if self
                    .held
                    .iter()
                    .all(|held| Some(*held) == token.text.as_ref()) =>
            {
                Decision::Finish(token)
            }
            [token, ..] => Decision::Continue(token),
            [] => Decision::Skip("no token was handed over".to_owned()),
        }
    }

    /// The age of the controller's token in seconds; `None` if it is at least `limit`, or unknown, or if the token
    /// expires within `limit`.
    fn young(&self, limit: Duration) -> Option<i64> {
        let limit = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let token = self.held.first()?;
        let held = self.tokens.iter().find(|known| known.is(token));
        let since = self.account.issued.or_else(|| held?.created)?;
        let age = self.now.as_second() - since.as_second();
        let left = |expires: Timestamp| expires.as_second() - self.now.as_second();
        let ends_soon = self.account.expires.is_some_and(|at| left(at) <= limit);
        (age < limit && !ends_soon).then_some(age)
    }

    /// The token Secrets that are old once that with the name `new` is in use.
    pub fn old(&self, new: Option<&str>, shared: bool) -> Old {
        let mut old = Old::default();
        for token in self.tokens {
            let is_held = self.held.iter().any(|held| token.is(held));
            let list = match token.owner {
                _ if Some(token.name.as_str()) == new => continue,
                TokenOwner::This => &mut old.revoked,
                TokenOwner::Unknown if shared => &mut old.revoked,
                TokenOwner::Unknown if is_held => &mut old.kept,
                TokenOwner::Unknown | TokenOwner::Another => continue,
            };
            list.push(token.name.clone());
        }
        old
    }
}

/// What decides on the steps of a rotation.
pub struct Steps<'a> {
    pub account: &'a TokenAccount,
    /// Number of Secrets with credentials of the link.
    pub secrets: usize,
    /// Whether Linkerd has to be restarted.
    pub restarts: bool,
    /// Whether it may be.
    pub may_restart: bool,
}

impl Steps<'_> {
    /// The steps, for `--dry-run`.
    pub fn text(&self, decision: &Decision<'_>, old: &Old) -> String {
        let mut steps = Vec::new();
        match decision {
            Decision::Finish(_) | Decision::Skip(_) => {}
            Decision::Continue(token) => {
                steps.push(format!("continue with the token Secret {}", token.name));
            }
            Decision::Create => steps.push(format!(
                "create a token Secret for {}/{}",
                self.account.namespace, self.account.name
            )),
        }
        if !steps.is_empty() {
            steps.push(format!("write {} Secrets", self.secrets));
        }
        if self.restarts && self.may_restart {
            steps.push(format!("restart {DESTINATION}"));
        }
        if steps.is_empty() && old.revoked.is_empty() {
            steps.push("check that the token is in use".to_owned());
        }
        if !(old.revoked.is_empty() || self.restarts && !self.may_restart) {
            let names = old.revoked.join(", ");
            steps.push(format!("delete the token Secret {names}"));
        }
        let kept = if old.kept.is_empty() {
            String::new()
        } else {
            let names = old.kept.join(", ");
            format!("; would keep {names}, which other links may use")
        };
        format!("would {}{kept}", steps.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    const NOW: &str = "2026-11-21T12:00:00Z";

    fn now() -> Timestamp {
        NOW.parse().unwrap()
    }

    /// A token with its name as text, created so many minutes ago.
    fn token(name: &str, owner: TokenOwner, minutes: i64) -> TokenSecret {
        TokenSecret {
            name: name.into(),
            uid: None,
            text: Some(Secret::new(name)),
            created: Some(now() - SignedDuration::from_mins(minutes)),
            owner,
        }
    }

    /// The name of the decision, and of its token. `older_than` in minutes.
    fn decided(
        tokens: &[TokenSecret],
        held: &[&str],
        restart_is_due: bool,
        older_than: Option<u64>,
        flag: &str,
    ) -> String {
        let held: Vec<Secret> = held.iter().copied().map(Secret::new).collect();
        let account = TokenAccount::named("mc", "west");
        let facts = Facts {
            tokens,
            held: held.iter().collect(),
            account: &account,
            restart_is_due,
            now: now(),
        };
        let flags = RotationFlags {
            older_than: older_than.map(|minutes| Duration::from_secs(minutes * 60)),
            no_restart: flag == "--no-restart",
            revoke_shared: flag == "--revoke-shared",
            dry_run: false,
            wait: Duration::ZERO,
        };
        match facts.decide(&flags) {
            Decision::Skip(_) => "skip".into(),
            Decision::Create => "create".into(),
            Decision::Continue(token) => format!("continue {}", token.name),
            Decision::Finish(token) => format!("finish {}", token.name),
        }
    }

    #[test]
    fn ages_are_in_the_largest_unit() {
        for (seconds, expected) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (119, "1 minute"),
            (7200, "2 hours"),
            (86_400, "1 day"),
            (30 * 86_400, "30 days"),
        ] {
            assert_eq!(lasting(seconds), expected);
        }
    }

    #[test]
    fn a_new_token_is_created_unless_an_earlier_run_is_unfinished() {
        let shared = || token("shared", TokenOwner::Unknown, 9999);
        let (long_ago, lately) = (
            || token("a", TokenOwner::This, 5000),
            || token("b", TokenOwner::This, 5),
        );
        let another = || token("c", TokenOwner::Another, 1);
        let (both_old, both_new) = (["a", "a"], ["b", "b"]);
        for (tokens, held, due, older_than, expected) in [
            // The first rotation.
            (vec![shared()], ["shared", "shared"], false, None, "create"),
            (vec![], ["unknown", "unknown"], true, None, "create"),
            // Nothing is unfinished.
            (vec![shared(), long_ago()], both_old, false, None, "create"),
            (vec![long_ago(), another()], both_old, false, None, "create"),
            // Interrupted after the token was created, and between the two Secrets.
            (
                vec![long_ago(), lately()],
                both_old,
                false,
                None,
                "continue b",
            ),
            (
                vec![long_ago(), lately()],
                ["b", "a"],
                false,
                Some(60),
                "continue b",
            ),
            (
                vec![shared(), lately()],
                ["b", "shared"],
                true,
                Some(60),
                "continue b",
            ),
            // Both have it, but Linkerd was not restarted, or the old token was not revoked.
            (vec![lately()], both_new, true, None, "finish b"),
            (vec![lately()], both_new, true, Some(60), "finish b"),
            (
                vec![long_ago(), lately()],
                both_new,
                false,
                Some(60),
                "finish b",
            ),
            // An old token of this link is never put into use again.
            (
                vec![shared(), long_ago()],
                ["shared", "shared"],
                false,
                None,
                "create",
            ),
            (
                vec![shared(), long_ago()],
                ["a", "shared"],
                false,
                None,
                "create",
            ),
            // Young credentials are skipped, unless the Secrets differ. A restart alone is not enough for old ones.
            (vec![lately()], both_new, false, Some(60), "skip"),
            (
                vec![shared(), lately()],
                ["shared", "other"],
                false,
                Some(99_999),
                "continue b",
            ),
            (
                vec![shared()],
                ["shared", "other"],
                false,
                Some(99_999),
                "create",
            ),
            (vec![long_ago()], both_old, true, Some(60), "create"),
        ] {
            let names: Vec<&str> = tokens.iter().map(|token| token.name.as_str()).collect();
            assert_eq!(
                decided(&tokens, &held, due, older_than, ""),
                expected,
                "{names:?} {held:?} {due} {older_than:?}"
            );
        }
    }

    #[test]
    fn token_that_may_have_leaked_is_replaced_whatever_is_unfinished() {
        let tokens = [
            token("older", TokenOwner::This, 9000),
            token("own", TokenOwner::This, 5000),
        ];
        for restart_is_due in [false, true] {
            let decided =
                |flag: &str| decided(&tokens, &["own", "own"], restart_is_due, None, flag);
            assert_eq!(decided(""), "create");
            assert_eq!(decided("--revoke-shared"), "create");
            // The second run, after a restart by hand.
            assert_eq!(decided("--no-restart"), "finish own");
        }
    }

    #[test]
    fn shared_tokens_are_revoked_only_on_request_also_later() {
        let tokens = [
            token("shared", TokenOwner::Unknown, 50),
            token("another", TokenOwner::Another, 40),
            token("own", TokenOwner::This, 30),
        ];
        assert_eq!(decided(&tokens, &["own"], false, None, ""), "create");
        assert_eq!(
            decided(&tokens, &["own"], false, None, "--revoke-shared"),
            "finish own"
        );
        let aged = [
            token("shared", TokenOwner::Unknown, 100),
            token("own", TokenOwner::This, 90),
        ];
        assert_eq!(
            decided(&aged, &["own"], false, None, "--revoke-shared"),
            "create"
        );
        let limit = Some(120);
        assert_eq!(
            decided(&aged, &["own"], false, limit, "--revoke-shared"),
            "finish own"
        );
        let (own, shared) = (Secret::new("own"), Secret::new("shared"));
        let account = TokenAccount::named("", "");
        let facts = |held| Facts {
            tokens: &tokens,
            held,
            account: &account,
            restart_is_due: false,
            now: now(),
        };
        let old = |held, new, shared| {
            let old = facts(held).old(new, shared);
            (old.revoked.join(","), old.kept.join(","))
        };
        let expected = |revoked: &str, kept: &str| (revoked.to_owned(), kept.to_owned());
        assert_eq!(
            old(vec![&shared], Some("own"), false),
            expected("", "shared")
        );
        assert_eq!(old(vec![&own], Some("own"), false), expected("", ""));
        assert_eq!(old(vec![&own], Some("own"), true), expected("shared", ""));
        assert_eq!(
            old(vec![&own, &shared], Some("new"), false),
            expected("own", "shared")
        );
        assert_eq!(old(vec![&shared], None, true), expected("shared,own", ""));
    }

    #[test]
    fn a_token_that_a_secret_has_is_kept_whatever_the_flags_say() {
        let tokens = [
            token("shared", TokenOwner::Unknown, 50),
            token("first", TokenOwner::This, 40),
            token("second", TokenOwner::This, 30),
        ];
        let holder = |path: &str, token: &str| TokenHolder {
            path: path.into(),
            token: Secret::new(token),
        };
        let holders = [
            holder("mc/cluster-credentials-east", "new"),
            holder("linkerd/cluster-credentials-twin", "shared"),
            holder("mc/cluster-credentials-twin", "shared"),
            holder("mc/copy", "second"),
        ];
        let mut old = Old {
            revoked: ["shared", "first", "second"].map(str::to_owned).into(),
            kept: Vec::new(),
        };
        let used = old.keep_used(&tokens, &holders);
        let used: Vec<_> = used.iter().map(|(name, by)| (&**name, &**by)).collect();
        assert_eq!(
            used,
            [
                ("shared", "linkerd/cluster-credentials-twin"),
                ("second", "mc/copy")
            ]
        );
        assert_eq!(old.revoked, ["first"]);
    }

    #[test]
    fn token_that_was_handed_over_is_taken_unless_all_secrets_have_it() {
        let account = TokenAccount::named("mc", "west");
        let tokens = [token("new", TokenOwner::This, 0)];
        let [old, new] = ["old", "new"].map(Secret::new);
        for (held, expected) in [
            (vec![&new, &new], Decision::Finish(&tokens[0])),
            (vec![&new, &old], Decision::Continue(&tokens[0])),
            (vec![&old, &old], Decision::Continue(&tokens[0])),
        ] {
            let facts = Facts {
                tokens: &tokens,
                held,
                account: &account,
                restart_is_due: false,
                now: now(),
            };
            assert_eq!(facts.taken(), expected);
        }
    }
}
