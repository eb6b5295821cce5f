//! Rotates the credentials of one link.

use std::time::Duration;

use kube::ResourceExt as _;

use super::{
    args::RotationFlags,
    credentials::{Stored, TokenAccount},
    decision::{DESTINATION, Decision, Facts, Old, Steps, TokenHolder},
    gather::{Linkerds, SourceCluster, TargetCluster, is_of_target, linkerds, own},
    outcome::{Ending, RotationDetails, RotationOutcome},
    tokens::{TokenSecret, Tokens, link_id},
};
use crate::{
    api::{labels, link::Link},
    cli::common::{
        output,
        wait::{POLL_INTERVAL, poll},
    },
    clusters::snapshot::{Destination, Known},
    hint::fail,
    manifests::kubeconfig::Secret,
    timing,
};

/// One link, and its credentials.
pub(super) struct Rotation<'a> {
    source: &'a SourceCluster,
    target: TargetCluster,
    link: Link,
    /// Identifies the link in the target cluster.
    id: String,
    account: TokenAccount,
    /// The tokens of the account when the rotation began.
    tokens: Vec<TokenSecret>,
    /// The Secret that the controller reads.
    own: Stored,
    /// The Secrets that Linkerd reads; they may be missing.
    linkerd: Vec<Stored>,
    /// Whether Linkerd reads a Secret of the cluster that another Link maintains.
    is_shared: bool,
    /// Whether Linkerd's destination controller may have started before that Link wrote the Secret.
    may_be_outdated: bool,
    /// The token of an earlier run, to continue with.
    begun: Option<TokenSecret>,
    /// The new token, once all Secrets have it.
    new: Option<Secret>,
    /// What is old once the new token is in use.
    old: Old,
    done: RotationDetails,
}

impl<'a> Rotation<'a> {
    /// Reads the Secrets of a link, and the tokens in the target cluster.
    pub(super) async fn gather(
        source: &'a SourceCluster,
        target: TargetCluster,
        link: Link,
    ) -> anyhow::Result<Self> {
        let cluster = link.spec.target_cluster_name.clone();
        let own = own(source, &link.spec.cluster_credentials_secret).await?;
        let account = own.credentials.account().ok_or_else(|| {
            fail(
                format!(
                    "the token in the Secret {} does not belong to a ServiceAccount",
                    own.path()
                ),
                "link the cluster again, which makes credentials that can be rotated",
            )
        })?;
        let id = link_id(&source.cluster, &source.namespace, &cluster).await?;
        let fleet = link.labels().get(labels::FLEET).cloned();
        let tokens = Tokens::of(&target.cluster, &account, &id, fleet);
        let tokens = tokens.list().await?;
        is_of_target(&target, &own, &account, tokens.iter())?;
        let Linkerds { ours, is_shared } = linkerds(source, &link, &own, &tokens).await?;
        Ok(Self {
            source,
            target,
            link,
            id,
            account,
            tokens,
            own,
            linkerd: ours,
            is_shared,
            may_be_outdated: false,
            begun: None,
            new: None,
            old: Old::default(),
            done: RotationDetails::default(),
        })
    }

    /// Name of the target cluster.
    pub(super) fn cluster(&self) -> &str {
        &self.link.spec.target_cluster_name
    }

    /// The result, with what was done.
    pub(super) fn ended(self, result: Ending, reason: Option<String>) -> RotationOutcome {
        RotationOutcome {
            cluster: self.link.spec.target_cluster_name,
            result,
            reason,
            done: self.done,
        }
    }

    /// The result after an error.
    pub(super) fn failed(self, error: &anyhow::Error) -> RotationOutcome {
        self.ended(Ending::Failed, Some(format!("{error:#}")))
    }

    /// Whether Linkerd, which reads credentials only at startup, may still have those of this link.
    pub(super) fn needs_restart(&self) -> bool {
        !self.linkerd.is_empty() || self.may_be_outdated
    }

    /// Whether token Secrets are to be deleted.
    pub(super) fn revokes(&self) -> bool {
        !self.old.revoked.is_empty()
    }

    /// Decides what to do, and changes nothing. Returns the result and its reason if there is nothing to do.
    pub(super) fn decide(
        &mut self,
        flags: &RotationFlags,
        destination: &Known<Destination>,
    ) -> Option<(Ending, String)> {
        let outdated = destination
            .as_ref()
            .map(|it| it.is_outdated(self.cluster()));
        self.may_be_outdated = self.is_shared && outdated != Ok(false);
        let facts = Facts {
            tokens: &self.tokens,
            held: self
                .stored()
                .map(|stored| stored.credentials.token())
                .collect(),
            account: &self.account,
            restart_is_due: outdated == Ok(true) && !self.linkerd.is_empty(),
            now: timing::now(),
        };
        let decision = facts.decide(flags.older_than, flags.revoke_shared);
        let old = |new: Option<&TokenSecret>| {
            let new = new.map(|token| token.name.as_str());
            facts.old(new, flags.revoke_shared)
        };
        let old = match &decision {
            Decision::Skip(reason) => return Some((Ending::Skipped, reason.clone())),
            Decision::Create => old(None),
            Decision::Continue(token) | Decision::Finish(token) => old(Some(token)),
        };
        if flags.dry_run {
            let steps = Steps {
                account: &self.account,
                secrets: self.stored().count(),
                restarts: self.needs_restart(),
                may_restart: !flags.no_restart,
            };
            return Some((Ending::Planned, steps.text(&decision, &old)));
        }
        match decision {
            Decision::Finish(token) => {
                let (name, text) = (self.in_target(&token.name), token.text.clone());
                self.say(&format!(
                    "finishing an earlier rotation: all Secrets have the token of {name}"
                ));
                self.done.token_secret = Some(name);
                self.new = Some(text);
            }
            Decision::Continue(token) => self.begun = Some(token.clone()),
            Decision::Create | Decision::Skip(_) => {}
        }
        self.old = old;
        None
    }

    /// Creates a token, or continues with that of an earlier run. Puts it into the Secret of the controller, and when
    /// the controller uses it, into those of Linkerd. If the controller cannot use it, everything is undone. Does
    /// nothing if all Secrets have the new token.
    pub(super) async fn write(&mut self, wait: Duration) -> anyhow::Result<()> {
        if self.new.is_some() {
            return Ok(());
        }
        let token = if let Some(token) = self.begun.take() {
            self.say(&format!(
                "continuing with the token Secret {} of an earlier run",
                self.in_target(&token.name)
            ));
            token
        } else {
            let token = self.token_secrets().create().await?;
            self.say(&format!(
                "created the token Secret {}",
                self.in_target(&token.name)
            ));
            token
        };
        self.done.token_secret = Some(self.in_target(&token.name));
        if let Err(error) = self.controller_takes(&token, wait).await {
            self.undo(&token).await;
            return Err(error);
        }
        self.say("the controller uses the new credentials");
        for at in 0..self.linkerd.len() {
            let written = self.linkerd[at].put(&self.source.cluster, &token.text);
            if written.await?.1 {
                self.say(&format!("wrote the Secret {}", self.linkerd[at].path()));
            }
        }
        self.new = Some(token.text);
        Ok(())
    }

    /// Writes the controller's Secret, and waits until the controller uses it.
    async fn controller_takes(
        &mut self,
        token: &TokenSecret,
        wait: Duration,
    ) -> anyhow::Result<()> {
        is_of_target(
            &self.target,
            &self.own,
            &self.account,
            std::iter::once(token),
        )?;
        let (fingerprint, is_new) = self.own.put(&self.source.cluster, &token.text).await?;
        if is_new {
            self.say(&format!("wrote the Secret {}", self.own.path()));
        }
        self.in_use(&fingerprint, wait).await?;
        self.done.credentials_fingerprint = Some(fingerprint);
        Ok(())
    }

    /// Leaves the controller with the credentials that it had, and no unused token in the target cluster.
    async fn undo(&mut self, token: &TokenSecret) {
        match self.own.restore(&self.source.cluster).await {
            Ok(true) => self.say(&format!("restored the Secret {}", self.own.path())),
            Ok(false) => {}
            Err(error) => {
                output::warning(&format!(
                    "{}: the Secret {} keeps the new token: {error:#}",
                    self.called(),
                    self.own.path()
                ));
                return;
            }
        }
        if self.stored().any(|stored| stored.has(&token.text)) {
            return;
        }
        let name = self.in_target(&token.name);
        match self.token_secrets().revoke(&token.name).await {
            Ok(()) => {
                self.say(&format!("deleted the token Secret {name}"));
                self.done.token_secret = None;
            }
            Err(error) => output::warning(&format!(
                "{}: the token Secret {name} is left over: {error:#}",
                self.called()
            )),
        }
    }

    /// Waits until the Link's status shows that these credentials are in use.
    async fn in_use(&self, fingerprint: &str, wait: Duration) -> anyhow::Result<()> {
        let links = self.source.cluster.api::<Link>(&self.source.namespace);
        let name = self.link.name_any();
        let attempt = async || {
            let read = links.get(&name);
            let live = self.source.cluster.request("read the Link", read).await?;
            let status = live.status.unwrap_or_default();
            let in_use = status.credentials_fingerprint.as_deref() == Some(fingerprint);
            anyhow::Ok(in_use.then_some(()).ok_or(status))
        };
        let waiting = format!("waiting for the Link {name} to use the new credentials");
        let polling = poll(POLL_INTERVAL, wait, attempt, |_| ());
        let ended = self.source.wait_for(&waiting, polling).await?;
        ended.map_err(|status| {
            let why = status
                .condition("CredentialsValid")
                .map(|condition| condition.message.as_str())
                .filter(|message| !message.is_empty())
                .unwrap_or("no reason reported");
            fail(
                format!("the Link {name} does not use the new credentials after {wait:?}: {why}"),
                format!(
                    "check that the controller is running and the CRD is up to date ({} with your values), then run this \
                     again; the old token still works",
                    self.source.cluster.install()
                ),
            )
        })
    }

    /// Deletes the tokens that were in use before, except those that a Secret still has. Fails if a Secret of the link
    /// does not have the new one any more.
    pub(super) async fn revoke(&mut self, holders: &[TokenHolder]) -> anyhow::Result<()> {
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
        for (name, holder) in self.old.keep_used(&self.tokens, holders) {
            let name = self.in_target(&name);
            self.say(&format!(
                "kept the token Secret {name}, because the Secret {holder} has its token"
            ));
            self.done.kept.push(name);
        }
        for name in &self.old.revoked {
            self.token_secrets().revoke(name).await?;
            let name = self.in_target(name);
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
        if let Some(expires) = self.account.expires {
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
    pub(super) fn restart_is_needed(&mut self) -> String {
        self.keep();
        let restart = self.source.cluster.flags.kubectl(
            "-n {} rollout restart deployment/{}",
            &[&self.source.linkerd, DESTINATION],
        );
        let reason = format!(
            "{DESTINATION} still uses the old token, so nothing was revoked; run {restart}, then run this again to revoke it"
        );
        output::warning(&format!("{}: {reason}", self.called()));
        reason
    }

    /// Lists the old tokens as kept, because Linkerd may still use them.
    pub(super) fn keep(&mut self) {
        let old = self.old.revoked.iter().chain(&self.old.kept);
        self.done.kept = old.map(|name| self.in_target(name)).collect();
    }

    /// The Secrets with credentials: the controller's, and those of Linkerd.
    fn stored(&self) -> impl Iterator<Item = &Stored> {
        std::iter::once(&self.own).chain(&self.linkerd)
    }

    /// The token Secrets in the target cluster.
    fn token_secrets(&self) -> Tokens<'_> {
        let fleet = self.link.labels().get(labels::FLEET);
        Tokens::of(
            &self.target.cluster,
            &self.account,
            &self.id,
            fleet.cloned(),
        )
    }

    /// A token Secret, with its namespace.
    fn in_target(&self, name: &str) -> String {
        format!("{}/{name}", self.account.namespace)
    }

    /// What messages call the link.
    fn called(&self) -> String {
        self.source.link_to(self.cluster())
    }

    fn say(&self, what: &str) {
        output::note(&format!("{}: {what}", self.called()));
    }
}
