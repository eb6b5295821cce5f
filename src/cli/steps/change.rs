//! What a step does, in words and numbers. Pure.

use serde::Serialize;

use super::settings::SettingChange;
use crate::{cli::common::linked::Losses, manifests::render::ObjectName};

/// One object that would be written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(in crate::cli) struct StepChange {
    /// `create`, `patch` or `delete`.
    pub(in crate::cli) verb: &'static str,
    pub(in crate::cli) kind: String,
    pub(in crate::cli) namespace: String,
    pub(in crate::cli) name: String,
    /// Why, in a few words.
    pub(in crate::cli) why: String,
    /// The settings that change.
    pub(in crate::cli) fields: Vec<FieldChange>,
    /// What the controller removes then, if this is the change or the deletion of a Link.
    pub(in crate::cli) removes: Option<Removes>,
    /// The new name of its cluster, if this is the deletion of a Link. The Link of this name has to be ready before.
    #[serde(rename = "replacedBy")]
    pub(in crate::cli) replaced_by: Option<String>,
}

/// What a change of a Link removes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(in crate::cli) enum Removes {
    Known(Losses),
    Unknown {
        /// Why it is not known.
        unknown: String,
    },
}

impl StepChange {
    /// Whether both are about the same object.
    pub(in crate::cli) fn is_same_object(&self, other: &Self) -> bool {
        let object = |of: &Self| (of.kind.clone(), of.namespace.clone(), of.name.clone());
        object(self) == object(other)
    }

    /// A change of an object without settings.
    pub(in crate::cli) fn of(verb: &'static str, object: &ObjectName, why: String) -> Self {
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
pub(in crate::cli) struct FieldChange {
    /// The key of the file, or the field of the Link if no key sets it.
    pub(in crate::cli) field: &'static str,
    pub(in crate::cli) before: String,
    pub(in crate::cli) after: String,
    /// The place in the file that says so, if one does.
    pub(in crate::cli) place: Option<String>,
}

impl FieldChange {
    /// A change as `link` finds it. `place` is that of a key.
    pub(in crate::cli) fn of(
        change: SettingChange,
        place: impl Fn(&str) -> Option<String>,
    ) -> Self {
        Self {
            place: place(change.field),
            field: change.field,
            before: change.old,
            after: change.new,
        }
    }
}
