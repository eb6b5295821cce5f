//! The writes that a plan would make. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// The planned writes, and the problems.
#[derive(Debug, Default, PartialEq, Serialize)]
pub struct Preview {
    pub changes: Vec<PlannedChange>,
    pub problems: Vec<PlanProblem>,
}

impl Preview {
    /// Whether it writes this Service in this way: `create`, `patch` or `delete`.
    pub fn writes_service(&self, verb: &str, namespace: &str, name: &str) -> bool {
        self.changes.iter().any(|change| {
            (change.verb, change.kind) == (verb, "Service")
                && change.namespace == namespace
                && change.name == name
        })
    }
}

/// The plan of one of several Links.
#[derive(Debug, PartialEq, Serialize)]
pub struct PlanOfLink {
    pub link: String,
    #[serde(flatten)]
    pub preview: Preview,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct PlannedChange {
    pub verb: &'static str,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    /// Changed fields by path: the value before and after, `null` if there is none.
    pub fields: BTreeMap<String, (Value, Value)>,
}

#[derive(Debug, PartialEq, Serialize)]
pub struct PlanProblem {
    pub service: String,
    pub reason: &'static str,
    pub message: String,
}

/// The leaves of `after` that differ from `before`, by path, without preconditions and names.
pub fn flatten(
    fields: &mut BTreeMap<String, (Value, Value)>,
    path: String,
    before: &Value,
    after: &Value,
) {
    const SILENT: [&str; 5] = [
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.resourceVersion",
        "metadata.ownerReferences",
    ];
    match after {
        _ if SILENT.contains(&path.as_str()) => {}
        Value::Object(after) => {
            for (key, value) in after {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                flatten(fields, path, &before[key], value);
            }
        }
        after if after == before => {}
        after => {
            fields.insert(path, (before.clone(), after.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_leaves_that_differ_are_shown() {
        let mut fields = BTreeMap::new();
        let before =
            json!({ "metadata": { "labels": { "a": "1", "b": "2" } }, "spec": { "x": 1 } });
        let after = json!({
            "metadata": { "resourceVersion": "7", "labels": { "a": "1", "b": null, "c": "3" } },
            "spec": { "x": 1 },
        });
        flatten(&mut fields, String::new(), &before, &after);
        let expected = [
            ("metadata.labels.b", (json!("2"), Value::Null)),
            ("metadata.labels.c", (Value::Null, json!("3"))),
        ];
        assert_eq!(
            fields,
            expected
                .map(|(path, values)| (path.to_owned(), values))
                .into()
        );
    }
}
