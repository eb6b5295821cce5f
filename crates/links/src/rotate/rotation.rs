//! Rotates the credentials of one link.

mod ending;

use std::time::Duration;

use anyhow::Context as _;
use hints::hint::fail;
use jiff::Timestamp;
use kube::ResourceExt as _;
use manifests::kubeconfig::Secret;
use mirror_core::api::{labels, link::Link};
use observe::clusters::snapshot::{Destination, Known};

use crate::{
    link_credentials::TokenAccount,
    poll::{POLL_INTERVAL, poll},
    rotate::{
        credentials::Stored,
        decision::{Decision, Facts, Old, Steps},
        flags::RotationFlags,
        gather::{Linkerds, SourceCluster, TargetCluster, held, is_of_target, linkerds, own},
        outcome::{Ending, RotationDetails, RotationOutcome},
        tokens::{Lifetime, TokenSecret, Tokens, link_id},
    },
};

/// What a run does about the token of a link.
enum Course {
    /// It creates a new one.
    Create,
    /// It puts the one of an earlier run into use.
    Continue(TokenSecret),
    /// An earlier run has put it into use, so this one does not see the controller take it.
    Finish,
}

/// One link, and its credentials.
pub struct Rotation<'a> {
    source: &'a SourceCluster,
    /// The time of the cluster that has the tokens, by which their ages count.
    now: Timestamp,
    /// Without it, the link has its new token already, and nothing is revoked.
    target: Option<TargetCluster>,
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
    /// Whether Linkerd certainly uses what its Secrets have.
    is_current: bool,
    course: Course,
    /// The new token, once all Secrets have it.
    new: Option<Secret>,
    /// What is old once the new token is in use.
    old: Old,
    /// What a dry run says.
    steps: String,
    done: RotationDetails,
}

impl<'a> Rotation<'a> {
    /// Reads the Secrets of a link, and the tokens in the target cluster.
    pub async fn gather(
        source: &'a SourceCluster,
        target: Option<TargetCluster>,
        link: Link,
    ) -> anyhow::Result<Self> {
        let cluster = link.spec.target_cluster_name.clone();
        let own = own(source, &link.spec.cluster_credentials_secret).await?;
        let account = own.target.account.clone().ok_or_else(|| {
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
        let (target, tokens) = match target {
            Some(target) => {
                let tokens = Tokens::of(&target.cluster, &account, Some(&id), fleet);
                let tokens = tokens.list().await?;
                is_of_target(&target, &link, &own, &account, tokens.iter()).await?;
                (Some(target), tokens)
            }
            None => (None, vec![held(&own, &account)]),
        };
        let Linkerds { ours, is_shared } = linkerds(source, &link, &own, &tokens).await?;
        let dated = target
            .as_ref()
            .map_or(&source.cluster, |target| &target.cluster);
        Ok(Self {
            source,
            now: dated.now().await,
            target,
            link,
            id,
            account,
            tokens,
            own,
            linkerd: ours,
            is_shared,
            may_be_outdated: false,
            is_current: false,
            course: Course::Create,
            new: None,
            old: Old::default(),
            steps: String::new(),
            done: RotationDetails::default(),
        })
    }

    /// Name of the target cluster.
    pub fn cluster(&self) -> &str {
        &self.link.spec.target_cluster_name
    }

    /// The result, with what was done.
    pub fn ended(self, result: Ending, reason: Option<String>) -> RotationOutcome {
        RotationOutcome {
            source: self.source.name.clone(),
            cluster: self.link.spec.target_cluster_name,
            result,
            reason,
            done: self.done,
        }
    }

    /// The result of a dry run.
    pub fn planned(self) -> RotationOutcome {
        let steps = self.steps.clone();
        self.ended(Ending::Planned, Some(steps))
    }

    /// Says what a run would do.
    pub fn say_steps(&self) {
        self.say(&self.steps);
    }

    /// The result after an error.
    pub fn failed(self, error: &anyhow::Error) -> RotationOutcome {
        self.ended(Ending::Failed, Some(format!("{error:#}")))
    }

    /// Whether Linkerd, which reads credentials only at startup, may still have those of this link.
    pub fn needs_restart(&self) -> bool {
        !(self.linkerd.is_empty() || self.is_current) || self.may_be_outdated
    }

    /// Whether this run sees the controller connect to the cluster with a new token.
    pub fn proves_connection(&self) -> bool {
        !matches!(self.course, Course::Finish)
    }

    /// Whether token Secrets are to be deleted.
    pub fn revokes(&self) -> bool {
        !self.old.revoked.is_empty()
    }

    /// Decides what to do, and changes nothing. Returns the result and its reason if there is nothing to do.
    pub fn decide(
        &mut self,
        flags: &RotationFlags,
        destination: &Known<Destination>,
    ) -> Option<(Ending, String)> {
        let outdated = destination
            .as_ref()
            .map(|it| it.is_outdated(self.cluster()));
        let is_read = destination
            .as_ref()
            .is_ok_and(|it| it.is_current(self.cluster()));
        self.may_be_outdated = self.is_shared && outdated != Ok(false);
        self.is_current = self.target.is_none() && is_read && self.has_taken();
        let facts = Facts {
            tokens: &self.tokens,
            held: self.stored().map(|stored| &stored.token).collect(),
            account: &self.account,
            restart_is_due: outdated == Ok(true) && !self.linkerd.is_empty(),
            now: self.now,
        };
        let decision = match self.target {
            Some(_) => facts.decide(flags),
            None => facts.taken(),
        };
        let old = |new: Option<&TokenSecret>| {
            let new = new.map(|token| token.name.as_str());
            facts.old(new, flags.revoke_shared)
        };
        let old = match &decision {
            Decision::Skip(reason) => return Some((Ending::Skipped, reason.clone())),
            Decision::Create => old(None),
            Decision::Continue(token) | Decision::Finish(token) => old(Some(token)),
        };
        let course = match &decision {
            Decision::Finish(_) => Course::Finish,
            Decision::Continue(token) => Course::Continue((*token).clone()),
            Decision::Create | Decision::Skip(_) => Course::Create,
        };
        if flags.dry_run {
            let creates = matches!(decision, Decision::Create);
            self.steps = self.steps(flags).text(&decision, &old);
            self.course = course;
            self.done.creates = creates;
            self.done.restarts = self.needs_restart() && !flags.no_restart;
            return None;
        }
        if let Decision::Finish(token) = decision {
            let name = self.secret_of(token);
            if let (Some(_), Some(name)) = (&self.target, &name) {
                self.say(&format!(
                    "finishing an earlier rotation: all Secrets have the token of {name}"
                ));
                if flags.older_than.is_none() && !token.is_recent(self.now) {
                    self.source.cluster.console.warning(&format!(
                        "{}: the token of {name} is over an hour old, and stays; run this again to replace it",
                        self.called()
                    ));
                }
            }
            self.done.token_secret = name;
            self.new = Some(self.own.token.clone());
        }
        self.course = course;
        self.old = old;
        None
    }

    fn steps(&self, flags: &RotationFlags) -> Steps<'_> {
        Steps {
            account: &self.account,
            secrets: self.stored().count(),
            restarts: self.needs_restart(),
            may_restart: !flags.no_restart,
        }
    }

    /// Whether all Secrets have the token of the controller's.
    fn has_taken(&self) -> bool {
        let mut tokens = self.tokens.iter();
        tokens.all(|token| {
            self.stored()
                .all(|stored| Some(&stored.token) == token.text.as_ref())
        })
    }

    /// Creates a token, or continues with that of an earlier run. Puts it into the Secret of the controller, and when
    /// the controller uses it, into those of Linkerd. If the controller cannot use it, what this run did is undone. Does
    /// nothing if all Secrets have the new token.
    pub async fn write(&mut self, wait: Duration) -> anyhow::Result<()> {
        if self.new.is_some() {
            // Somebody else may have written it a moment ago.
            let fingerprint = self.own.fingerprint();
            self.in_use(&fingerprint, wait).await?;
            self.done.credentials_fingerprint = Some(fingerprint);
            return Ok(());
        }
        let (token, is_own) = if let Course::Continue(token) = &self.course {
            let token = token.clone();
            self.say(&match (&self.target, self.secret_of(&token)) {
                (Some(_), Some(name)) => format!("continuing with the token Secret {name}"),
                (None, Some(name)) => format!("taking the token of the Secret {name}"),
                (_, None) => "taking the token, which was requested and is in no Secret".to_owned(),
            });
            (self.with_text(token).await?, false)
        } else {
            let tokens = self.token_secrets();
            let tokens = tokens.context("the target cluster is not used")?;
            let token = tokens.create().await?;
            self.say(&format!(
                "created the token Secret {}",
                self.in_target(&token.name)
            ));
            (token, true)
        };
        self.done.token_secret = self.secret_of(&token);
        let text = token.text.clone().context("the Secret has no token")?;
        if let Err(error) = self.controller_takes(&token, &text, wait).await {
            self.undo((&token, &text), is_own).await;
            return Err(error);
        }
        self.say("the controller uses the new credentials");
        for at in 0..self.linkerd.len() {
            let written = self.linkerd[at].put(&self.source.cluster, &text);
            if written.await?.1 {
                self.is_current = false;
                self.say(&format!("wrote the Secret {}", self.linkerd[at].path()));
            }
        }
        self.new = Some(text);
        Ok(())
    }

    /// The token of an earlier run: the one that the controller's Secret has already, or another one of its Secret.
    async fn with_text(&self, begun: TokenSecret) -> anyhow::Result<TokenSecret> {
        match self.token_secrets() {
            _ if begun.is(&self.own.token) => Ok(TokenSecret {
                text: Some(self.own.token.clone()),
                ..begun
            }),
            Some(tokens) => tokens.with_text(&begun).await,
            None => Ok(begun),
        }
    }

    /// Writes the controller's Secret, and waits until the controller uses it.
    async fn controller_takes(
        &mut self,
        token: &TokenSecret,
        text: &Secret,
        wait: Duration,
    ) -> anyhow::Result<()> {
        if let Some(target) = &self.target {
            let token = std::iter::once(token);
            is_of_target(target, &self.link, &self.own, &self.account, token).await?;
        }
        let (fingerprint, is_new) = self.own.put(&self.source.cluster, text).await?;
        if is_new {
            self.say(&format!("wrote the Secret {}", self.own.path()));
        }
        self.in_use(&fingerprint, wait).await?;
        self.done.credentials_fingerprint = Some(fingerprint);
        Ok(())
    }

    /// Leaves the controller with the credentials that it had. If this run has created the token (`is_own`), leaves no
    /// unused token in the target cluster. One of an earlier run stays, because another run may be putting it into use.
    async fn undo(&mut self, (token, text): (&TokenSecret, &Secret), is_own: bool) {
        match self.own.restore(&self.source.cluster).await {
            Ok(true) => self.say(&format!("restored the Secret {}", self.own.path())),
            Ok(false) => {}
            Err(error) => {
                self.source.cluster.console.warning(&format!(
                    "{}: the Secret {} keeps the new token: {error:#}",
                    self.called(),
                    self.own.path()
                ));
                return;
            }
        }
        let Some(tokens) = self.token_secrets().filter(|_| is_own) else {
            return; // it can be taken again
        };
        let name = self.in_target(&token.name);
        if let Some(why) = self.in_doubt(text).await {
            self.source.cluster.console.warning(&format!(
                "{}: the token Secret {name} stays, because {why}; run this again, which continues with it",
                self.called()
            ));
            return;
        }
        match tokens
            .revoke(&token.name, std::slice::from_ref(token))
            .await
        {
            Ok(()) => {
                self.say(&format!("deleted the token Secret {name}"));
                self.done.token_secret = None;
            }
            Err(error) => self.source.cluster.console.warning(&format!(
                "{}: the token Secret {name} is left over: {error:#}",
                self.called()
            )),
        }
    }

    /// Why a new token may be in use. What the Secrets have now counts: a write may have succeeded although its answer was
    /// lost.
    async fn in_doubt(&self, token: &Secret) -> Option<String> {
        for stored in self.stored() {
            match stored.holds(&self.source.cluster, token).await {
                Ok(false) => {}
                Ok(true) => return Some(format!("the Secret {} has its token", stored.path())),
                Err(error) => return Some(format!("it may be in use: {error:#}")),
            }
        }
        None
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

    /// The Secrets with credentials: the controller's, and those of Linkerd.
    fn stored(&self) -> impl Iterator<Item = &Stored> {
        std::iter::once(&self.own).chain(&self.linkerd)
    }

    /// The token Secrets in the target cluster, if that can be used.
    fn token_secrets(&self) -> Option<Tokens<'_>> {
        let target = &self.target.as_ref()?.cluster;
        let fleet = self.link.labels().get(labels::FLEET).cloned();
        let lifetime = self
            .account
            .lifetime()
            .map_or(Lifetime::Usual, Lifetime::Of);
        let tokens = Tokens::of(target, &self.account, Some(&self.id), fleet);
        Some(tokens.valid_for(lifetime))
    }

    /// The result when all is done.
    pub fn ending(&self) -> Ending {
        match self.target {
            Some(_) => Ending::Rotated,
            None => Ending::InUse,
        }
    }

    /// The Secret of a token, with its namespace; `None` if the token was requested.
    fn secret_of(&self, token: &TokenSecret) -> Option<String> {
        token.secret().map(|name| self.in_target(name))
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
        self.source
            .cluster
            .console
            .note(&format!("{}: {what}", self.called()));
    }
}
