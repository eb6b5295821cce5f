//! Looks up the keys of `install`'s values, and prints all of them with descriptions and kinds. `types.rs` defines them.

use std::sync::LazyLock;

use serde_json::Map;

use super::{
    kind::{Entry, Kind, Shape},
    types::Values,
};
use crate::manifests::yaml;

/// A key.
#[derive(Clone, Copy, Debug)]
pub(in crate::manifests) struct Key {
    /// Dotted path.
    pub(in crate::manifests) path: &'static str,
    /// Its type.
    pub(in crate::manifests) kind: Kind,
    /// Its description: a sentence without a period.
    pub(in crate::manifests) doc: &'static str,
}

/// Groups of keys, with their descriptions.
pub(in crate::manifests) static GROUPS: LazyLock<Vec<(&str, &str)>> = LazyLock::new(|| {
    let groups = entries(Values::ENTRIES).filter(|entry| matches!(entry.shape, Shape::Group(_)));
    groups.map(|entry| (entry.path, entry.doc)).collect()
});

/// All keys in the order of the output. Keys of a group are together.
pub(in crate::manifests) static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let key = |entry: &Entry| match entry.shape {
        Shape::Value(kind) => Some(Key {
            path: entry.path,
            kind,
            doc: entry.doc,
        }),
        Shape::Group(_) => None,
    };
    entries(Values::ENTRIES).filter_map(key).collect()
});

/// These entries, each with those of its group after it.
fn entries(of: &'static [Entry]) -> Box<dyn Iterator<Item = &'static Entry>> {
    Box::new(of.iter().flat_map(|entry| {
        let inner = match entry.shape {
            Shape::Group(inner) => inner,
            Shape::Value(_) => &[],
        };
        std::iter::once(entry).chain(entries(inner))
    }))
}

/// What is at a path.
pub(super) enum Found {
    /// A key.
    Key(Key),
    /// A group of keys.
    Group,
    /// Nothing.
    Nothing,
}

/// Looks a path up.
pub(super) fn find(path: &str) -> Found {
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Found::Key(*key);
    }
    if GROUPS.iter().any(|(group, _)| *group == path) {
        return Found::Group;
    }
    Found::Nothing
}

/// The key that is most similar to `path`.
pub(super) fn nearest(path: &str) -> Option<&'static str> {
    let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_lowercase();
    let by_path = KEYS
        .iter()
        .map(|key| (distance(path, key.path), key.path))
        .min()
        .filter(|(distance, _)| *distance <= 2.max(path.len() / 4))
        .map(|(_, path)| path);
    by_path.or_else(|| {
        KEYS.iter()
            .map(|key| (distance(&last(path), &last(key.path)), key.path))
            .min()
            .filter(|(distance, _)| *distance <= 2.min(last(path).len() / 4))
            .map(|(_, path)| path)
    })
}

/// The edit distance of two texts, ignoring case.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_lowercase(), b.to_lowercase());
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.chars().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

/// Commented out in the output, because a values file with it would override the cluster's own value.
const ASKED: &str = "identityTrustDomain";

const HEADER: &str = "\
# All values of `linkerd-mc install`, with the defaults as set by the other flags.
# Override them with --values FILE, or with --set key=value.
";

impl Values {
    /// All values as a commented values file.
    pub fn documented(&self) -> anyhow::Result<String> {
        documented(self, HEADER, |key| key.doc, &[ASKED])
    }
}

/// All keys as a values file, with description, type and value. The keys in `unset` are commented out.
pub(in crate::manifests) fn documented(
    values: &Values,
    header: &str,
    doc: impl Fn(&Key) -> &'static str,
    unset: &[&str],
) -> anyhow::Result<String> {
    let values = serde_json::to_value(values)?;
    let mut text = header.to_owned();
    let mut open: Vec<&str> = Vec::new();
    for key in KEYS.iter() {
        let segments: Vec<&str> = key.path.split('.').collect();
        let (name, groups) = segments
            .split_last()
            .map_or(("", &[][..]), |(last, rest)| (*last, rest));
        let common = open.iter().zip(groups).take_while(|(a, b)| a == b).count();
        open.truncate(common);
        for group in &groups[common..] {
            open.push(group);
            let path = open.join(".");
            let doc = GROUPS
                .iter()
                .find(|(group, _)| *group == path)
                .map_or("", |(_, doc)| doc);
            let indent = "  ".repeat(open.len() - 1);
            text.extend(["\n", &indent, "# ", doc, ".\n", &indent, group, ":\n"]);
        }
        let indent = "  ".repeat(open.len());
        let mut one = Map::new();
        let default = values.pointer(&format!("/{}", key.path.replace('.', "/")));
        one.insert(name.to_owned(), default.cloned().unwrap_or_default());
        if open.is_empty() {
            text.push('\n');
        }
        text.extend([
            &indent,
            "# ",
            doc(key),
            ". Value: ",
            &key.kind.expected(),
            ".\n",
        ]);
        let comment = if unset.contains(&key.path) { "# " } else { "" };
        for line in yaml::to_yaml(&one)?.lines() {
            text.extend([&indent, comment, line, "\n"]);
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_key_is_there_once_and_its_default_fits() {
        let values = serde_json::to_value(Values::default()).unwrap();
        let paths: BTreeSet<_> = KEYS.iter().map(|key| key.path).collect();
        assert_eq!(paths.len(), KEYS.len());
        for key in KEYS.iter() {
            let pointer = format!("/{}", key.path.replace('.', "/"));
            // A prefix that is not the path of its group would lead nowhere.
            let default = values.pointer(&pointer).expect(key.path);
            if !default.is_null() {
                assert_eq!(key.kind.check(default), Ok(()), "{}", key.path);
            }
        }
    }

    #[test]
    fn the_documented_values_are_the_defaults() {
        let text = Values::default().documented().unwrap();
        let mut given = super::super::UserValues::default();
        given.add_file("values.yaml", &text).unwrap();
        let base = Values {
            identity_trust_domain: "trust.example".into(),
            ..Values::default()
        };
        // Values that were read from the cluster are not overridden.
        assert_eq!(given.over(&base).unwrap(), (base, vec![]));
        insta::assert_snapshot!(text.replace(super::super::VERSION, "VERSION"));
    }

    #[test]
    fn misspelled_key_suggests_the_nearest_one() {
        for (typed, meant) in [
            ("gateway.prot", Some("gateway.port")),
            ("gatway.port", Some("gateway.port")),
            ("gateway.servicetype", Some("gateway.serviceType")),
            ("controller.replica", Some("controller.replicas")),
            ("commonLables", Some("commonLabels")),
            ("probe.seconds", Some("gateway.probe.seconds")),
            ("logLevel", Some("controller.logLevel")),
            ("somethingElse", None),
            ("x", None),
        ] {
            assert_eq!(nearest(typed), meant, "{typed}");
        }
    }
}
