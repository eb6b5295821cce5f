//! What a plan of a fleet would write in one cluster. Pure.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    api::{labels, link::Link},
    cli::{
        common::{inventory::ListedObject, linked::Losses},
        link::changes::SettingChange,
    },
    manifests::render::ObjectName,
};

/// Why a Secret is written that leads to another API server or has another token.
pub(super) const NEW_CREDENTIALS: &str = "new credentials";

/// One object that would be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FleetChange {
    /// `create`, `patch` or `delete`.
    pub(super) verb: &'static str,
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Why, in a few words.
    pub(super) why: String,
    /// The settings that change.
    pub(super) fields: Vec<FieldChange>,
    /// What the controller removes then, if this is the change or the deletion of a Link.
    pub(super) removes: Option<Removes>,
    /// The new name of its cluster, if this is the deletion of a Link. The Link of this name has to be ready before.
    #[serde(rename = "replacedBy")]
    pub(super) replaced_by: Option<String>,
    /// What is deleted, if this is a deletion.
    #[serde(skip)]
    pub(super) deletion: Option<Deletion>,
    /// Whether only labels and annotations change, which say to whom the object belongs.
    #[serde(skip)]
    pub(super) is_note: bool,
}

/// What a change of a Link removes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(super) enum Removes {
    Known(Losses),
    Unknown {
        /// Why it is not known.
        unknown: String,
    },
}

impl FleetChange {
    /// A change of an object without settings.
    pub(super) fn of(verb: &'static str, object: &ObjectName, why: String) -> Self {
        Self {
            verb,
            kind: object.kind.clone(),
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone(),
            why,
            fields: Vec::new(),
            removes: None,
            replaced_by: None,
            deletion: None,
            is_note: false,
        }
    }
}

/// An object that is deleted, if it is still the one that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Deletion {
    pub(super) object: ListedObject,
    pub(super) part: DeletedPart,
}

/// What the deleted object is a part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeletedPart {
    /// It is the Link to this target cluster.
    Link(String),
    /// It has credentials for this target cluster.
    Credentials(String),
    /// It belongs to the account of this source cluster.
    Account(String),
}

/// An object that has to be written, and how.
pub(super) struct PlannedWrite {
    pub(super) change: FleetChange,
    pub(super) action: WriteAction,
}

/// How an object is written. No `Debug`: it may hold credentials.
pub(super) enum WriteAction {
    /// It is applied, as `kubectl apply --server-side` does.
    Apply(Value),
    /// The Link is created, or the settings of the old one are replaced.
    Link {
        old: Option<Box<Link>>,
        new: Box<Link>,
    },
    /// It only gets the label of the fleet, and the UID of its cluster if that is known.
    Note { uid: Option<String> },
}

impl WriteAction {
    /// Applies an object, with the label of the fleet.
    pub(super) fn apply(object: Value, fleet: &str) -> Self {
        Self::Apply(labelled(object, fleet))
    }
}

/// An object with the label of a fleet.
pub(super) fn labelled(mut object: Value, fleet: &str) -> Value {
    object["metadata"]["labels"][labels::FLEET] = json!(fleet);
    object
}

/// A setting that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FieldChange {
    /// The key of the file, or the field of the Link if no key sets it.
    pub(super) field: String,
    pub(super) before: String,
    pub(super) after: String,
    /// The place in the file that says so, if one does.
    pub(super) place: Option<String>,
}

impl FieldChange {
    /// A change as `link` finds it. `place` is that of a key.
    pub(super) fn of(change: SettingChange, place: impl Fn(&str) -> Option<String>) -> Self {
        let field = key_of(change.field);
        Self {
            place: place(&field),
            field,
            before: change.old,
            after: change.new,
        }
    }
}

/// The key of the file that sets a field of a Link, or an annotation.
fn key_of(field: &str) -> String {
    match field {
        "headless-services" => return "enableHeadlessServices".to_owned(),
        "api-server-through" => return "apiServerThroughGateway".to_owned(),
        _ => {}
    }
    let mut words = field.split('-');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |key, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        format!("{key}{}{tail}", head.to_uppercase())
    })
}
