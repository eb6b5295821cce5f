//! Looks up the keys of `install`'s values, and prints all of them with descriptions and kinds. `types.rs` defines them.

use std::collections::BTreeMap;

use hints::suggest::closest;

use super::{
    kind::{Entry, Kind, Shape},
    types::Values,
};
use crate::yaml;

/// All keys and groups in the order of the output: each group before its keys.
pub fn entries() -> Box<dyn Iterator<Item = &'static Entry>> {
    fn with_inner(of: &'static [Entry]) -> Box<dyn Iterator<Item = &'static Entry>> {
        Box::new(of.iter().flat_map(|entry| {
            let inner = match entry.shape {
                Shape::Group(inner) => inner,
                Shape::Value(_) => &[],
            };
            std::iter::once(entry).chain(with_inner(inner))
        }))
    }
    with_inner(Values::ENTRIES)
}

/// All keys, each with its kind.
pub fn keys() -> impl Iterator<Item = (&'static Entry, Kind)> {
    entries().filter_map(|entry| match entry.shape {
        Shape::Value(kind) => Some((entry, kind)),
        Shape::Group(_) => None,
    })
}

/// What is at a path, if anything is.
pub fn find(path: &str) -> Option<Shape> {
    let found = entries().find(|entry| entry.path == path);
    found.map(|entry| entry.shape)
}

/// The key that is most similar to `path`. If all differ too much, the one whose last part is most similar, if any is.
pub fn nearest(path: &str) -> Option<&'static str> {
    let last = |path: &'static str| path.rsplit('.').next().unwrap_or_default();
    let by_path = keys().map(|(key, _)| (key.path, key.path));
    let by_path = closest(path, by_path, 2.max(path.len() / 4));
    by_path.or_else(|| {
        let own = path.rsplit('.').next().unwrap_or_default();
        let all = keys().map(|(key, _)| (last(key.path), key.path));
        closest(own, all, 2.min(own.len() / 4))
    })
}

/// Commented out in the output, unless they are set: a values file with them would override the cluster's own value, and
/// the version of a later program.
const FOUND_OUT: [&str; 3] = [
    "identityTrustDomain",
    "clusterDomain",
    "controller.image.version",
];

const HEADER: &str = "\
# All values of `linkerd-mc install`. Change them, and pass this file with --values FILE.
# Three are commented out, because `install` finds them: both domains in the cluster, and the version of the image,
# which is that of the program.
";

impl Values {
    /// All values as a commented values file.
    pub fn documented(&self) -> anyhow::Result<String> {
        let (own, default) = (
            serde_json::to_value(self)?,
            serde_json::to_value(Self::default())?,
        );
        let is_default = |path: &&str| {
            let pointer = format!("/{}", path.replace('.', "/"));
            own.pointer(&pointer) == default.pointer(&pointer)
        };
        let unset: Vec<&str> = FOUND_OUT.into_iter().filter(is_default).collect();
        documented(self, HEADER, |doc| doc, &unset)
    }
}

/// All keys as a values file, with description, type and value. `doc` may shorten the description of a key. The keys in
/// `unset` are commented out.
pub fn documented(
    values: &Values,
    header: &str,
    doc: impl Fn(&'static str) -> &'static str,
    unset: &[&str],
) -> anyhow::Result<String> {
    let values = serde_json::to_value(values)?;
    let mut text = header.to_owned();
    for entry in entries() {
        let (groups, name) = entry.path.rsplit_once('.').unwrap_or(("", entry.path));
        let indent = "  ".repeat(entry.path.matches('.').count());
        let kind = match entry.shape {
            Shape::Group(_) => {
                text.extend(["\n", &indent, "# ", entry.doc, ".\n", &indent, name, ":\n"]);
                continue;
            }
            Shape::Value(kind) => kind,
        };
        if groups.is_empty() {
            text.push('\n');
        }
        let (doc, expected) = (doc(entry.doc), kind.expected());
        text.extend([&indent, "# ", doc, ". Value: ", &expected, ".\n"]);
        let comment = if unset.contains(&entry.path) {
            "# "
        } else {
            ""
        };
        let default = values.pointer(&entry.pointer());
        for line in yaml::to_yaml(&BTreeMap::from([(name, default)]))?.lines() {
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
        let paths: BTreeSet<_> = keys().map(|(key, _)| key.path).collect();
        assert_eq!(paths.len(), keys().count());
        for (key, kind) in keys() {
            // A prefix that is not the path of its group would lead nowhere.
            let default = values.pointer(&key.pointer()).expect(key.path);
            if !default.is_null() {
                assert_eq!(kind.check(default), Ok(()), "{}", key.path);
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
