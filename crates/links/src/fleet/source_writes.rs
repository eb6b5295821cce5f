//! What is written for a link in its source cluster, compared with what is there. Pure.

use k8s_openapi::api::core::v1::Secret as KubernetesSecret;
use kube::{Resource, ResourceExt as _};
use mirror_core::api::{labels, link::Link, metadata::cluster_uid};
use serde_json::{Value, json};

use crate::{
    fleet::{
        facts::{ClusterFacts, is_of, other_fleet},
        loaded::{LoadedFleet, LoadedLink, places},
    },
    inventory::{LINK, SECRET},
    link::{
        existing::keep_cluster_uid,
        taken::{NameHolder, holder},
    },
    link_credentials::{Evidence, KubeconfigTarget, by_uid, outdated_at_linkerd},
    steps::{
        Action, FieldChange, LinkStep, SettingChange, StepChange, StepPart, TOKEN,
        credentials_changes, has_metadata_of, labelled, note, settings_changes,
    },
};

/// Why a Secret is written that leads to another API server or has another token.
const NEW_CREDENTIALS: &str = "new credentials";
/// Why an object is written that is as it should be, and not the fleet's.
const TAKEN_OVER: &str = "taken over as it is";

/// A link, and what is known of its source cluster.
#[derive(Clone, Copy)]
pub struct SourceWrites<'c> {
    pub loaded: &'c LoadedFleet,
    pub link: &'c LoadedLink,
    pub source: &'c ClusterFacts,
}

impl SourceWrites<'_> {
    /// Why there can be no Link of this name, as far as the source cluster says.
    pub fn obstacle(&self) -> Option<String> {
        if !self.source.has_links {
            let why = "it has no CRD for Links: the extension is not installed";
            return Some(why.to_owned());
        }
        let target = &self.link.ends.target;
        // What it has set is not known, so writing it would remove that.
        if let Some(why) = self.source.unreadable.get(&target.to_string()) {
            return Some(format!("the Link {target} cannot be decoded: {why}"));
        }
        match holder(&self.source.links, &target.to_string()) {
            NameHolder::Duplicate(other) => {
                return Some(format!(
                    "the Link {} links it to {target} already",
                    other.name_any()
                ));
            }
            NameHolder::Renamed(link) => {
                let other = &link.spec.target_cluster_name;
                return Some(format!("the Link {target} is for the cluster {other}"));
            }
            NameHolder::Same(link) => {
                if let Some(other) = other_fleet(link, &self.loaded.fleet.name) {
                    return Some(format!("the Link {target} belongs to the fleet {other}"));
                }
            }
            NameHolder::Nobody => return self.link_elsewhere(),
        }
        None
    }

    /// The fleet has the Link already, in the namespace that its file had before.
    fn link_elsewhere(&self) -> Option<String> {
        let target = &self.link.ends.target;
        let is_same = |link: &&Link| {
            is_of(*link, &self.loaded.fleet.name)
                && link.spec.target_cluster_name == target.to_string()
        };
        let found = self.source.elsewhere.iter().find(is_same)?;
        let (namespace, name) = (found.namespace().unwrap_or_default(), found.name_any());
        Some(format!(
            "the Link {namespace}/{name} of this fleet links it to {target} already; to move the fleet, apply its file with \
             `links: []` there first"
        ))
    }

    /// The write of a Secret with credentials, if there is one. Without a token, those of `wanted` are not valid.
    pub fn of_secret(&self, wanted: &KubernetesSecret, has_token: bool) -> Option<LinkStep> {
        let (namespace, name) = (wanted.namespace().unwrap_or_default(), wanted.name_any());
        let Some(old) = self.source.credentials(&namespace, &name) else {
            return Some(self.apply("create", wanted, &self.places(), Vec::new()));
        };
        // If a rotation has written it meanwhile, the API server refuses this.
        let mut unchanged = wanted.clone();
        unchanged.metadata.resource_version = old.resource_version();
        let apply = |why: &str, fields| self.apply("patch", &unchanged, why, fields);
        let renew = |fields| {
            let step = apply(NEW_CREDENTIALS, fields);
            Some(LinkStep {
                action: Action::Renew(self.labelled(&unchanged)),
                ..step
            })
        };
        let [now, new] = [old, wanted].map(KubeconfigTarget::of_secret);
        let (Some(now), Some(new)) = (&now, &new) else {
            return renew(Vec::new());
        };
        if !has_token {
            // A new account is shown by itself.
            let changes = credentials_changes(Some(now), new).into_iter();
            let changes = changes.filter(|change| new.account.is_some() && change.field != TOKEN);
            return renew(changes.collect());
        }
        if !now.is_same(new) {
            return renew(credentials_changes(Some(now), new));
        }
        if !has_metadata_of(old, wanted) {
            let step = apply("other labels or annotations", Vec::new());
            if outdated_at_linkerd(old, wanted).is_none() {
                return Some(step);
            }
            return Some(LinkStep {
                action: Action::Renew(self.labelled(&unchanged)),
                ..step
            });
        }
        (!is_of(old, &self.loaded.fleet.name)).then(|| self.note(wanted, TAKEN_OVER))
    }

    /// The write of the Link, if there is one. `Err` says why it is not written.
    pub fn of_link(&self, wanted: &Link) -> Result<Option<LinkStep>, String> {
        let name = wanted.name_any();
        let mut links = self.source.links.iter();
        let Some(old) = links.find(|link| link.name_any() == name) else {
            let change = self.change("create", wanted, &self.places(), Vec::new());
            return Ok(Some(self.of_settings(change, None, wanted)));
        };
        let mut fields = settings_changes(old, wanted);
        let is_own = is_of(old, &self.loaded.fleet.name);
        let (was, is) = (cluster_uid(old), cluster_uid(wanted));
        let is_replaced = by_uid(was, is) == Some(Evidence::Elsewhere);
        if fields.is_empty() && !is_replaced {
            let is_noted = is.is_none() || was == is;
            let why = if is_own {
                "notes the UID of its cluster"
            } else {
                TAKEN_OVER
            };
            return Ok((!is_own || !is_noted).then(|| self.note(wanted, why)));
        }
        if is_replaced {
            let uid = |of: Option<&str>| of.unwrap_or_default().to_owned();
            fields.push(SettingChange {
                field: "clusterUid",
                old: uid(was),
                new: uid(is),
            });
        }
        if !is_own && !self.loaded.consent.takes_over {
            let differ = fields.iter().map(|change| change.field);
            let differ = differ.collect::<Vec<_>>().join(", ");
            return Err(format!(
                "others have made the Link {name}, and it is not as the file says ({differ}); pass --take-over to change it"
            ));
        }
        let why = match (is_replaced, is_own) {
            (true, _) => "its cluster was built again",
            (_, true) => "other settings",
            (_, false) => "taken over, with other settings",
        };
        let change = self.change("patch", wanted, why, fields);
        Ok(Some(self.of_settings(change, Some(old), wanted)))
    }

    /// Writes a Link, with the label of the fleet.
    fn of_settings(&self, change: StepChange, old: Option<&Link>, wanted: &Link) -> LinkStep {
        let mut new = Box::new(wanted.clone());
        let label = (labels::FLEET.to_owned(), self.loaded.fleet.name.clone());
        new.labels_mut().extend([label]);
        if let Some(old) = old {
            keep_cluster_uid(old, &mut new);
        }
        let old = old.cloned().map(Box::new);
        LinkStep {
            change,
            action: Action::Link { old, new },
            part: StepPart::Link(self.link.ends.target.to_string()),
        }
    }

    /// Applies a Secret.
    fn apply(
        &self,
        verb: &'static str,
        wanted: &KubernetesSecret,
        why: &str,
        fields: Vec<SettingChange>,
    ) -> LinkStep {
        LinkStep {
            change: self.change(verb, wanted, why, fields),
            action: Action::Apply(self.labelled(wanted)),
            part: StepPart::Credentials(self.link.ends.target.to_string()),
        }
    }

    fn labelled(&self, wanted: &KubernetesSecret) -> Value {
        labelled(json!(wanted), &self.loaded.fleet.name)
    }

    fn change<K: Resource<DynamicType = ()>>(
        &self,
        verb: &'static str,
        wanted: &K,
        why: &str,
        fields: Vec<SettingChange>,
    ) -> StepChange {
        StepChange {
            verb,
            kind: K::kind(&()).into_owned(),
            namespace: wanted.namespace().unwrap_or_default(),
            name: wanted.name_any(),
            why: why.to_owned(),
            fields: self.fields(fields),
            removes: None,
            replaced_by: None,
        }
    }

    /// Notes to which fleet an object belongs that is as it should be, and which cluster it is for.
    fn note<K: Resource<DynamicType = ()>>(&self, wanted: &K, why: &str) -> LinkStep {
        let target = self.link.ends.target.to_string();
        let (kind, part) = match K::kind(&()).as_ref() {
            "Link" => (LINK, StepPart::Link(target)),
            _ => (SECRET, StepPart::Credentials(target)),
        };
        let object = kind.of_metadata(wanted.meta());
        LinkStep {
            change: self.change("patch", wanted, why, Vec::new()),
            action: note(object, &self.loaded.fleet.name, cluster_uid(wanted)),
            part,
        }
    }

    /// The changes, each with the place in the file that sets it.
    fn fields(&self, changes: Vec<SettingChange>) -> Vec<FieldChange> {
        let settings = self.loaded.fleet.links.get(&self.link.ends);
        let place = |key: &str| {
            let set = settings?.settings.values().find(|value| value.key == key)?;
            Some(set.place.to_string())
        };
        let changes = changes.into_iter();
        changes
            .map(|change| FieldChange::of(change, place))
            .collect()
    }

    /// Where the file names the link.
    fn places(&self) -> String {
        let link = self.loaded.fleet.links.get(&self.link.ends);
        link.map(places).unwrap_or_default()
    }
}
