//! Rotates the credentials of one link.

use std::time::{Duration, Instant};

use kube::{Api, ResourceExt as _};

use super::{
    args::Rotate,
    credentials::Account,
    decision::{Decision, Facts, Old},
    gather::{Source, Target, is_of_target, linkerds, own},
    outcome::{Done, Ending},
    restart::DESTINATION,
    secrets::Stored,
    tokens::{Token, Tokens, link_id},
};
use crate::{
    api::link::Link,
    cli::{output, progress::Progress},
    controller::clock,
    hint::fail,
    manifests::kubeconfig::Secret,
};

/// Poll interval for a Link.
const LOOK: Duration = Duration::from_millis(250);

/// One link, and its credentials.
pub(super) struct Rotation<'a> {
    source: &'a Source,
    target: Target,
    link: Link,
    /// Identifies the link in the target cluster.
    id: String,
    account: Account,
    /// The tokens of the account when the rotation began.
    tokens: Vec<Token>,
    /// The Secret that the controller reads.
    own: Stored,
    /// The Secrets that Linkerd reads; they may be missing.
    linkerd: Vec<Stored>,
    /// The new token, once it is known.
    new: Option<Secret>,
    /// What is old once the new token is in use.
    old: Old,
    pub(super) done: Done,
}

/// The next step of a link.
pub(super) enum Step {
    /// The Secrets have to be written.
    Write {
        /// The token Secret of an earlier run, to continue with.
        begun: Option<String>,
    },
    /// The Secrets have the new token already.
    Written,
    /// There is nothing to do, for this reason.
    Ended(Ending, String),
}

impl<'a> Rotation<'a> {
    /// Reads the Secrets of a link, and the tokens in the target cluster.
    pub(super) async fn gather(
        source: &'a Source,
        target: Target,
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
                "create credentials that can be rotated with `linkerd-mc link`",
            )
        })?;
        let id = link_id(&source.cluster, &source.namespace, &cluster).await?;
        let tokens = Tokens::of(&target.cluster, &account, &id).list().await?;
        is_of_target(&target, &own, &account, tokens.iter())?;
        let linkerd = linkerds(source, &cluster, &own, &tokens).await?;
        Ok(Self {
            source,
            target,
            link,
            id,
            account,
            tokens,
            own,
            linkerd,
            new: None,
            old: Old::default(),
            done: Done::default(),
        })
    }

    /// Name of the target cluster.
    pub(super) fn cluster(&self) -> &str {
        &self.link.spec.target_cluster_name
    }

    /// Whether Linkerd has credentials that it reads only at startup.
    pub(super) fn needs_restart(&self) -> bool {
        !self.linkerd.is_empty()
    }

    /// Decides what to do. Changes nothing.
    pub(super) fn next(&mut self, args: &Rotate, restart_is_due: bool) -> Step {
        let facts = Facts {
            tokens: &self.tokens,
            held: std::iter::once(&self.own)
                .chain(&self.linkerd)
                .map(|stored| stored.credentials.token())
                .collect(),
            account: &self.account,
            restart_is_due: restart_is_due && self.needs_restart(),
            now: clock::now(),
        };
        let decision = facts.decide(args.older_than, args.revoke_shared);
        let known = match &decision {
            Decision::Skip(reason) => return Step::Ended(Ending::Skipped, reason.clone()),
            Decision::Create => None,
            Decision::Continue(token) | Decision::Finish(token) => Some((*token).clone()),
        };
        let name = known.as_ref().map(|token| token.name.clone());
        self.old = facts.old(name.as_deref(), args.revoke_shared);
        if args.dry_run {
            return Step::Ended(Ending::Planned, self.plan(&decision, args));
        }
        let finishes = matches!(decision, Decision::Finish(_));
        if let Some(token) = known.filter(|_| finishes) {
            self.say(&format!(
                "finishing an earlier rotation: all Secrets have the token of {}",
                self.in_target(&token.name)
            ));
            self.done.token_secret = Some(self.in_target(&token.name));
            self.new = Some(token.text);
            return Step::Written;
        }
        Step::Write { begun: name }
    }

    fn plan(&self, decision: &Decision<'_>, args: &Rotate) -> String {
        let mut steps = Vec::new();
        let is_written = match decision {
            Decision::Finish(_) => true,
            Decision::Continue(token) => {
                steps.push(format!("continue with the token Secret {}", token.name));
                false
            }
            Decision::Create | Decision::Skip(_) => {
                steps.push(format!(
                    "create a token Secret for {}/{}",
                    self.account.namespace, self.account.name
                ));
                false
            }
        };
        if !is_written {
            steps.push(format!("write {} Secrets", 1 + self.linkerd.len()));
        }
        let restarts = self.needs_restart();
        if restarts && !args.no_restart {
            steps.push(format!("restart {DESTINATION}"));
        }
        if !(self.old.revoked.is_empty() || restarts && args.no_restart) {
            let names = self.old.revoked.join(", ");
            steps.push(format!("delete the token Secret {names}"));
        }
        let kept = if self.old.kept.is_empty() {
            String::new()
        } else {
            let names = self.old.kept.join(", ");
            format!("; would keep {names}, which other links may use")
        };
        format!("would {}{kept}", steps.join(", "))
    }

    /// Creates a token, or continues with that of an earlier run. Puts it into the Secret of the controller, and when
    /// the controller uses it, into those of Linkerd. If the controller cannot use it, everything is undone.
    pub(super) async fn write(
        &mut self,
        begun: Option<&str>,
        wait: Duration,
    ) -> anyhow::Result<()> {
        let begun = self
            .tokens
            .iter()
            .find(|token| Some(token.name.as_str()) == begun)
            .cloned();
        let token = if let Some(token) = begun {
            self.say(&format!(
                "continuing with the token Secret {} of an earlier run",
                self.in_target(&token.name)
            ));
            token
        } else {
            let token = Tokens::of(&self.target.cluster, &self.account, &self.id)
                .create()
                .await?;
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
    async fn controller_takes(&mut self, token: &Token, wait: Duration) -> anyhow::Result<()> {
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
    async fn undo(&mut self, token: &Token) {
        match self.own.restore(&self.source.cluster).await {
            Ok(true) => self.say(&format!("restored the Secret {}", self.own.path())),
            Ok(false) => {}
            Err(error) => {
                output::warning(&format!(
                    "{}: the Secret {} keeps the new token: {error:#}",
                    self.cluster(),
                    self.own.path()
                ));
                return;
            }
        }
        let mut all = std::iter::once(&self.own).chain(&self.linkerd);
        if all.any(|stored| stored.has(&token.text)) {
            return;
        }
        let name = self.in_target(&token.name);
        let tokens = Tokens::of(&self.target.cluster, &self.account, &self.id);
        match tokens.revoke(&token.name).await {
            Ok(()) => {
                self.say(&format!("deleted the token Secret {name}"));
                self.done.token_secret = None;
            }
            Err(error) => output::warning(&format!(
                "{}: the token Secret {name} is left over: {error:#}",
                self.cluster()
            )),
        }
    }

    /// Waits until the Link's status shows that these credentials are in use.
    async fn in_use(&self, fingerprint: &str, wait: Duration) -> anyhow::Result<()> {
        let links =
            Api::<Link>::namespaced(self.source.cluster.client.clone(), &self.source.namespace);
        let name = self.link.name_any();
        let progress = Progress::new(&format!(
            "waiting for the Link {name} to use the new credentials"
        ));
        let waiting = async {
            let started = Instant::now();
            loop {
                let live = self
                    .source
                    .cluster
                    .request("read the Link", links.get(&name))
                    .await?;
                let status = live.status.unwrap_or_default();
                if status.credentials_fingerprint.as_deref() == Some(fingerprint) {
                    return anyhow::Ok(());
                }
                if started.elapsed() >= wait {
                    let condition = status
                        .conditions
                        .iter()
                        .find(|c| c.type_ == "CredentialsValid");
                    let why = condition
                        .map(|condition| condition.message.clone())
                        .filter(|message| !message.is_empty())
                        .unwrap_or_else(|| "no reason reported".to_owned());
                    return Err(fail(
                        format!(
                            "the Link {name} does not use the new credentials after {wait:?}: {why}"
                        ),
                        "check that the controller is running and the CRD is up to date \
                         (`linkerd-mc install | kubectl apply -f -`), then run this again; the old token still works",
                    ));
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        progress.during(waiting).await
    }

    /// Deletes the tokens that were in use before. Fails if a Secret does not have the new one any more.
    pub(super) async fn revoke(&mut self) -> anyhow::Result<()> {
        let Some(new) = self.new.clone() else {
            return Ok(());
        };
        if let Some(changed) = self.changed(&new).await? {
            self.keep();
            return Err(fail(
                format!(
                    "the Secret {changed} does not have the new token any more, so nothing was revoked"
                ),
                "see who else writes it, such as another `linkerd-mc rotate` or a GitOps tool, then run this again",
            ));
        }
        let tokens = Tokens::of(&self.target.cluster, &self.account, &self.id);
        for name in &self.old.revoked {
            tokens.revoke(name).await?;
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
        for stored in std::iter::once(&self.own).chain(&self.linkerd) {
            if !stored.holds(&self.source.cluster, token).await? {
                return Ok(Some(stored.path()));
            }
        }
        Ok(None)
    }

    /// Leaves the old tokens as they are, and says that Linkerd still uses one of them.
    pub(super) fn restart_is_needed(&mut self) -> String {
        self.keep();
        let reason = format!(
            "{DESTINATION} still uses the old token, so nothing was revoked; run `kubectl -n {} rollout restart \
             deployment/{DESTINATION}`, then run this again to revoke it",
            self.source.linkerd
        );
        output::warning(&format!("{}: {reason}", self.cluster()));
        reason
    }

    /// Leaves the old tokens as they are, because Linkerd may still use them.
    pub(super) fn keep(&mut self) {
        let old = self.old.revoked.iter().chain(&self.old.kept);
        self.done.kept = old.map(|name| self.in_target(name)).collect();
    }

    /// A token Secret, with its namespace.
    fn in_target(&self, name: &str) -> String {
        format!("{}/{name}", self.account.namespace)
    }

    fn say(&self, what: &str) {
        output::note(&format!("{}: {what}", self.cluster()));
    }
}
