//! Whether admission policies restrict our controller's account: compares the policies of `install` with those of the
//! API server.

use client::requests::is_served;
use futures::future::try_join_all;
use kube::{
    Api, Client,
    api::DynamicObject,
    core::{ApiResource, GroupVersionKind},
};
use manifests::{
    install::{ADMISSION, SETTINGS, confinement},
    render::Manifest,
    values::Values,
};
use serde_json::Value;

use super::snapshot::{Confinement, Known};

/// The state of the admission policies for the controller in `namespace`.
pub async fn confined(client: &Client, namespace: &str) -> Known<Confinement> {
    // From Kubernetes 1.30 on.
    let is_available = is_served(client, ADMISSION, "ValidatingAdmissionPolicy").await;
    if !is_available? {
        return Ok(Confinement::Unavailable);
    }
    let expected = confinement(namespace, &Values::default());
    let objects = expected.and_then(Manifest::into_objects);
    let objects = objects.map_err(|error| error.to_string())?;
    let found = try_join_all(objects.iter().map(|object| live(client, object))).await?;
    let named = |object: &Value| format!("{} {}", text(&object["kind"]), name(object));
    let (mut missing, mut differing) = (Vec::new(), Vec::new());
    for (expected, live) in objects.iter().zip(found) {
        match live {
            None => missing.push(named(expected)),
            Some(live) if !is_as_printed(expected, &live) => differing.push(named(expected)),
            Some(_) => {}
        }
    }
    Ok(Confinement::Installed { missing, differing })
}

/// The object of this kind and name in the API server, if it exists.
async fn live(client: &Client, object: &Value) -> Known<Option<Value>> {
    let (group, version) = ADMISSION.split_once('/').unwrap_or_default();
    let kind = GroupVersionKind::gvk(group, version, text(&object["kind"]));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let live = api.get_opt(name(object)).await?;
    Ok(live.map(|live| live.data))
}

fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Whether a policy or binding is as `install` prints it, with any values.
fn is_as_printed(expected: &Value, live: &Value) -> bool {
    let without_settings = |object: &Value| {
        let mut spec = object["spec"].clone();
        if let Some(variables) = spec.get_mut("variables").and_then(Value::as_array_mut) {
            variables.retain(|variable| !SETTINGS.contains(&text(&variable["name"])));
        }
        spec
    };
    is_same(&without_settings(expected), &without_settings(live))
}

/// Whether both are the same after Kubernetes has added defaults.
fn is_same(expected: &Value, live: &Value) -> bool {
    match (expected, live) {
        (Value::Object(expected), Value::Object(live)) => {
            let is_default = |value: &Value| match value {
                Value::Object(fields) => fields.is_empty(),
                Value::String(text) => text == "*" || text == "Equivalent",
                _ => false,
            };
            expected
                .iter()
                .all(|(key, value)| live.get(key).is_some_and(|live| is_same(value, live)))
                && live
                    .iter()
                    .all(|(key, value)| expected.contains_key(key) || is_default(value))
        }
        (Value::Array(expected), Value::Array(live)) => {
            expected.len() == live.len()
                && expected
                    .iter()
                    .zip(live)
                    .all(|(one, other)| is_same(one, other))
        }
        _ => expected == live,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn printed(change: impl FnOnce(&mut Values)) -> Vec<Value> {
        let mut values = Values::default();
        change(&mut values);
        confinement("mc", &values).unwrap().into_objects().unwrap()
    }

    /// What an API server fills in.
    fn stored(mut policy: Value) -> Value {
        let constraints = &mut policy["spec"]["matchConstraints"];
        constraints["matchPolicy"] = json!("Equivalent");
        constraints["namespaceSelector"] = json!({});
        for rule in constraints["resourceRules"].as_array_mut().unwrap() {
            rule["scope"] = json!("*");
        }
        policy
    }

    #[test]
    fn values_and_defaults_make_no_difference() {
        let expected = printed(|_| ());
        let live = printed(|values| {
            values.protected_namespaces = Some(vec!["more".to_owned()]);
            values.enable_namespace_creation = true;
            values.controller.take_over_from = "old".to_owned();
            values.common_labels = [("team".to_owned(), "a".to_owned())].into();
        });
        assert_ne!(expected[0]["spec"], live[0]["spec"]);
        for (expected, live) in expected.iter().zip(live) {
            let is_policy = live["kind"] == "ValidatingAdmissionPolicy";
            let live = if is_policy { stored(live) } else { live };
            assert!(is_as_printed(expected, &live), "{live:#}");
        }
    }

    #[test]
    fn weaker_policy_is_a_difference() {
        let expected = printed(|_| ());
        let one = |labels: &str| json!({ "matchLabels": { labels: "b" } });
        for (object, pointer, value) in [
            (0, "/matchConditions/0/expression", json!("false")),
            (
                0,
                "/matchConditions/1",
                json!({ "name": "x", "expression": "false" }),
            ),
            (0, "/failurePolicy", json!("Ignore")),
            (0, "/validations", json!([])),
            (0, "/variables/0/expression", json!("\"elsewhere\"")),
            (0, "/variables/4/expression", json!("\"none\"")),
            (0, "/matchConstraints/namespaceSelector", one("a")),
            (
                0,
                "/matchConstraints/excludeResourceRules",
                json!([{ "resources": ["services"] }]),
            ),
            (
                0,
                "/matchConstraints/resourceRules/0/resources",
                json!(["endpoints"]),
            ),
            (1, "/validationActions", json!(["Audit"])),
            (
                1,
                "/matchResources",
                json!({ "namespaceSelector": one("a") }),
            ),
            (2, "/matchConstraints/objectSelector", one("a")),
            (4, "/matchConstraints/objectSelector/matchLabels", json!({})),
            (5, "/paramRef/selector/matchExpressions", json!([])),
            (6, "/validations", json!([])),
            (8, "/matchConstraints/objectSelector", one("a")),
            (9, "/paramRef/selector/matchExpressions", json!([])),
            (10, "/validations", json!([])),
        ] {
            let mut live = expected[object].clone();
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            match live.pointer_mut(&format!("/spec{parent}")).unwrap() {
                Value::Array(items) => {
                    items.truncate(key.parse().unwrap());
                    items.push(value);
                }
                fields => fields[key] = value,
            }
            assert!(
                !is_as_printed(&expected[object], &live),
                "{object}{pointer}"
            );
        }
    }
}
