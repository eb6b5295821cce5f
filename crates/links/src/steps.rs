//! A change of links as steps. What a plan, a dry run or a question shows are the steps, and what runs are the same ones.

mod change;
mod link;
mod secret;
mod settings;

use client::Cluster;
use manifests::render::ObjectName;
use mirror_core::api::{labels, link::Link};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::inventory::{self, ListedObject};
pub use crate::steps::{
    change::{FieldChange, Removes, StepChange},
    secret::has_metadata_of,
    settings::{SettingChange, TOKEN, credentials_changes, revoked, settings_changes},
};

/// One object that is written or deleted.
pub struct LinkStep {
    /// What is shown.
    pub change: StepChange,
    /// What is done.
    pub action: Action,
    /// What the object is a part of.
    pub part: StepPart,
}

/// How an object is written or deleted. No `Debug`: it may hold credentials.
pub enum Action {
    /// It is applied, as `kubectl apply --server-side` does.
    Apply(Value),
    /// Credentials or domains are replaced. Linkerd, which reads its Secret once, has the old ones until it restarts.
    Renew(Value),
    /// The Link is created, or the settings of the old one are replaced.
    Link {
        old: Option<Box<Link>>,
        new: Box<Link>,
    },
    /// It only gets labels and annotations, which say to whom it belongs.
    Note { object: ObjectName, patch: Value },
    /// It is deleted, if it is still the one that was read.
    Delete(ListedObject),
}

/// What an object is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepPart {
    /// It is the Link to this target cluster.
    Link(String),
    /// It has credentials for this target cluster.
    Credentials(String),
    /// It belongs to the account of this source cluster, as the file calls it. The account may have its name from before.
    Account(String),
    /// It belongs to the account that this source cluster had in another namespace, and goes with it.
    Former(String),
}

impl StepPart {
    /// The target cluster of its link, if it is in the source cluster.
    pub fn target(&self) -> Option<&str> {
        match self {
            Self::Link(target) | Self::Credentials(target) => Some(target),
            Self::Account(_) | Self::Former(_) => None,
        }
    }
}

impl std::fmt::Debug for LinkStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.change.fmt(f)
    }
}

/// As it is shown.
impl Serialize for LinkStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.change.serialize(serializer)
    }
}

impl LinkStep {
    /// Whether only labels and annotations change, which say to whom the object belongs.
    pub fn is_note(&self) -> bool {
        matches!(self.action, Action::Note { .. })
    }

    /// What is deleted, if this is a deletion.
    pub fn deleted(&self) -> Option<&ListedObject> {
        match &self.action {
            Action::Delete(object) => Some(object),
            _ => None,
        }
    }

    /// Whether a Link is deleted.
    pub fn unlinks(&self) -> bool {
        self.deleted().is_some() && matches!(self.part, StepPart::Link(_))
    }

    /// Does it. Fails if the object is not as it was when the step was planned, or not as announced afterwards.
    pub async fn run(&self, cluster: &Cluster) -> anyhow::Result<()> {
        let stored = self.write(cluster).await?;
        self.check(stored.as_ref())
    }

    /// Does it, and returns a Link that was written as it is stored. Fails if the object is not as it was when the step was
    /// planned.
    pub async fn write(&self, cluster: &Cluster) -> anyhow::Result<Option<Link>> {
        match &self.action {
            Action::Apply(object) | Action::Renew(object) => {
                inventory::apply(cluster, object).await?;
            }
            Action::Link { old, new } => {
                return link::write(cluster, old.as_deref(), new).await.map(Some);
            }
            Action::Note { object, patch } => inventory::merge(cluster, object, patch).await?,
            Action::Delete(object) => object.delete(cluster).await?,
        }
        Ok(None)
    }

    /// Fails if the API server has stored another Link than the announced one.
    pub fn check(&self, stored: Option<&Link>) -> anyhow::Result<()> {
        match (&self.action, stored) {
            (Action::Link { new, .. }, Some(stored)) => settings::check_stored(stored, new),
            _ => Ok(()),
        }
    }
}

/// Gives an object the labels and annotations of one of a fleet.
pub fn note(object: ObjectName, fleet: &str, uid: Option<&str>) -> Action {
    let mut patch = json!({ "metadata": { "labels": { labels::FLEET: fleet } } });
    if let Some(uid) = uid {
        patch["metadata"]["annotations"] = json!({ labels::CLUSTER_UID: uid });
    }
    Action::Note { object, patch }
}

/// An object with the label of a fleet.
pub fn labelled(mut object: Value, fleet: &str) -> Value {
    object["metadata"]["labels"][labels::FLEET] = json!(fleet);
    object
}
