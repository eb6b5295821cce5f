//! The end of the rotation of a link: old tokens are revoked, or kept.

use hints::hint::fail;
use manifests::kubeconfig::Secret;

use crate::rotate::{
    decision::{DESTINATION, TokenHolder},
    rotation::Rotation,
};

impl Rotation<'_> {
    /// Deletes the tokens that were in use before, except those that a Secret still has. Fails if a Secret of the link
    /// does not have the new one any more.
    pub async fn revoke(&mut self, holders: &[TokenHolder]) -> anyhow::Result<()> {
        let Some(new) = self.new.clone() else {
            return Ok(());
        };
        if let Some(changed) = self.changed(&new).await? {
            self.keep();
            return Err(fail(
                format!(
                    "the Secret {changed} does not have the new token any more, so nothing was revoked"
                ),
                "see who else writes it, such as another rotation or a GitOps tool, then run this again",
            ));
        }
        if self.target.is_none() {
            self.say(match self.done.token_secret {
                Some(_) => "the controller and Linkerd use this token",
                None => {
                    "the controller and Linkerd use this token, which was requested: it is in no Secret that `--in-use` could \
                     name; to revoke older tokens, take one that `fleet credentials --new-tokens` makes"
                }
            });
            return Ok(());
        }
        for (name, holder) in self.old.keep_used(&self.tokens, holders) {
            let name = self.in_target(&name);
            self.say(&format!(
                "kept the token Secret {name}, because the Secret {holder} has its token"
            ));
            self.done.kept.push(name);
        }
        for name in self.old.revoked.clone() {
            if let Some(tokens) = self.token_secrets() {
                tokens.revoke(&name, &self.tokens).await?;
            }
            let name = self.in_target(&name);
            self.say(&format!("deleted the token Secret {name}"));
            self.done.revoked.push(name);
        }
        for name in &self.old.kept {
            let name = self.in_target(name);
            self.say(&format!(
                "kept the token Secret {name}, which other links may use; delete it with --revoke-shared"
            ));
            self.done.kept.push(name);
        }
        if let (Some(expires), None) = (self.account.expires, &self.account.secret) {
            self.say(&format!(
                "the old token cannot be revoked, and is valid until {expires}"
            ));
            self.done.old_token_expires = Some(expires.to_string());
        }
        self.say("rotated the credentials");
        Ok(())
    }

    /// A Secret that does not have this token any more.
    async fn changed(&self, token: &Secret) -> anyhow::Result<Option<String>> {
        for stored in self.stored() {
            if !stored.holds(&self.source.cluster, token).await? {
                return Ok(Some(stored.path()));
            }
        }
        Ok(None)
    }

    /// Lists the old tokens as kept, and warns that Linkerd still uses one of them.
    pub fn restart_is_needed(&mut self) -> String {
        self.keep();
        let restart = self.source.cluster.flags.kubectl(
            "-n {} rollout restart deployment/{}",
            &[&self.source.linkerd, DESTINATION],
        );
        let reason = format!(
            "{DESTINATION} still uses the old token, so nothing was revoked; run {restart}, then run this again to revoke it"
        );
        self.source
            .cluster
            .console
            .warning(&format!("{}: {reason}", self.called()));
        reason
    }

    /// Lists the old tokens as kept, because Linkerd may still use them.
    pub fn keep(&mut self) {
        let old = self.old.revoked.iter().chain(&self.old.kept);
        self.done.kept = old.map(|name| self.in_target(name)).collect();
    }
}
