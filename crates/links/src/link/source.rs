//! What the source cluster has of a link before anything is written.

use client::Cluster;
use hints::hint::fail;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use mirror_core::api::{link::Link, metadata::cluster_uid};

use crate::{
    inventory::LINK,
    link::{
        direction::{Direction, LinkedTarget},
        existing::Existing,
        taken::{NameHolder, UNKNOWN, holder, objection},
    },
    link_credentials::{Evidence, KubeconfigTarget, by_uid, compare},
    linked::{KnownLinks, elsewhere, undecodable},
};

/// A Secret before it is applied.
pub enum Before {
    /// The user may not read it.
    Unknown,
    Missing,
    Found(Box<Secret>),
}

impl Before {
    /// The kubeconfig in it, if it is a valid one.
    fn kubeconfig(&self) -> Option<KubeconfigTarget> {
        match self {
            Self::Found(secret) => KubeconfigTarget::of_secret(secret),
            Self::Unknown | Self::Missing => None,
        }
    }

    /// The UID of the cluster that it is for, if it was recorded.
    fn cluster_uid(&self) -> Option<&str> {
        match self {
            Self::Found(secret) => cluster_uid(&**secret),
            Self::Unknown | Self::Missing => None,
        }
    }
}

/// The credentials of a link that is there.
pub enum InUse<'s> {
    None,
    /// The user may not read them.
    Unreadable,
    Known(&'s KubeconfigTarget),
}

/// What the source cluster has.
pub struct SourceState {
    pub cluster: Cluster,
    /// The Link that will be changed.
    pub link: Option<Link>,
    /// The Secrets: the controller's, and Linkerd's.
    pub secrets: [Before; 2],
    /// The Secret that the Link names, if it is another one.
    named: Before,
    /// Whether the name is moved from another cluster.
    is_of_another: bool,
    credentials: Option<KubeconfigTarget>,
}

impl SourceState {
    /// Reads what there is. Fails if the link cannot be applied, or if the name belongs to another cluster and is not to
    /// be `replace`d. Changes nothing.
    pub async fn read(
        direction: &Direction,
        namespace: &str,
        linkerd: &str,
        replace: bool,
    ) -> anyhow::Result<Self> {
        let cluster = Cluster::connect(&direction.access).await?;
        let context = &direction.context;
        if !LINK.is_served(&cluster).await? {
            return Err(fail(
                format!("{context} has no CRD for Links; nothing was applied"),
                format!("install the extension with {}", cluster.install()),
            ));
        }
        let name = direction.name.to_string();
        let own = direction.name.credentials_secret();
        let secrets = [
            before(&cluster, namespace, &own).await?,
            before(&cluster, linkerd, &own).await?,
        ];
        let known = KnownLinks::read(&cluster, namespace).await?;
        if let Some(why) = known.unreadable.get(&name) {
            // What it has set is not known, so linking again would remove it.
            return Err(undecodable(
                &cluster,
                namespace,
                &name,
                format!(
                    "the Link {name} in {} cannot be decoded: {why}; nothing was applied",
                    direction.context
                ),
            ));
        }
        let known = known.links;
        let link = known.iter().find(|link| link.name_any() == name).cloned();
        // A Link may name another Secret.
        let named = link
            .as_ref()
            .map(|link| &link.spec.cluster_credentials_secret);
        let named = match named {
            Some(name) if *name != own && !name.is_empty() => {
                before(&cluster, namespace, name).await?
            }
            _ => Before::Missing,
        };
        let mut source = Self {
            link,
            secrets,
            named,
            cluster,
            is_of_another: false,
            credentials: None,
        };
        let evidence = source.evidence(direction).await;
        let objection = objection(&evidence);
        source
            .check_name(direction, namespace, &known, objection, replace)
            .await?;
        source.is_of_another = objection.is_some();
        if objection.is_none() {
            let in_use = source.all().find_map(Before::kubeconfig);
            source.credentials = in_use;
        }
        Ok(source)
    }

    /// What is kept of it.
    pub fn existing(&self) -> Existing<'_> {
        Existing {
            link: self.link.as_ref(),
            credentials: self.credentials.as_ref(),
            is_of_another: self.is_of_another,
        }
    }

    /// The credentials that are in use.
    pub fn in_use(&self) -> InUse<'_> {
        if let Some(known) = &self.credentials {
            return InUse::Known(known);
        }
        let is_unknown = |before: &Before| matches!(before, Before::Unknown);
        let may_have_some = [&self.secrets[0], &self.named].into_iter().any(is_unknown);
        if self.link.is_some() && may_have_some {
            InUse::Unreadable
        } else {
            InUse::None
        }
    }

    /// All Secrets: that which the Link names, the controller's, Linkerd's.
    fn all(&self) -> impl Iterator<Item = &Before> {
        std::iter::once(&self.named).chain(&self.secrets)
    }

    /// What the Secrets say about the cluster that they lead to.
    async fn evidence(&self, direction: &Direction) -> Vec<Evidence> {
        let actual = match &direction.target {
            LinkedTarget::Context(target) => target.cluster.uid().await,
            LinkedTarget::Handed(handed) => handed.uid().map(str::to_owned),
        };
        let of_link = self.link.as_ref().and_then(cluster_uid);
        let mut evidence = Vec::from_iter(by_uid(of_link, actual.as_deref()));
        for secret in self.all() {
            let recorded = secret.cluster_uid().or(of_link);
            if let Some(found) = by_uid(recorded, actual.as_deref()) {
                evidence.push(found);
            } else if matches!(secret, Before::Unknown) {
                evidence.push(Evidence::Unreadable);
            } else if let Some(old) = secret.kubeconfig() {
                evidence.push(match &direction.target {
                    LinkedTarget::Context(of) => {
                        compare(&old, recorded, &of.entry, &of.cluster).await
                    }
                    LinkedTarget::Handed(handed) => handed.evidence(&old),
                });
            }
        }
        evidence
    }

    /// Fails if the link would be a second one for its cluster, or if its name belongs to another cluster.
    async fn check_name(
        &self,
        direction: &Direction,
        namespace: &str,
        known: &[Link],
        objection: Option<&'static str>,
        replace: bool,
    ) -> anyhow::Result<()> {
        let Direction { context, name, .. } = direction;
        let another = match holder(known, &name.to_string()) {
            NameHolder::Duplicate(other) => {
                let other = other.name_any();
                let unlink = self.cluster.flags.mc(
                    "unlink --link {} --namespace {} --apply",
                    &[&other, namespace],
                );
                return Err(fail(
                    format!(
                        "the Link {other} links {context} to {name} already; nothing was applied"
                    ),
                    format!(
                        "choose another name with --cluster-name, or delete that Link first with {unlink}"
                    ),
                ));
            }
            _ if replace => None,
            NameHolder::Renamed(_) => Some((name.to_string(), "leads to another cluster")),
            NameHolder::Same(_) => objection.map(|objection| (name.to_string(), objection)),
            NameHolder::Nobody => {
                // They share Linkerd's Secret.
                let elsewhere = elsewhere(&self.cluster, namespace, name).await?;
                let other = elsewhere.into_iter().next();
                other.and_then(|other| Some((other, objection?)))
            }
        };
        let Some((link, why)) = another else {
            return Ok(());
        };
        Err(fail(
            format!(
                "the name {name} is taken: the Link {link} in {context} {why}; nothing was applied"
            ),
            if why == UNKNOWN {
                "as a user who may get the Namespace kube-system of both clusters, or these Secrets, the command can tell; or \
                 choose another name with --cluster-name"
            } else {
                "choose another name with --cluster-name, or pass --replace to move the name to this cluster, which deletes \
                 all mirrors of the other one"
            },
        ))
    }
}

/// The Secret that the cluster has now.
async fn before(cluster: &Cluster, namespace: &str, name: &str) -> anyhow::Result<Before> {
    let api = cluster.api::<Secret>(namespace);
    let read = async {
        match api.get_opt(name).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Before::Unknown),
            answer => answer.map(|found| {
                found.map_or(Before::Missing, |secret| Before::Found(Box::new(secret)))
            }),
        }
    };
    let what = format!("read the Secret {namespace}/{name}");
    cluster.request(&what, read).await
}
