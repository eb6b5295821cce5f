//! The objects of one cluster in memory: resource versions, the history that watches read, preconditions of writes,
//! `ClusterIP`s, and garbage collection.

use std::collections::BTreeMap;

use http::StatusCode;
use mirror_core::api::{selector::Selector, selector_text::parse};
use serde_json::{Map, Value, json};

use super::refusal::{AnswerOrRefusal, Refusal};

/// Namespace and name; the namespace is empty for an object that is in none.
pub type Id = (String, String);

/// The objects of a cluster. Resources are named as in requests: `services`.
pub struct Objects {
    resources: BTreeMap<String, BTreeMap<Id, Value>>,
    history: Vec<Change>,
    version: u64,
    /// Watches from an earlier resource version are refused.
    oldest: u64,
    uids: u64,
    /// Number of `ClusterIP`s that Services may have.
    pub cluster_ips: usize,
    /// What a mutating admission webhook does with objects of a resource before they are stored.
    pub webhook: fn(&str, &mut Value),
}

/// A change of one object, with its states before and after.
struct Change {
    version: u64,
    resource: String,
    before: Option<Value>,
    after: Option<Value>,
}

/// What a list or a watch selects.
#[derive(Clone)]
pub struct Selection {
    pub resource: String,
    /// Empty for all namespaces.
    pub namespace: String,
    labels: Option<Selector>,
    /// A path and the value that it must have.
    field: Option<(String, String)>,
}

impl Selection {
    /// From the parameters of a request.
    pub fn new(resource: &str, namespace: &str, labels: &str, field: &str) -> Self {
        let field = field.split_once('=');
        Self {
            resource: resource.to_owned(),
            namespace: namespace.to_owned(),
            labels: parse(labels).expect("a label selector"),
            field: field.map(|(path, value)| (path.replace('.', "/"), value.to_owned())),
        }
    }

    fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let field = |(path, value): &(String, String)| {
            let found = object.pointer(&format!("/{path}"));
            found.and_then(Value::as_str) == Some(value)
        };
        (self.namespace.is_empty() || text(&object["metadata"]["namespace"]) == self.namespace)
            && (self.labels.as_ref()).is_none_or(|all| all.selects(|key| labels[key].as_str()))
            && self.field.as_ref().is_none_or(field)
    }
}

impl Objects {
    pub fn new() -> Self {
        Self {
            resources: BTreeMap::new(),
            history: Vec::new(),
            version: 1,
            oldest: 0,
            uids: 0,
            cluster_ips: usize::MAX,
            webhook: |_, _| (),
        }
    }

    /// The version of the last change.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn get(&self, resource: &str, id: &Id) -> Option<&Value> {
        self.resources.get(resource)?.get(id)
    }

    pub fn list(&self, selection: &Selection) -> Vec<Value> {
        if selection.resource == "ipaddresses" {
            return vec![json!({ "metadata": { "name": "address" } }); self.taken()];
        }
        let all = self.resources.get(&selection.resource);
        let all = all.into_iter().flat_map(BTreeMap::values);
        all.filter(|object| selection.selects(object))
            .cloned()
            .collect()
    }

    /// The events of a watch since a version. An object that is not selected any more counts as deleted.
    pub fn events(&self, selection: &Selection, since: u64) -> AnswerOrRefusal<Vec<Value>> {
        if since < self.oldest {
            return Err(Refusal::new(
                StatusCode::GONE,
                "Expired",
                "too old resource version",
            ));
        }
        let from = self
            .history
            .partition_point(|change| change.version <= since);
        let changes = self.history[from..].iter();
        let changes = changes.filter(|change| change.resource == selection.resource);
        let selected =
            |state: &Option<Value>| state.clone().filter(|state| selection.selects(state));
        let event = |change: &Change| {
            let (type_, object) = match (selected(&change.before), selected(&change.after)) {
                (None, Some(now)) => ("ADDED", now),
                (Some(_), Some(now)) => ("MODIFIED", now),
                (Some(mut last), None) => {
                    last["metadata"]["resourceVersion"] = json!(change.version.to_string());
                    ("DELETED", last)
                }
                (None, None) => return None,
            };
            Some(json!({ "type": type_, "object": object }))
        };
        Ok(changes.filter_map(event).collect())
    }

    /// Forgets the history: watches from an earlier version are refused.
    pub fn compact(&mut self) {
        self.oldest = self.version;
        self.history.clear();
    }

    /// Creates an object, with the fields that an API server adds.
    pub fn create(&mut self, resource: &str, mut object: Value) -> AnswerOrRefusal<Value> {
        let namespace = text(&object["metadata"]["namespace"]).to_owned();
        if !namespace.is_empty()
            && self
                .get("namespaces", &(String::new(), namespace.clone()))
                .is_none()
        {
            return Err(Refusal::not_found("namespaces", &namespace));
        }
        self.uids += 1;
        if let Some(prefix) = object["metadata"]["generateName"].as_str() {
            object["metadata"]["name"] = json!(format!("{prefix}{}", self.uids));
        }
        let name = text(&object["metadata"]["name"]).to_owned();
        let id = (namespace, name);
        if self.get(resource, &id).is_some() {
            let message = format!("{resource} {:?} already exists", id.1);
            return Err(Refusal::new(
                StatusCode::CONFLICT,
                "AlreadyExists",
                &message,
            ));
        }
        (self.webhook)(resource, &mut object);
        if resource == "services" {
            self.complete_service(&mut object)?;
        }
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(format!("uid-{}", self.uids));
        metadata["generation"] = json!(1);
        if metadata["creationTimestamp"].is_null() {
            metadata["creationTimestamp"] = json!("2024-01-01T00:00:00Z");
        }
        Ok(self.store(resource, id, Some(object)).expect("an object"))
    }

    /// Applies a merge patch, which may name a uid and a resource version that the object must have. `status`: only
    /// the status changes; otherwise it stays, of resources with this subresource.
    pub fn patch(
        &mut self,
        resource: &str,
        id: &Id,
        patch: &Value,
        status: bool,
    ) -> AnswerOrRefusal<Value> {
        let Some(before) = self.get(resource, id) else {
            return Err(Refusal::not_found(resource, &id.1));
        };
        for field in ["uid", "resourceVersion"] {
            let wanted = &patch["metadata"][field];
            if !wanted.is_null() && *wanted != before["metadata"][field] {
                return Err(Refusal::conflict(&id.1));
            }
        }
        let mut after = before.clone();
        if status {
            merge(&mut after["status"], &patch["status"]);
        } else {
            merge(&mut after, patch);
            if resource == "links" && patch.get("status").is_some() {
                after["status"] = before["status"].clone();
            }
        }
        (self.webhook)(resource, &mut after);
        if after == *before {
            return Ok(after);
        }
        if after["spec"] != before["spec"] {
            let generation = before["metadata"]["generation"].as_u64();
            after["metadata"]["generation"] = json!(generation.unwrap_or_default() + 1);
        }
        Ok(self
            .store(resource, id.clone(), Some(after))
            .expect("an object"))
    }

    /// Deletes an object, and those that it owns.
    pub fn delete(&mut self, resource: &str, id: &Id, uid: Option<&str>) -> AnswerOrRefusal<()> {
        let Some(object) = self.get(resource, id) else {
            return Err(Refusal::not_found(resource, &id.1));
        };
        let own = text(&object["metadata"]["uid"]).to_owned();
        if uid.is_some_and(|uid| uid != own) {
            return Err(Refusal::conflict(&id.1));
        }
        self.store(resource, id.clone(), None);
        let is_owned = |object: &Value| {
            let owners = object["metadata"]["ownerReferences"].as_array();
            owners.is_some_and(|owners| owners.iter().any(|owner| text(&owner["uid"]) == own))
        };
        let all = self.resources.iter();
        let owned = all.flat_map(|(resource, all)| {
            let owned = all.iter().filter(|(_, object)| is_owned(object));
            owned.map(move |(id, _)| (resource.clone(), id.clone()))
        });
        for (resource, id) in owned.collect::<Vec<_>>() {
            self.store(&resource, id, None);
        }
        Ok(())
    }

    /// Puts the new state of an object into the store and into the history. Returns it with its version.
    fn store(&mut self, resource: &str, id: Id, after: Option<Value>) -> Option<Value> {
        self.version += 1;
        let version = json!(self.version.to_string());
        let after = after.map(|mut object| {
            object["metadata"]["resourceVersion"] = version;
            object
        });
        let objects = self.resources.entry(resource.to_owned()).or_default();
        let before = match after.clone() {
            Some(object) => objects.insert(id, object),
            None => objects.remove(&id),
        };
        self.history.push(Change {
            version: self.version,
            resource: resource.to_owned(),
            before,
            after: after.clone(),
        });
        after
    }

    /// Adds what an API server adds to a Service: defaults, and a `ClusterIP`, if there is one left.
    fn complete_service(&self, service: &mut Value) -> AnswerOrRefusal<()> {
        let spec = &mut service["spec"];
        if spec["type"].is_null() {
            spec["type"] = json!("ClusterIP");
        }
        for port in spec["ports"].as_array_mut().into_iter().flatten() {
            for (field, default) in [
                ("protocol", json!("TCP")),
                ("targetPort", port["port"].clone()),
            ] {
                if port[field].is_null() {
                    port[field] = default;
                }
            }
        }
        if spec["clusterIP"] == "None" {
            return Ok(());
        }
        if self.taken() >= self.cluster_ips {
            let message = "Internal error occurred: failed to allocate a serviceIP: range is full";
            return Err(Refusal::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalError",
                message,
            ));
        }
        let [.., high, low] = self.uids.to_be_bytes();
        spec["clusterIP"] = json!(format!("10.96.{high}.{low}"));
        spec["clusterIPs"] = json!([spec["clusterIP"]]);
        Ok(())
    }
}

impl Objects {
    /// Number of Services with a `ClusterIP`.
    fn taken(&self) -> usize {
        let known = self.resources.get("services");
        let known = known.into_iter().flat_map(BTreeMap::values);
        let taken = known.filter(|known| known["spec"]["clusterIP"] != "None");
        taken.count()
    }
}

/// Merges a patch (RFC 7386) into a value.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    for (key, patch) in patch {
        if patch.is_null() {
            value.as_object_mut().expect("an object").remove(key);
        } else {
            merge(&mut value[key], patch);
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
