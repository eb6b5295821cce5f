//! The record of copied keys: an annotation of each Service that says which labels and annotations we copied to it.
//!
//! A key that is not copied any more is removed from the Service. Without a record, keys that other people have added
//! would look the same.

use super::desired::DesiredEntries;
use crate::api::{labels as l, map::Map};

/// Between the labels and the annotations. No key has it, nor a comma.
const BETWEEN: char = ';';

/// The labels and annotations that were copied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopiedKeys<'a> {
    labels: &'a str,
    annotations: &'a str,
}

impl<'a> CopiedKeys<'a> {
    /// The record in these annotations, if there is one that can be read.
    pub(crate) fn read(annotations: &'a Map) -> Option<Self> {
        annotations.get(l::COPIED_KEYS).and_then(Self::parse)
    }

    /// The record in these desired annotations.
    pub(crate) fn desired(annotations: &'a DesiredEntries<'_>) -> Option<Self> {
        annotations.get(l::COPIED_KEYS).and_then(Self::parse)
    }

    fn parse(text: &'a str) -> Option<Self> {
        let (labels, annotations) = text.split_once(BETWEEN)?;
        Some(Self {
            labels,
            annotations,
        })
    }

    pub(crate) fn has_label(self, key: &str) -> bool {
        has(self.labels, key)
    }

    pub(crate) fn has_annotation(self, key: &str) -> bool {
        has(self.annotations, key)
    }

    /// The keys of the annotations.
    pub(crate) fn annotations(self) -> impl Iterator<Item = &'a str> {
        let keys = self.annotations.split(',');
        keys.filter(|key| !key.is_empty())
    }
}

fn has(list: &str, key: &str) -> bool {
    list.split(',').any(|listed| listed == key)
}

/// The record for an object with these labels and annotations.
pub(crate) fn record(labels: &DesiredEntries<'_>, annotations: &DesiredEntries<'_>) -> String {
    let mut text = String::new();
    list(labels, &mut text);
    text.push(BETWEEN);
    list(annotations, &mut text);
    text
}

fn list(entries: &DesiredEntries<'_>, text: &mut String) {
    let mut separator = "";
    for (key, _) in entries
        .iter()
        .filter(|(key, _)| !l::is_of_service_mirrors(key))
    {
        text.push_str(separator);
        text.push_str(key);
        separator = ",";
    }
}
