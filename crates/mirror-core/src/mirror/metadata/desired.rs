//! Desired labels or annotations, and whether an object has them. Every plan builds and compares them, so both take few
//! allocations and one pass.
//!
//! And the record of copied keys: an annotation of each Service that says which labels and annotations we copied to it. A
//! key that is no longer copied is removed from the Service. Without a record, keys that other people have added would
//! look the same.

use std::{borrow::Cow, cmp::Ordering, ops::Index};

use crate::api::{labels as l, map::Map};

/// Keys and values, sorted by key. Borrowed where they can be: most plans find that nothing has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DesiredEntries<'a>(Vec<(&'a str, Cow<'a, str>)>);

/// Spare capacity, for the keys that are added to copied ones.
const ROOM: usize = 8;

impl<'a> DesiredEntries<'a> {
    /// Copies all keys that are not excluded.
    pub(crate) fn copy(from: &'a Map, excluded: impl Fn(&str) -> bool) -> Self {
        let mut wanted = Vec::with_capacity(from.len() + ROOM);
        let copied = from
            .iter()
            .filter(|(key, _)| !excluded(key))
            .map(|(key, value)| (key, value.into()));
        wanted.extend(copied);
        Self(wanted)
    }

    /// Those whose keys are wanted.
    pub(crate) fn only(&self, wanted: impl Fn(&str) -> bool) -> Self {
        let mut kept = Vec::with_capacity(self.0.len() + ROOM);
        kept.extend(self.0.iter().filter(|(key, _)| wanted(key)).cloned());
        Self(kept)
    }

    /// Adds a key, or replaces its value.
    pub(crate) fn insert(&mut self, key: &'a str, value: Cow<'a, str>) {
        match self.find(key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    /// Removes a key, if it exists.
    pub(crate) fn remove(&mut self, key: &str) {
        if let Ok(at) = self.find(key) {
            self.0.remove(at);
        }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.find(key).ok().map(|at| self.0[at].1.as_ref())
    }

    /// Keys and values, by key.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'a str, &str)> {
        self.0.iter().map(|(key, value)| (*key, value.as_ref()))
    }

    /// As the map of a Kubernetes object.
    pub(crate) fn to_map(&self) -> Map {
        self.iter().collect()
    }

    /// Whether `actual` has all of these. Keys that others have added do not matter, except those that say what an
    /// object is. The remote resource version may be older, and the record of copied keys may be missing.
    pub(crate) fn holds(&self, actual: &Map) -> bool {
        let mut actual = actual.iter().peekable();
        let mut wanted = self.iter().peekable();
        loop {
            let order = match (wanted.peek(), actual.peek()) {
                (None, None) => return true,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((wanted, _)), Some((found, _))) => (*wanted).cmp(found),
            };
            let missing = (order != Ordering::Greater)
                .then(|| wanted.next())
                .flatten();
            let extra = (order != Ordering::Less).then(|| actual.next()).flatten();
            let well = match (missing, extra) {
                (Some((key, value)), found) => {
                    key == l::REMOTE_RESOURCE_VERSION
                        || found.map_or(key == l::COPIED_KEYS, |(_, found)| found == value)
                }
                (None, Some((key, _))) => !l::is_of_service_mirrors(key),
                (None, None) => true,
            };
            if !well {
                return false;
            }
        }
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| (*own).cmp(key))
    }
}

impl<'a> Extend<(&'a str, Cow<'a, str>)> for DesiredEntries<'a> {
    fn extend<I: IntoIterator<Item = (&'a str, Cow<'a, str>)>>(&mut self, pairs: I) {
        for (key, value) in pairs {
            self.insert(key, value);
        }
    }
}

impl<'a> IntoIterator for DesiredEntries<'a> {
    type Item = (&'a str, Cow<'a, str>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, const N: usize> From<[(&'a str, Cow<'a, str>); N]> for DesiredEntries<'a> {
    fn from(pairs: [(&'a str, Cow<'a, str>); N]) -> Self {
        let mut wanted = Self(Vec::with_capacity(N + ROOM));
        wanted.extend(pairs);
        wanted
    }
}

impl Index<&str> for DesiredEntries<'_> {
    type Output = str;

    fn index(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }
}

/// Between the labels and the annotations. No key has it, nor a comma.
const BETWEEN: char = ';';

/// The record for an object to which nothing is copied.
pub(crate) const NOTHING_COPIED: &str = ";";

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
pub(crate) fn copied_keys(labels: &DesiredEntries<'_>, annotations: &DesiredEntries<'_>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn map(pairs: Pairs) -> Map {
        pairs.iter().copied().collect()
    }

    #[test]
    fn existing_keys_are_compared_with_desired_ones() {
        let wanted = DesiredEntries::from([
            ("b", "1".into()),
            (l::REMOTE_RESOURCE_VERSION, "7".into()),
            ("d", "2".into()),
        ]);
        let cases: [(Pairs, bool, &str); 8] = [
            (
                &[("b", "1"), ("d", "2"), (l::REMOTE_RESOURCE_VERSION, "7")],
                true,
                "the same",
            ),
            (&[("b", "1"), ("d", "2")], true, "no version"),
            (
                &[("b", "1"), ("d", "2"), (l::REMOTE_RESOURCE_VERSION, "5")],
                true,
                "an old version",
            ),
            (
                &[("a", "x"), ("b", "1"), ("c", "x"), ("d", "2"), ("e", "x")],
                true,
                "others' keys",
            ),
            (&[("b", "1"), ("d", "x")], false, "another value"),
            (&[("d", "2")], false, "the first is missing"),
            (&[("b", "1")], false, "the last is missing"),
            (
                &[("b", "1"), ("d", "2"), (l::REMOTE_SERVICE, "x")],
                false,
                "a key that says what it is",
            ),
        ];
        for (actual, expected, what) in cases {
            assert_eq!(wanted.holds(&map(actual)), expected, "{what}");
        }
        assert!(!wanted.holds(&Map::default()));
        assert!(DesiredEntries::default().holds(&Map::default()));
    }

    #[test]
    fn keys_are_unique_and_sorted_in_any_order_of_insertion() {
        let from = map(&[("a", "1"), ("c", "3")]);
        let mut wanted = DesiredEntries::copy(&from, |key| key == "c");
        wanted.extend([("z", "9".into()), ("b", "2".into()), ("a", "0".into())]);
        assert_eq!(wanted.to_map(), map(&[("a", "0"), ("b", "2"), ("z", "9")]));
        wanted.remove("b");
        wanted.remove("b");
        assert_eq!((wanted.get("b"), wanted.get("z")), (None, Some("9")));
    }

    #[test]
    fn the_record_of_copied_keys_is_read_as_it_was_written() {
        let labels: Pairs = &[("team", "a"), (l::CLUSTER_NAME, "east")];
        let annotations: Pairs = &[("note", "x"), (l::REMOTE_FQ_NAME, "x"), ("contact", "y")];
        let copied = (&["team"][..], &["contact", "note"][..]);
        for (labels, annotations, copied) in [
            (labels, annotations, copied),
            (labels, &[], (copied.0, &[])),
            (&[], annotations, (&[], copied.1)),
            (&[], &[], (&[], &[])),
        ] {
            let [labels, annotations] = [labels, annotations].map(map);
            let all = |map| DesiredEntries::copy(map, |_| false);
            let record = copied_keys(&all(&labels), &all(&annotations));
            let stored = map(&[(l::COPIED_KEYS, &record)]);
            let read = CopiedKeys::read(&stored).unwrap();
            for key in [
                "team",
                "note",
                "contact",
                l::CLUSTER_NAME,
                l::REMOTE_FQ_NAME,
            ] {
                let found = (read.has_label(key), read.has_annotation(key));
                let expected = (copied.0.contains(&key), copied.1.contains(&key));
                assert_eq!(found, expected, "{record}: {key}");
            }
            assert_eq!(read.annotations().collect::<Vec<_>>(), copied.1, "{record}");
        }
    }
}
