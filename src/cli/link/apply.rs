//! Applies the objects of a link to the source cluster: all of them, or none.

use k8s_openapi::{
    ByteString,
    api::{
        authorization::v1::{
            ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
        },
        core::v1::Secret,
    },
};
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::taken::{Evidence, NameHolder, compare, holder, objection};
use crate::{
    api::{labels::KUBECONFIG_KEY, link::Link},
    cli::common::{
        cluster::Cluster,
        inventory::{self, LINK, SECRET},
        linked::{elsewhere, links},
        output,
    },
    client::Access,
    hint::fail,
    manifests::link::{ClusterName, LinkObjects},
};

/// One direction: objects generated from one cluster, for another.
pub(super) struct Direction {
    /// Access to the target cluster.
    pub(super) from: Access,
    /// Access to the source cluster.
    pub(super) access: Access,
    /// Context of the source cluster.
    pub(super) context: String,
    /// Name of the target cluster.
    pub(super) name: ClusterName,
    pub(super) objects: LinkObjects,
}

/// A Secret before it is applied.
enum Before {
    /// The user may not read it.
    Unknown,
    Missing,
    Found(Box<Secret>),
}

/// A link that can be applied.
pub(super) struct Prepared<'d> {
    pub(super) direction: &'d Direction,
    pub(super) cluster: Cluster,
    /// The Link that will be changed.
    link: Option<Link>,
    /// The Secrets: the controller's, and Linkerd's.
    secrets: [Before; 2],
}

impl<'d> Prepared<'d> {
    /// Reads what the source cluster has. Fails if the link cannot be applied, or if the name belongs to another
    /// cluster and is not to be `replace`d. Changes nothing.
    pub(super) async fn read(direction: &'d Direction, replace: bool) -> anyhow::Result<Self> {
        let cluster = Cluster::connect(&direction.access).await?;
        let context = &direction.context;
        if !LINK.is_served(&cluster).await? {
            return Err(fail(
                format!("{context} has no CRD for Links; nothing was applied"),
                format!(
                    "install the extension with `linkerd-mc --context {context} install | kubectl --context {context} \
                     apply -f -`"
                ),
            ));
        }
        let objects = &direction.objects;
        let secrets = [
            before(&cluster, &objects.credentials).await?,
            before(&cluster, &objects.control_plane_credentials).await?,
        ];
        let namespace = objects.link.namespace().unwrap_or_default();
        let known = links(&cluster, &namespace).await?;
        let link = known
            .iter()
            .find(|link| link.name_any() == objects.link.name_any());
        let prepared = Self {
            direction,
            link: link.cloned(),
            secrets,
            cluster,
        };
        prepared.check_name(&known, replace).await?;
        prepared.check_permissions().await?;
        Ok(prepared)
    }

    /// Fails if the link would be a second one for its cluster, or if its name belongs to another cluster.
    async fn check_name(&self, known: &[Link], replace: bool) -> anyhow::Result<()> {
        let Direction { context, name, .. } = self.direction;
        let cluster = name.to_string();
        let namespace = self.direction.objects.link.namespace().unwrap_or_default();
        let another = match holder(known, &cluster) {
            NameHolder::Duplicate(other) => {
                let other = other.name_any();
                return Err(fail(
                    format!(
                        "the Link {other} links {context} to {name} already; nothing was applied"
                    ),
                    format!(
                        "choose another name with --cluster-name, or delete that Link first with `linkerd-mc --context \
                         {context} unlink --link {other}`"
                    ),
                ));
            }
            _ if replace => None,
            NameHolder::Renamed(_) => Some((name.to_string(), "leads to another cluster")),
            NameHolder::Same(link) => {
                let objection = self.objection(Some(link)).await?;
                objection.map(|objection| (name.to_string(), objection))
            }
            NameHolder::Nobody => {
                // They share Linkerd's Secret.
                let elsewhere = elsewhere(&self.cluster, &namespace, name).await?;
                match elsewhere.into_iter().next() {
                    Some(other) => self.objection(None).await?.map(|why| (other, why)),
                    None => None,
                }
            }
        };
        let Some((link, why)) = another else {
            return Ok(());
        };
        Err(fail(
            format!(
                "the name {name} is taken: the Link {link} in {context} {why}; nothing was applied"
            ),
            "choose another name with --cluster-name, or pass --replace to move the name to this cluster, which deletes \
             all mirrors of the other one",
        ))
    }

    /// Why a Link, or without one Linkerd's Secret, may not be changed: its credentials may be for another cluster.
    async fn objection(&self, link: Option<&Link>) -> anyhow::Result<Option<&'static str>> {
        let Direction { objects, from, .. } = self.direction;
        let Some(new) = kubeconfig(&objects.credentials) else {
            return Ok(None);
        };
        // A Link may name another Secret.
        let mut named = objects.credentials.clone();
        named.metadata.name = link.map(|link| link.spec.cluster_credentials_secret.clone());
        let is_other = named.metadata.name != objects.credentials.metadata.name;
        let named = match &named.metadata.name {
            Some(name) if is_other && !name.is_empty() => before(&self.cluster, &named).await?,
            _ => Before::Missing,
        };
        let mut evidence = Vec::new();
        for secret in self.secrets.iter().chain([&named]) {
            match secret {
                Before::Missing => {}
                Before::Unknown => evidence.push(Evidence::Unreadable),
                Before::Found(old) => {
                    if let Some(old) = kubeconfig(old) {
                        evidence.extend(compare(&old.0, &new.0, from).await?);
                    }
                }
            }
        }
        Ok(objection(&evidence))
    }

    /// Fails if the user may not write one of the objects.
    async fn check_permissions(&self) -> anyhow::Result<()> {
        let objects = &self.direction.objects;
        let [own, linkerds] = self.secrets.each_ref().map(|secret| match secret {
            Before::Missing => &["patch", "create"][..],
            Before::Unknown | Before::Found(_) => &["patch"],
        });
        let links = match &self.link {
            Some(_) => &["patch"][..],
            None => &["patch", "create"],
        };
        let wanted = [
            ("", "secrets", own, &objects.credentials.metadata),
            (
                "",
                "secrets",
                linkerds,
                &objects.control_plane_credentials.metadata,
            ),
            (
                "multicluster.linkerd.io",
                "links",
                links,
                &objects.link.metadata,
            ),
        ];
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
                if !may(&self.cluster, attributes).await {
                    return Err(fail(
                        format!(
                            "{} does not permit this user to {verb} {resource} in namespace {}; nothing was applied",
                            self.direction.context,
                            metadata.namespace.as_deref().unwrap_or_default()
                        ),
                        "choose another identity with --to, --as or --as-group",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Whether Linkerd has other credentials for the cluster.
    pub(super) fn replaces_linkerds(&self) -> bool {
        let new = &self.direction.objects.control_plane_credentials;
        matches!(&self.secrets[1], Before::Found(old) if kubeconfig(old) != kubeconfig(new))
    }

    /// Applies the Secrets, and then the Link. If one of them fails, the Secrets are as before.
    pub(super) async fn apply(&self) -> anyhow::Result<()> {
        let Direction {
            context,
            name,
            objects,
            ..
        } = self.direction;
        for (applied, object) in objects.manifest()?.objects().iter().enumerate() {
            let done = inventory::apply(&self.cluster, object).await;
            if let Err(error) = done {
                self.undo(applied).await;
                return Err(error.context(format!("cannot link {context} to {name}")));
            }
        }
        Ok(())
    }

    /// Undoes a link that was applied in part, so that no unused credentials stay: the first `applied` objects were
    /// written, and the next one failed.
    async fn undo(&self, applied: usize) {
        let objects = &self.direction.objects;
        let new = [&objects.credentials, &objects.control_plane_credentials];
        let applied = new.into_iter().zip(&self.secrets).take(applied);
        // The request may have succeeded although its answer was lost.
        let link = self.changed_link().await;
        for (new, before) in applied {
            let said = match (&link, before) {
                (Err(why), _) => Err(why.clone()),
                (Ok(()), Before::Unknown) => Err("you may not read it".to_owned()),
                (Ok(()), Before::Found(old)) if kubeconfig(old) == kubeconfig(new) => continue,
                (Ok(()), before) => self.put_back(new, before).await,
            };
            let path = path(new);
            match said {
                Ok(done) => output::note(&format!("{done} {path}")),
                Err(why) => output::warning(&format!(
                    "the Secret {path} has the new credentials, which nothing uses: {why}; link again, or delete it"
                )),
            }
        }
    }

    /// `Err` if the Link is not as it was read, or may not be.
    async fn changed_link(&self) -> Result<(), String> {
        let link = &self.direction.objects.link;
        let namespace = link.namespace().unwrap_or_default();
        let api = self.cluster.api::<Link>(&namespace);
        let name = link.name_any();
        let live = self
            .cluster
            .request("read the Link", api.get_metadata_opt(&name));
        let live = live.await.map_err(|error| format!("{error:#}"))?;
        let version = |uid: Option<String>, generation: Option<i64>| Some((uid?, generation?));
        let before = self.link.as_ref();
        let before = before.and_then(|link| version(link.uid(), link.metadata.generation));
        let live = live.and_then(|link| version(link.uid(), link.metadata.generation));
        if before == live {
            Ok(())
        } else {
            Err(format!("the Link {name} was changed"))
        }
    }

    /// Deletes a Secret that was made, or restores its credentials. Returns what was done.
    async fn put_back(&self, new: &Secret, before: &Before) -> Result<&'static str, String> {
        let (namespace, name) = (new.namespace().unwrap_or_default(), new.name_any());
        let done = if let Before::Found(old) = before {
            let api = self.cluster.api::<Secret>(&namespace);
            let patch = json!({ "data": { KUBECONFIG_KEY: kubeconfig(old) } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
            let patched = api.patch(&name, &params, &patch);
            let restored = self.cluster.request("restore the Secret", patched).await;
            restored.map(|_| "restored the Secret")
        } else {
            let made = SECRET.named(Some(namespace), name);
            let deleted = inventory::delete(&self.cluster, &made).await;
            deleted.map(|()| "deleted the new Secret")
        };
        done.map_err(|error| format!("{error:#}"))
    }
}

/// The kubeconfig in a Secret.
pub(super) fn kubeconfig(secret: &Secret) -> Option<&ByteString> {
    secret.data.as_ref()?.get(KUBECONFIG_KEY)
}

/// Namespace and name of a Secret.
fn path(secret: &Secret) -> String {
    let namespace = secret.namespace().unwrap_or_default();
    format!("{namespace}/{}", secret.name_any())
}

/// The Secret that the cluster has now.
async fn before(cluster: &Cluster, new: &Secret) -> anyhow::Result<Before> {
    let namespace = new.namespace().unwrap_or_default();
    let api = cluster.api::<Secret>(&namespace);
    let name = new.name_any();
    let read = async {
        match api.get_opt(&name).await {
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Before::Unknown),
            answer => answer.map(|found| {
                found.map_or(Before::Missing, |secret| Before::Found(Box::new(secret)))
            }),
        }
    };
    let what = format!("read the Secret {}", path(new));
    cluster.request(&what, read).await
}

/// Whether the user may do something. Yes if that cannot be found out: then the request itself fails with the reason.
async fn may(cluster: &Cluster, attributes: ResourceAttributes) -> bool {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            ..Default::default()
        },
        ..Default::default()
    };
    let api = cluster.all::<SelfSubjectAccessReview>();
    let params = PostParams::default();
    let asked = cluster.request("ask for permissions", api.create(&params, &review));
    let status = asked.await.ok().and_then(|answer| answer.status);
    status.is_none_or(|status| status.allowed)
}
