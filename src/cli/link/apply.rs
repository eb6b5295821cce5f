//! Applies the objects of a link to the source cluster: all of them, or none.

use anyhow::Context as _;
use hints::{hint::fail, suggest::Suggested};
use k8s_openapi::api::{authorization::v1::ResourceAttributes, core::v1::Secret};
use kube::{Api, ResourceExt};
use links::{
    given::Given,
    inventory::{LINK, SECRET},
    link::{
        direction::{Direction, LinkedTarget},
        generate::{NewToken, generate},
        remark::Remark,
        source::{Before, InUse, SourceState},
    },
    link_credentials::{KubeconfigTarget, have_same_kubeconfig, is_stand_in, outdated_at_linkerd},
    linked::{Losses, elsewhere},
    rotate::tokens::link_id,
    steps::{
        Action, LinkStep, SettingChange, StepChange, StepPart, TOKEN, credentials_changes,
        has_metadata_of, revoked, settings_changes,
    },
};
use manifests::link::LinkObjects;
use mirror_core::api::{
    labels,
    link::{Link, LinkSpec},
};
use observe::clusters::access::may;
use serde_json::json;

use crate::cli::{
    common::{mirroring::Parse, output},
    link::undo::{changed_link, is_refused, put_back},
    plan::losses::losses,
};

/// A link that can be applied.
pub struct Prepared {
    pub direction: Direction,
    pub source: SourceState,
    pub objects: LinkObjects,
    /// What is written in the source cluster, in this order.
    steps: Vec<LinkStep>,
    /// The settings of the existing link that would change.
    pub changes: Vec<SettingChange>,
    /// What happens to mirrors then, in words.
    pub losses: Option<String>,
    /// What happens to credentials that do not work, in words. Nobody is asked about it.
    pub renewed: Vec<String>,
    /// What the user has to know.
    pub remarks: Vec<Remark>,
}

impl Prepared {
    /// The Links of the namespace in which its own is.
    pub fn links(&self) -> Api<Link> {
        let namespace = self.objects.link.namespace().unwrap_or_default();
        self.source.cluster.api(&namespace)
    }

    /// Whether the owner of the target cluster has handed it over, so that all of it has to be confirmed.
    pub fn is_handed(&self) -> bool {
        matches!(self.direction.target, LinkedTarget::Handed(_))
    }

    /// Whether it has no token yet, because a dry run requests none.
    pub fn lacks_token(&self) -> bool {
        let credentials = KubeconfigTarget::of_secret(&self.objects.credentials);
        let token = credentials.and_then(|credentials| credentials.token);
        token.as_ref().is_some_and(is_stand_in)
    }

    /// What applying the link does to one that is there, a line each.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let changes = self.changes.iter().map(ToString::to_string);
        let losses = self.losses.iter().cloned();
        changes.chain(losses).chain(self.renewed.iter().cloned())
    }

    /// Whether the same settings change, with the same effect, and the same objects are written.
    pub fn is_like(&self, other: &Self) -> bool {
        let changes = |of: &Self| -> Vec<SettingChange> {
            let changes = of.changes.iter();
            // A token that is requested later expires later.
            let changes = changes.filter(|change| change.field != TOKEN);
            changes.cloned().collect()
        };
        let written = |of: &Self| -> Vec<StepChange> {
            of.steps.iter().map(|step| step.change.clone()).collect()
        };
        (changes(self), &self.losses, written(self))
            == (changes(other), &other.losses, written(other))
    }

    /// Reads both clusters. Fails if the link cannot be applied, or if the name belongs to another cluster and is not to
    /// be `replace`d. Changes nothing, and requests no token if it `is_dry`.
    pub async fn read(
        direction: Direction,
        linkerd: &str,
        given: &Given,
        (of, is_dry): (&super::Link, bool),
        parse: Parse,
    ) -> anyhow::Result<Self> {
        let args = &direction.args;
        let source = SourceState::read(&direction, &args.namespace, linkerd, of.replace).await?;
        let existing = source.existing();
        let (mut changes, mut renewed) = (Vec::new(), Vec::new());
        let (objects, remarks) = match &direction.target {
            LinkedTarget::Context(target) => {
                let id = if is_dry {
                    None
                } else {
                    let name = direction.name.to_string();
                    Some(link_id(&source.cluster, &args.namespace, &name).await?)
                };
                let made = generate(
                    &target.access,
                    &target.cluster,
                    linkerd,
                    &direction.name,
                    args,
                    (given, existing),
                    id.as_deref().map_or(NewToken::StandIn, NewToken::OfLink),
                );
                let what = || format!("cannot generate the link to {}", target.context);
                made.await.with_context(what)?
            }
            LinkedTarget::Handed(handed) => {
                renewed.extend(handed.ways());
                (handed.objects(&existing)?, Vec::new())
            }
        };
        match (&source.link, &direction.target) {
            (Some(old), _) => changes.extend(settings_changes(old, &objects.link)),
            // Somebody else has chosen all settings.
            (None, LinkedTarget::Handed(_)) => {
                let none = Link::new("", LinkSpec::default());
                changes.extend(settings_changes(&none, &objects.link));
            }
            (None, LinkedTarget::Context(_)) => {}
        }
        let new = KubeconfigTarget::of_secret(&objects.credentials);
        match (source.in_use(), new) {
            (InUse::Known(old), Some(new)) => {
                changes.extend(credentials_changes(Some(old), &new));
                // A token that nobody asked to replace is replaced because it is not valid.
                let is_asked = args.token_duration.is_some();
                let renews = revoked(old, &new);
                changes.retain(|change| change.field != TOKEN || is_asked || renews.is_none());
                renewed.extend(renews.filter(|_| !is_asked).map(
                    |revoked| match direction.target {
                        LinkedTarget::Context(_) => revoked,
                        LinkedTarget::Handed(_) => "token: replaced by that of the file".to_owned(),
                    },
                ));
            }
            (InUse::Unreadable, Some(new)) => {
                changes.extend(credentials_changes(None, &new));
            }
            _ => {}
        }
        let steps = steps(&direction, &source, &objects);
        let mut prepared = Self {
            steps,
            direction,
            source,
            objects,
            changes,
            losses: None,
            renewed,
            remarks,
        };
        prepared.renewed.extend(prepared.written());
        prepared.check_permissions().await?;
        prepared.losses = Box::pin(prepared.losses(parse)).await;
        Ok(prepared)
    }

    /// Secrets of the existing link that are missing or differ from it, and what Linkerd needs then.
    fn written(&self) -> Vec<String> {
        let secrets = self.steps.iter().filter(|step| {
            matches!(step.part, StepPart::Credentials(_)) && !step.change.why.is_empty()
        });
        let written = secrets.map(|step| {
            let StepChange {
                namespace,
                name,
                why,
                ..
            } = &step.change;
            format!("Secret {namespace}/{name}: {why} -> written")
        });
        let is_there = self.source.link.is_some();
        let mut written: Vec<String> = written.filter(|_| is_there).collect();
        if self.outdated_at_linkerd().is_some() {
            written.push(format!(
                "linkerd-destination has to be restarted then, because it ignores changes of its Secret: {}",
                self.restart()
            ));
        }
        written
    }

    /// What other settings, or another cluster, do to the mirrors that are there.
    async fn losses(&self, parse: Parse) -> Option<String> {
        let is_of_another = self.source.existing().is_of_another;
        if self.source.link.is_none() || self.changes.is_empty() && !is_of_another {
            return None;
        }
        let LinkedTarget::Context(target) = &self.direction.target else {
            return Some(Losses::unknown("the target cluster is not used"));
        };
        let (source, target) = (&self.source.cluster, &target.cluster);
        let link = &self.objects.link;
        match losses(&source.client, &target.client, link, parse).await {
            Ok(losses) => losses.text(&self.direction.name.to_string()),
            Err(error) => Some(Losses::unknown(&format!("{error:#}"))),
        }
    }

    /// A warning if the file of a fleet decides the settings that change.
    pub fn is_of_fleet(&self) -> Option<String> {
        let link = self
            .source
            .link
            .as_ref()
            .filter(|_| !self.changes.is_empty())?;
        let fleet = link.labels().get(labels::FLEET)?;
        Some(format!(
            "the Link {} belongs to the fleet {fleet}; `fleet apply` sets it to what the file says",
            link.name_any()
        ))
    }

    /// Fails if the user may not write one of the objects.
    async fn check_permissions(&self) -> anyhow::Result<()> {
        let objects = &self.objects;
        let [own, of_linkerd] = self.source.secrets.each_ref().map(|secret| match secret {
            Before::Missing => &["patch", "create"][..],
            Before::Unknown | Before::Found(_) => &["patch"],
        });
        let links = match &self.source.link {
            Some(_) => &["patch"][..],
            None => &["patch", "create"],
        };
        let own = ("", "secrets", own, &objects.credentials.metadata);
        let linkerds = objects.control_plane_credentials.iter();
        let linkerds = linkerds.map(|secret| ("", "secrets", of_linkerd, &secret.metadata));
        let link = &objects.link.metadata;
        let link = ("multicluster.linkerd.io", "links", links, link);
        let wanted = std::iter::once(own).chain(linkerds).chain([link]);
        for (group, resource, verbs, metadata) in wanted {
            for verb in verbs {
                let attributes = ResourceAttributes {
                    group: Some(group.to_owned()),
                    resource: Some(resource.to_owned()),
                    verb: Some((*verb).to_owned()),
                    namespace: metadata.namespace.clone(),
                    name: metadata.name.clone(),
                    ..Default::default()
                };
                // If that cannot be found out, the request itself fails with the reason.
                if may(&self.source.cluster.client, attributes).await == Ok(false) {
                    return Err(fail(
                        format!(
                            "{} does not permit this user to {verb} {resource} in namespace {}; nothing was applied",
                            self.direction.context,
                            metadata.namespace.as_deref().unwrap_or_default()
                        ),
                        "choose another identity with --source, --as or --as-group",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The namespace of the Link.
    pub fn namespace(&self) -> String {
        self.objects.link.namespace().unwrap_or_default()
    }

    /// The Secret that the controller reads, as it stands once this is applied.
    pub fn stored_credentials(&self) -> &Secret {
        let new = &self.objects.credentials;
        match &self.source.secrets[0] {
            Before::Found(old) if have_same_kubeconfig(old, new) => old,
            _ => new,
        }
    }

    /// What Linkerd has of the cluster that is not up-to-date then, until it restarts.
    pub fn outdated_at_linkerd(&self) -> Option<&'static str> {
        let new = self.objects.control_plane_credentials.as_ref()?;
        match &self.source.secrets[1] {
            Before::Found(old) => outdated_at_linkerd(old, new),
            Before::Missing | Before::Unknown => None,
        }
    }

    /// The command that restarts Linkerd's destination controller.
    pub fn restart(&self) -> Suggested {
        let linkerd = self.objects.control_plane_credentials.as_ref();
        let linkerd = linkerd.and_then(ResourceExt::namespace).unwrap_or_default();
        self.source.cluster.flags.restart_destination(&linkerd)
    }

    /// Linkerd's Secret of the cluster, if nothing needs it once the link is applied. Links of other namespaces to the
    /// same cluster share it.
    pub async fn leaves_linkerds(&self) -> anyhow::Result<Option<&Secret>> {
        let (Before::Found(old), None) = (
            &self.source.secrets[1],
            &self.objects.control_plane_credentials,
        ) else {
            return Ok(None);
        };
        let namespace = self.objects.link.namespace().unwrap_or_default();
        let others = elsewhere(&self.source.cluster, &namespace, &self.direction.name).await?;
        Ok(others.is_empty().then_some(&**old))
    }

    /// Writes the Secrets, and then the Link. If one of them fails, the Secrets are as before. Returns the Link as it is
    /// stored, if it was written.
    pub async fn apply(&self) -> anyhow::Result<Option<Link>> {
        let Direction { context, name, .. } = &self.direction;
        let mut stored = None;
        for (done, step) in self.steps.iter().enumerate() {
            match step.write(&self.source.cluster).await {
                Ok(link) => stored = link,
                Err(error) => {
                    let written = done + usize::from(!is_refused(&error));
                    self.undo(self.steps.iter().take(written)).await;
                    return Err(error.context(format!("cannot link {context} to {name}")));
                }
            }
        }
        Ok(stored)
    }

    /// Fails if the Link is stored otherwise than it was announced.
    pub fn check(&self, stored: Option<&Link>) -> anyhow::Result<()> {
        let mut steps = self.steps.iter();
        steps.try_for_each(|step| step.check(stored))
    }

    /// Undoes a link that was written in part, so that no unused credentials stay: these steps were done, or may be.
    async fn undo(&self, written: impl Iterator<Item = &LinkStep>) {
        let written: Vec<&StepChange> = written.map(|step| &step.change).collect();
        let cluster = &self.source.cluster;
        let link = changed_link(cluster, &self.objects.link, self.source.link.as_ref()).await;
        for (new, before) in self.objects.secrets().zip(&self.source.secrets) {
            let namespace = new.namespace().unwrap_or_default();
            let is_same = matches!(before, Before::Found(old) if have_same_kubeconfig(old, new));
            if is_same || !written.iter().any(|step| step.namespace == namespace) {
                continue;
            }
            let undone = match &link {
                Err(why) => Err(why.clone()),
                Ok(()) => put_back(cluster, new, before).await,
            };
            let path = path(new);
            match undone {
                Ok(None) => {}
                Ok(Some(done)) => output::note(&format!("{done} {path}")),
                Err(why) => output::warning(&format!(
                    "the Secret {path} may have the new credentials: {why}; link again"
                )),
            }
        }
    }
}

/// What has to be written in the source cluster.
fn steps(direction: &Direction, source: &SourceState, objects: &LinkObjects) -> Vec<LinkStep> {
    let target = direction.name.to_string();
    let secrets = objects.secrets().zip(&source.secrets);
    let secrets = secrets.filter_map(|(new, before)| {
        let in_use = source.existing().credentials;
        let mut new = new.clone();
        let (verb, why) = match before {
            Before::Unknown => ("patch", ""),
            Before::Missing => ("create", "missing"),
            Before::Found(old) if have_same_kubeconfig(old, &new) => {
                new.data.clone_from(&old.data);
                (!has_metadata_of(&**old, &new)).then_some(("patch", ""))?
            }
            // The settings that differ are listed one by one.
            Before::Found(old) if is_in_use(old, in_use) => ("patch", ""),
            Before::Found(_) => ("patch", "other credentials"),
        };
        if let Before::Found(old) = before {
            // If a rotation has written it meanwhile, the API server refuses this.
            new.metadata.resource_version = old.resource_version();
        }
        let object = SECRET.of_metadata(&new.metadata);
        Some(LinkStep {
            change: StepChange::of(verb, &object, why.to_owned()),
            action: Action::Apply(json!(new)),
            part: StepPart::Credentials(target.clone()),
        })
    });
    let (old, new) = (source.link.as_ref(), &objects.link);
    let is_done =
        old.is_some_and(|old| settings_changes(old, new).is_empty() && has_metadata_of(old, new));
    let verb = if old.is_some() { "patch" } else { "create" };
    let link = (!is_done).then(|| LinkStep {
        change: StepChange::of(verb, &LINK.of_metadata(&new.metadata), String::new()),
        action: Action::Link {
            old: old.cloned().map(Box::new),
            new: Box::new(new.clone()),
        },
        part: StepPart::Link(target.clone()),
    });
    secrets.chain(link).collect()
}

/// Whether a Secret has the credentials that are `in_use`.
fn is_in_use(secret: &Secret, in_use: Option<&KubeconfigTarget>) -> bool {
    let held = KubeconfigTarget::of_secret(secret);
    held.is_some_and(|held| in_use.is_some_and(|in_use| in_use.is_same(&held)))
}

/// Namespace and name of a Secret.
fn path(secret: &Secret) -> String {
    let namespace = secret.namespace().unwrap_or_default();
    format!("{namespace}/{}", secret.name_any())
}
