//! Merges the user's values from files and flags over other values, and validates them.
//!
//! As in Helm, files come first, in order, then `--set`, then `--set-string`, then `--set-file`. Later values override
//! earlier ones: maps are merged, lists are replaced, and null removes what was set before. Unlike in Helm, the default
//! then applies again, if there is one.

use anyhow::Context as _;
use hints::hint::{HintExt as _, fail};
use serde_json::{Map, Value};

use super::{
    kind::Shape,
    obsolete::translate,
    schema::{find, nearest},
    set::{Assignment, Path, Typing, assign, parse},
    types::Values,
};
use crate::{
    located::{Located, YamlContent},
    yaml,
};

/// The user's values.
#[derive(Clone, Debug)]
pub struct UserValues {
    tree: Value,
    /// The origin of each value, in the order in which they were given: a file or a flag.
    origins: Vec<(Path, String)>,
}

impl Default for UserValues {
    fn default() -> Self {
        Self {
            tree: Value::Object(Map::new()),
            origins: Vec::new(),
        }
    }
}

impl UserValues {
    /// Adds a values file; messages call it `name`.
    pub fn add_file(&mut self, name: &str, text: &str) -> anyhow::Result<()> {
        let hint = || {
            "a values file must be a YAML map, like the output of `linkerd-mc install --print-values`".to_owned()
        };
        let what = || format!("cannot use the values file {name}");
        let values: Value = yaml::from_yaml::<Option<Value>>(text)
            .hint(what, hint)?
            .unwrap_or_else(|| Value::Object(Map::new()));
        anyhow::ensure!(
            values.is_object(),
            fail(format!("{}: it is not a map", what()), hint())
        );
        remember(&mut self.origins, &Path::default(), &values, name);
        overlay(&mut self.tree, values);
        Ok(())
    }

    /// Adds a map in a file for something else; messages name the file, and the line of each value.
    pub fn add_located(&mut self, file: &str, map: &Located) {
        remember_lines(&mut self.origins, &Path::default(), map, file);
        overlay(&mut self.tree, map.value());
    }

    /// Adds the argument of a flag such as `--set`.
    pub fn add_set(&mut self, flag: &str, text: &str, typing: Typing) -> anyhow::Result<()> {
        for Assignment { path, value } in assignments(flag, text, typing)? {
            self.add(path, value, format!("{flag} {text}"));
        }
        Ok(())
    }

    /// Adds the argument of `--set-file`: values are names of files, which `read` reads.
    pub fn add_set_file(
        &mut self,
        text: &str,
        read: impl Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<()> {
        for Assignment { path, value } in assignments("--set-file", text, Typing::Text)? {
            let contents = read(value.as_str().unwrap_or_default())?;
            self.add(path, Value::String(contents), format!("--set-file {text}"));
        }
        Ok(())
    }

    fn add(&mut self, path: Path, value: Value, origin: String) {
        assign(&mut self.tree, &path, value);
        self.origins.push((path, origin));
    }

    /// Merges these values over `base`. Returns them with a warning for each obsolete key.
    ///
    /// Fails at the first unknown key or invalid value.
    pub fn over(mut self, base: &Values) -> anyhow::Result<(Values, Vec<String>)> {
        let origins = self.origins.clone();
        let (warnings, moves) = translate(&mut self.tree, |path| origin(&origins, path));
        for (from, to) in moves {
            let origin = origin(&self.origins, &from);
            self.origins.push((to, format!("{origin}, as {from}")));
        }
        self.check(&Path::default(), &self.tree)?;
        let mut merged = serde_json::to_value(base).context("failed to serialize the values")?;
        overlay(&mut merged, self.tree);
        let mut values =
            serde_json::to_value(Values::default()).context("failed to serialize the values")?;
        overlay_known(&mut values, merged);
        let values = serde_json::from_value(values).context("failed to combine the values")?;
        Ok((values, warnings))
    }

    fn check(&self, path: &Path, value: &Value) -> anyhow::Result<()> {
        let dotted = path.to_string();
        let shape = if dotted.is_empty() {
            Some(Shape::Group(Values::ENTRIES))
        } else {
            find(&dotted)
        };
        match (shape, value) {
            (Some(Shape::Group(_)), Value::Object(map)) => map
                .iter()
                .try_for_each(|(key, value)| self.check(&path.key(key), value)),
            (Some(_), Value::Null) => Ok(()),
            (Some(Shape::Group(_)), other) => Err(fail(
                format!("the value {dotted} ({}) must be a map, not {}", self.origin(path), shown(other)),
                format!("set the keys below it, such as {dotted}.…; `linkerd-mc install --print-values` lists all"),
            )),
            (Some(Shape::Value(kind)), value) => kind.check(value).or_else(|why| {
                let what = format!(
                    "the value {dotted} ({}) must be {}, not {}",
                    self.origin(path),
                    kind.expected(),
                    shown(value)
                );
                // What a text would be without quotes.
                let typed = value.as_str().and_then(|text| serde_json::from_str(text).ok());
                let hint = || match value {
                    Value::Number(_) | Value::Bool(_)
                        if kind.check(&Value::String(value.to_string())).is_ok() =>
                    {
                        "for text that looks like a number or boolean, use --set-string, or quotes in a file".to_owned()
                    }
                    _ if typed.is_some_and(|typed| kind.check(&typed).is_ok()) => {
                        "use --set instead of --set-string, or leave out the quotes in a file".to_owned()
                    }
                    _ => "`linkerd-mc install --print-values` describes all keys".to_owned(),
                };
                if why.is_empty() {
                    Err(fail(what, hint()))
                } else {
                    Err(anyhow::Error::msg(why)).hint(|| what, hint)
                }
            }),
            (None, _) => Err(fail(
                format!("unknown value {dotted} ({})", self.origin(path)),
                nearest(&dotted).map_or_else(
                    || "`linkerd-mc install --print-values` lists all".to_owned(),
                    |key| format!("did you mean {key}? `linkerd-mc install --print-values` lists all"),
                ),
            )),
        }
    }

    fn origin(&self, path: &Path) -> String {
        origin(&self.origins, path)
    }
}

fn assignments(flag: &str, text: &str, typing: Typing) -> anyhow::Result<Vec<Assignment>> {
    parse(text, typing).hint(
        || format!("invalid {flag} {text}"),
        || "use key=value,other.key=value,list={a,b},list[0]=value; escape commas, dots and braces with a backslash".into(),
    )
}

fn remember_lines(origins: &mut Vec<(Path, String)>, path: &Path, node: &Located, file: &str) {
    match &node.content {
        YamlContent::Map(entries) => {
            for (key, value) in entries {
                remember_lines(origins, &path.key(&key.key()), value, file);
            }
        }
        _ => origins.push((path.clone(), format!("{file}, line {}", node.line))),
    }
}

/// The last origin of the value at `path`.
fn origin(origins: &[(Path, String)], path: &Path) -> String {
    origins
        .iter()
        .rev()
        .find(|(set, _)| set.overlaps(path))
        .map_or_else(String::new, |(_, origin)| origin.clone())
}

fn remember(origins: &mut Vec<(Path, String)>, path: &Path, value: &Value, name: &str) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                remember(origins, &path.key(key), value, name);
            }
        }
        _ if path.0.is_empty() => (),
        _ => origins.push((path.clone(), name.to_owned())),
    }
}

/// A value for messages: short, and on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "a map".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Null => "null".to_owned(),
        scalar => {
            let text = scalar.to_string();
            match text.char_indices().nth(60) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        }
    }
}

/// Merges `above` over `below`: maps are merged, other values are replaced. Nulls are kept, to remove values further
/// below.
fn overlay(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                overlay(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

/// Like [`overlay`], for the last step: null leaves the default, if there is one.
fn overlay_known(below: &mut Value, above: Value) {
    match (below, above) {
        (_, Value::Null) => (),
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                match below.get_mut(&key) {
                    Some(below) => overlay_known(below, value),
                    None if value.is_null() => (),
                    None => {
                        below.insert(key, without_nulls(value));
                    }
                }
            }
        }
        (below, above) => *below = without_nulls(above),
    }
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => map
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use hints::hint::hint_of;

    use super::*;

    /// Flags and files in the order in which a test gives them.
    fn given(all: &[(&str, &str)]) -> anyhow::Result<(Values, Vec<String>)> {
        let mut base = Values::default();
        base.gateway.port = 5000;
        let mut values = UserValues::default();
        for (flag, text) in all {
            match *flag {
                "--set" => values.add_set(flag, text, Typing::Infer)?,
                "--set-string" => values.add_set(flag, text, Typing::Text)?,
                "--set-file" => {
                    values.add_set_file(text, |name| Ok(format!("contents of {name}")))?;
                }
                name => values.add_file(name, text)?,
            }
        }
        values.over(&base)
    }

    #[test]
    fn later_values_win_and_maps_are_merged() {
        let (values, warnings) = given(&[
            ("a.yaml", "gateway: {nodeSelector: {a: '1', b: '2'}, loadBalancerSourceRanges: [x, y], replicas: 2}"),
            ("b.yaml", "gateway: {nodeSelector: {b: '3'}, loadBalancerSourceRanges: [z]}"),
            ("empty.yaml", "# nothing\n"),
            ("--set", "gateway.nodeSelector.c=d,gateway.replicas=3"),
            ("--set-string", "podLabels.on=true"),
            ("--set-file", "podAnnotations.note=note.txt"),
            ("--set", "remoteMirrorServiceAccountName={one,,two}"),
            ("--set", "controller.resources.limits.cpu=1"),
        ])
        .unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let pairs = |map: &std::collections::BTreeMap<String, String>| {
            map.iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(pairs(&values.gateway.node_selector), "a=1,b=3,c=d");
        assert_eq!(values.gateway.load_balancer_source_ranges, ["z"]);
        assert_eq!(values.gateway.replicas, 3);
        assert_eq!(values.gateway.port, 5000, "of the base");
        assert_eq!(pairs(&values.pod_labels), "on=true");
        assert_eq!(pairs(&values.pod_annotations), "note=contents of note.txt");
        assert_eq!(values.remote_mirror_service_account_name, ["one", "two"]);
        assert_eq!(pairs(&values.controller.resources.limits), "cpu=1");
    }

    #[test]
    fn null_removes_earlier_values() {
        let (values, _) = given(&[
            ("a.yaml", "gateway: {nodePort: 30000, nodeSelector: {a: b, c: d}, replicas: 5}"),
            ("--set", "gateway.nodePort=null,gateway.nodeSelector.a=null,gateway.replicas=null,gateway.port=null"),
            ("b.yaml", "gateway: {tolerations: null}\npodLabels:\ncontroller:"),
        ])
        .unwrap();
        let default = Values::default();
        assert_eq!(values.gateway.node_port, None);
        assert_eq!(
            values.gateway.node_selector.keys().collect::<Vec<_>>(),
            ["c"]
        );
        assert_eq!(values.gateway.replicas, default.gateway.replicas);
        assert_eq!(values.gateway.port, default.gateway.port);
        assert_eq!(values.controller, default.controller);
    }

    #[test]
    fn lists_are_set_by_index() {
        let (values, _) = given(&[
            ("--set", "gateway.tolerations[0].key=a"),
            (
                "--set",
                "gateway.tolerations[0].operator=Exists,imagePullSecrets[0].name=s",
            ),
        ])
        .unwrap();
        assert_eq!(
            values.gateway.tolerations[0].operator.as_deref(),
            Some("Exists")
        );
        assert_eq!(values.image_pull_secrets[0].name, "s");
    }

    #[test]
    fn a_key_that_is_moved_keeps_its_effect() {
        let (values, warnings) = given(&[(
            "old.yaml",
            "controllerDefaults: {logLevel: debug}\ncontrollers: [{}]",
        )])
        .unwrap();
        assert_eq!(values.controller.log_level, "debug");
        assert_eq!(warnings.len(), 2, "{warnings:?}");
        let error = given(&[("old.yaml", "controllerDefaults: {logLevel: loud}")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the value controller.logLevel (old.yaml, as controllerDefaults.logLevel) must be one of error, warn, info, debug, trace, not \"loud\""
        );
    }

    #[test]
    fn invalid_values_are_reported_with_origin_and_suggestion() {
        for (given_values, what, hint) in [
            (
                &[("--set", "gateway.prot=1")][..],
                "unknown value gateway.prot (--set gateway.prot=1)",
                "did you mean gateway.port? `linkerd-mc install --print-values` lists all",
            ),
            (
                &[("a.yaml", "whatever: {this: is}")],
                "unknown value whatever (a.yaml)",
                "`linkerd-mc install --print-values` lists all",
            ),
            (
                &[
                    ("a.yaml", "gateway: {port: 1}"),
                    ("--set-string", "gateway.port=2"),
                ],
                "the value gateway.port (--set-string gateway.port=2) must be a port from 1 to 65535, not \"2\"",
                "use --set instead of --set-string, or leave out the quotes in a file",
            ),
            (
                &[("--set", "gateway.enabled=5")],
                "the value gateway.enabled (--set gateway.enabled=5) must be true or false, not 5",
                "`linkerd-mc install --print-values` describes all keys",
            ),
            (
                &[("--set", "controller.image.version=2026")],
                "the value controller.image.version (--set controller.image.version=2026) must be non-empty text, not 2026",
                "for text that looks like a number or boolean, use --set-string, or quotes in a file",
            ),
            (
                &[("--set", "gateway=off")],
                "the value gateway (--set gateway=off) must be a map, not \"off\"",
                "set the keys below it, such as gateway.…; `linkerd-mc install --print-values` lists all",
            ),
            (
                &[("--set", "gateway.port")],
                "invalid --set gateway.port",
                "use key=value,other.key=value,list={a,b},list[0]=value; escape commas, dots and braces with a backslash",
            ),
            (
                &[("a.yaml", "- a")],
                "cannot use the values file a.yaml: it is not a map",
                "a values file must be a YAML map, like the output of `linkerd-mc install --print-values`",
            ),
            (
                &[("a.yaml", "a: [")],
                "cannot use the values file a.yaml",
                "a values file must be a YAML map, like the output of `linkerd-mc install --print-values`",
            ),
        ] {
            let error = given(given_values).unwrap_err();
            assert_eq!(error.to_string(), what);
            assert_eq!(hint_of(&error), Some(hint), "{what}");
        }
    }
}
