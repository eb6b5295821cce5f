//! What a step does, in words and numbers. Pure.

use manifests::render::ObjectName;
use serde::Serialize;

use crate::{linked::Losses, steps::settings::SettingChange};

/// One object that would be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepChange {
    /// `create`, `patch` or `delete`.
    pub verb: &'static str,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// Why, in a few words.
    pub why: String,
    /// The settings that change.
    pub fields: Vec<FieldChange>,
    /// What the controller removes then, if this is the change or the deletion of a Link.
    pub removes: Option<Removes>,
    /// The new name of its cluster, if this is the deletion of a Link. The Link of this name has to be ready before.
    #[serde(rename = "replacedBy")]
    pub replaced_by: Option<String>,
}

/// What a change of a Link removes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Removes {
    Known(Losses),
    Unknown {
        /// Why it is not known.
        unknown: String,
    },
}

impl StepChange {
    /// Whether both are about the same object.
    pub fn is_same_object(&self, other: &Self) -> bool {
        let object = |of: &Self| (of.kind.clone(), of.namespace.clone(), of.name.clone());
        object(self) == object(other)
    }

    /// A change of an object without settings.
    pub fn of(verb: &'static str, object: &ObjectName, why: String) -> Self {
        Self {
            verb,
            kind: object.kind.clone(),
            namespace: object.namespace.clone().unwrap_or_default(),
            name: object.name.clone(),
            why,
            fields: Vec::new(),
            removes: None,
            replaced_by: None,
        }
    }
}

/// A setting that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FieldChange {
    /// The key of the file, or the field of the Link if no key sets it.
    pub field: &'static str,
    pub before: String,
    pub after: String,
    /// The place in the file that says so, if one does.
    pub place: Option<String>,
}

impl FieldChange {
    /// A change as `link` finds it. `place` is that of a key.
    pub fn of(change: SettingChange, place: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            place: place(change.field),
            field: change.field,
            before: change.old,
            after: change.new,
        }
    }
}
