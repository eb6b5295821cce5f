//! Rotates the credentials of one link.

use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::{ByteString, api::core::v1::Secret as KubernetesSecret};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use super::{
    args::Rotate,
    credentials::{Account, Credentials},
    outcome::{Done, Ending},
    restart::DESTINATION,
    tokens::{Token, Tokens, link_id},
};
use crate::{
    api::{labels, link::Link},
    cli::{cluster::Cluster, output, progress::Progress},
    client::fingerprint,
    controller::clock,
    hint::{HintExt as _, fail},
    manifests::kubeconfig::Secret,
};

/// Poll interval for a Link.
const LOOK: Duration = Duration::from_millis(250);

/// The source cluster.
pub(super) struct Source {
    pub(super) cluster: Cluster,
    /// Namespace of Links.
    pub(super) namespace: String,
    /// Namespace of Linkerd.
    pub(super) linkerd: String,
}

/// A credentials Secret.
struct Stored {
    namespace: String,
    name: String,
    version: Option<String>,
    credentials: Credentials,
}

/// One link, and its credentials.
pub(super) struct Rotation<'a> {
    source: &'a Source,
    target: Cluster,
    link: Link,
    /// Identifies the link in the target cluster.
    id: String,
    account: Account,
    /// The Secret that the controller reads.
    own: Stored,
    /// The Secrets that Linkerd reads; they may be missing.
    linkerd: Vec<Stored>,
    /// Name of the new token Secret, once it is created.
    new: Option<String>,
    done: Done,
}

/// The state of a link before the restart.
pub(super) enum Step<'a> {
    /// Both Secrets have new credentials, and the controller uses them.
    Written(Box<Rotation<'a>>),
    /// There is nothing more to do, for this reason.
    Ended(Ending, String),
}

impl<'a> Rotation<'a> {
    /// Reads the Secrets of a link.
    pub(super) async fn gather(
        source: &'a Source,
        target: Cluster,
        link: Link,
    ) -> anyhow::Result<Self> {
        let cluster = link.spec.target_cluster_name.clone();
        let name = &link.spec.cluster_credentials_secret;
        let secrets =
            Api::<KubernetesSecret>::namespaced(source.cluster.client.clone(), &source.namespace);
        let own = source
            .cluster
            .request("read the credentials", secrets.get_opt(name))
            .await?
            .ok_or_else(|| {
                fail(
                    format!("Secret {}/{name} not found", source.namespace),
                    "create it with `linkerd-mc link` or `linkerd-mc link-gen`",
                )
            })?;
        let own = stored(&own)?;
        let of_cluster = format!("{}={cluster}", labels::CREDENTIALS_CLUSTER);
        let secrets =
            Api::<KubernetesSecret>::namespaced(source.cluster.client.clone(), &source.linkerd);
        let params = ListParams::default().labels(&of_cluster);
        let linkerd = source
            .cluster
            .request("list Linkerd's credentials", secrets.list(&params))
            .await?;
        let linkerd: Vec<Stored> = linkerd.items.iter().map(stored).collect::<Result<_, _>>()?;
        if linkerd.is_empty() {
            output::warning(&format!(
                "namespace {} has no credentials for {cluster}, so remote discovery and federated Services do not work",
                source.linkerd
            ));
        }
        let account = own.credentials.account().ok_or_else(|| {
            fail(
                format!(
                    "the token in the Secret {}/{} does not belong to a ServiceAccount",
                    own.namespace, own.name
                ),
                "create credentials that can be rotated with `linkerd-mc link`",
            )
        })?;
        let id = link_id(&source.cluster, &source.namespace, &cluster).await?;
        Ok(Self {
            source,
            target,
            link,
            id,
            account,
            own,
            linkerd,
            new: None,
            done: Done::default(),
        })
    }

    /// Name of the target cluster.
    pub(super) fn cluster(&self) -> &str {
        &self.link.spec.target_cluster_name
    }

    /// Creates a token, or continues with that of an earlier run, and writes it into the controller's and Linkerd's
    /// Secrets. Waits until the controller uses it.
    pub(super) async fn write(mut self, args: &Rotate) -> anyhow::Result<Step<'a>> {
        let tokens = Tokens::of(&self.target, &self.account, &self.id);
        let there = tokens.list().await?;
        if let Some(reason) = args.older_than.and_then(|age| self.is_young(&there, age)) {
            return Ok(Step::Ended(Ending::Skipped, reason));
        }
        let begun = self.begun(&there);
        if args.dry_run {
            return Ok(Step::Ended(Ending::Planned, self.plan(&there, begun, args)));
        }
        let found = begun.map(|token| (token.name.clone(), token.text.clone()));
        let (name, token) = if let Some((name, token)) = found {
            self.say(&format!(
                "continuing with the token Secret {name} of an earlier run"
            ));
            (name, token)
        } else {
            let Token { name, text, .. } = tokens.mint().await?;
            self.say(&format!(
                "created the token Secret {}/{name}",
                self.account.namespace
            ));
            (name, text)
        };
        self.done.token_secret = Some(format!("{}/{name}", self.account.namespace));
        self.new = Some(name);
        let fingerprint = self.put(&self.own, &token).await?;
        self.in_use(&fingerprint, args.wait).await?;
        self.say("the controller uses the new credentials");
        self.done.credentials_fingerprint = Some(fingerprint);
        for stored in &self.linkerd {
            self.put(stored, &token).await?;
        }
        Ok(Step::Written(Box::new(self)))
    }

    /// Why the credentials are not old enough to be rotated; `None` if they are.
    fn is_young(&self, there: &[Token], limit: Duration) -> Option<String> {
        let now = clock::now();
        let held = there
            .iter()
            .find(|known| known.text == *self.own.credentials.token());
        let since = self
            .account
            .issued
            .or_else(|| held.and_then(|held| held.created))?;
        let limit = i64::try_from(limit.as_secs()).unwrap_or(i64::MAX);
        let ends_soon = self
            .account
            .expires
            .is_some_and(|expires| expires.as_second() - now.as_second() <= limit);
        let age = now.as_second() - since.as_second();
        (age < limit && !ends_soon).then(|| format!("skipped: the credentials are {age} s old"))
    }

    /// The token that an earlier run created, but did not write into all Secrets.
    fn begun<'t>(&self, there: &'t [Token]) -> Option<&'t Token> {
        let newest = there.iter().rev().find(|token| token.own)?;
        let mut readers = std::iter::once(&self.own).chain(&self.linkerd);
        let is_everywhere = readers.all(|stored| *stored.credentials.token() == newest.text);
        (!is_everywhere).then_some(newest)
    }

    fn plan(&self, there: &[Token], begun: Option<&Token>, args: &Rotate) -> String {
        let token = begun.map_or_else(
            || {
                format!(
                    "create a token Secret for {}/{}",
                    self.account.namespace, self.account.name
                )
            },
            |token| format!("continue with the token Secret {}", token.name),
        );
        let restart = if args.no_restart {
            String::new()
        } else {
            format!(", restart {DESTINATION}")
        };
        let new = begun.map(|token| token.name.as_str());
        let (revoked, kept) = self.old(there, new, args.revoke_shared);
        let revoked = if revoked.is_empty() || args.no_restart {
            String::new()
        } else {
            format!(", delete the token Secret {}", revoked.join(", "))
        };
        let kept = if kept.is_empty() {
            String::new()
        } else {
            format!(
                "; would keep {}, which other links may use",
                kept.join(", ")
            )
        };
        let secrets = 1 + self.linkerd.len();
        format!("would {token}, write {secrets} Secrets{restart}{revoked}{kept}")
    }

    /// Token Secrets that are old once `new` is in use: those to delete, and those that others may use.
    fn old(&self, there: &[Token], new: Option<&str>, shared: bool) -> (Vec<String>, Vec<String>) {
        let held = |token: &Token| {
            let mut all = std::iter::once(&self.own).chain(&self.linkerd);
            all.any(|stored| *stored.credentials.token() == token.text)
        };
        let old = there
            .iter()
            .filter(|token| Some(token.name.as_str()) != new && (token.own || held(token)));
        let (revoked, kept): (Vec<&Token>, Vec<&Token>) =
            old.partition(|token| token.own || shared);
        let names = |tokens: Vec<&Token>| tokens.iter().map(|token| token.name.clone()).collect();
        (names(revoked), names(kept))
    }

    /// Replaces the token in a Secret's kubeconfig. Returns the fingerprint of the kubeconfig.
    async fn put(&self, stored: &Stored, token: &Secret) -> anyhow::Result<String> {
        let kubeconfig = stored.credentials.with_token(token)?;
        let fingerprint = fingerprint(kubeconfig.expose().as_bytes());
        let data = ByteString(kubeconfig.expose().as_bytes().to_vec());
        let patch = json!({
            // Fails if the Secret has changed since it was read.
            "metadata": { "resourceVersion": stored.version },
            "data": { labels::KUBECONFIG_KEY: data },
        });
        let Stored {
            namespace, name, ..
        } = stored;
        let secrets =
            Api::<KubernetesSecret>::namespaced(self.source.cluster.client.clone(), namespace);
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let what = format!("write the Secret {namespace}/{name}");
        let patched = secrets.patch(name, &params, &patch);
        self.source.cluster.request(&what, patched).await?;
        self.say(&format!("wrote the Secret {namespace}/{name}"));
        Ok(fingerprint)
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

    /// Deletes the tokens that this link no longer uses.
    pub(super) async fn revoke(mut self, shared: bool) -> (Done, anyhow::Result<()>) {
        let ended = self.try_revoke(shared).await;
        (self.done, ended)
    }

    async fn try_revoke(&mut self, shared: bool) -> anyhow::Result<()> {
        let tokens = Tokens::of(&self.target, &self.account, &self.id);
        let there = tokens.list().await?;
        let (revoked, kept) = self.old(&there, self.new.as_deref(), shared);
        for name in revoked {
            tokens.revoke(&name).await?;
            self.done
                .revoked
                .push(format!("{}/{name}", self.account.namespace));
        }
        self.done.kept = kept
            .iter()
            .map(|name| format!("{}/{name}", self.account.namespace))
            .collect();
        for name in &self.done.revoked {
            self.say(&format!("deleted the token Secret {name}"));
        }
        for name in &self.done.kept {
            self.say(&format!(
                "kept the token Secret {name}, which other links may use; delete it with --revoke-shared"
            ));
        }
        if let Some(expires) = self.account.expires {
            self.say(&format!("the old token expires at {expires}"));
        }
        self.say("rotated the credentials");
        Ok(())
    }

    /// Leaves the old tokens as they are.
    pub(super) fn keep(self) -> Done {
        self.done
    }

    fn say(&self, what: &str) {
        output::note(&format!("{}: {what}", self.cluster()));
    }
}

fn stored(secret: &KubernetesSecret) -> anyhow::Result<Stored> {
    let (namespace, name) = (secret.namespace().unwrap_or_default(), secret.name_any());
    let data = secret
        .data
        .as_ref()
        .and_then(|data| data.get(labels::KUBECONFIG_KEY));
    let credentials = data
        .context("it contains no kubeconfig")
        .and_then(|data| Credentials::read(&data.0))
        .hint(
            || format!("cannot use the Secret {namespace}/{name}"),
            || {
                "create one that can be rotated with `linkerd-mc link` or `linkerd-mc link-gen`"
                    .to_owned()
            },
        )?;
    Ok(Stored {
        namespace,
        name,
        version: secret.resource_version(),
        credentials,
    })
}
