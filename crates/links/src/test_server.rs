//! An API server for unit tests, which lists, reads, changes and deletes the objects that a test gives it.

#![allow(
    clippy::panic,
    clippy::unwrap_used,
    reason = "only tests have this module"
)]

use std::sync::{Arc, Mutex};

use client::{Cluster, of_test_server};
use futures::{StreamExt as _, stream};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use mirror_core::mirror::fixtures::merge_patch;
use serde_json::{Value, json};
use tower::BoxError;

use crate::inventory::resource;

/// The server. Clones have the same objects.
#[derive(Clone)]
pub struct TestServer {
    objects: Arc<Mutex<Vec<Value>>>,
}

impl TestServer {
    pub fn new(objects: Vec<Value>) -> Self {
        let objects = Arc::new(Mutex::new(objects));
        Self { objects }
    }

    /// From now on, the server has these objects.
    pub fn replace(&self, objects: Vec<Value>) {
        *self.objects.lock().unwrap() = objects;
    }

    /// A connection to it.
    pub fn cluster(&self) -> Cluster {
        let server = self.clone();
        let answer = move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (request, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let (status, answer) = server.answer(&request, &body);
                let answer = Bytes::from(answer.to_string());
                let answer = StreamBody::new(stream::iter([Ok(Frame::data(answer))]).boxed());
                let response = Response::builder().status(status).body(answer)?;
                Ok::<_, BoxError>(response)
            }
        };
        Cluster::of_test_server(of_test_server(answer))
    }

    fn answer(&self, request: &http::request::Parts, body: &[u8]) -> (StatusCode, Value) {
        let path: Vec<&str> = request.uri.path().split('/').collect();
        // After `/api/v1` or `/apis/group/version`.
        let path = if path[1] == "api" {
            &path[3..]
        } else {
            &path[4..]
        };
        let (namespace, plural, name) = match *path {
            ["namespaces", namespace, plural] => (Some(namespace), plural, None),
            ["namespaces", namespace, plural, name] => (Some(namespace), plural, Some(name)),
            [plural] => (None, plural, None),
            [plural, name] => (None, plural, Some(name)),
            _ => panic!("{path:?}"),
        };
        let selector = selector(request.uri.query().unwrap_or_default());
        let mut objects = self.objects.lock().unwrap();
        let is_asked = |object: &Value| {
            let metadata = &object["metadata"];
            plural_of(object) == plural
                && namespace.is_none_or(|namespace| metadata["namespace"] == namespace)
                && name.is_none_or(|name| metadata["name"] == name)
                && is_selected(object, &selector)
        };
        if name.is_none() {
            let items: Vec<&Value> = objects.iter().filter(|object| is_asked(object)).collect();
            return (StatusCode::OK, json!({ "metadata": {}, "items": items }));
        }
        let Some(found) = objects.iter().position(is_asked) else {
            return failure(StatusCode::NOT_FOUND, "NotFound");
        };
        if request.method == Method::PATCH {
            let patch = serde_json::from_slice(body).unwrap();
            merge_patch(&mut objects[found], &patch);
        }
        if request.method != Method::DELETE {
            return (StatusCode::OK, objects[found].clone());
        }
        let options: Value = serde_json::from_slice(body).unwrap_or_default();
        let wanted = options["preconditions"].as_object();
        for (key, value) in wanted.into_iter().flatten() {
            if objects[found]["metadata"][key] != *value {
                return failure(StatusCode::CONFLICT, "Conflict");
            }
        }
        (StatusCode::OK, objects.remove(found))
    }
}

fn failure(status: StatusCode, reason: &str) -> (StatusCode, Value) {
    let code = status.as_u16();
    let status_object = json!({
        "kind": "Status", "status": "Failure", "message": reason, "reason": reason, "code": code,
    });
    (status, status_object)
}

fn plural_of(object: &Value) -> String {
    let text = |key: &str| object[key].as_str().unwrap();
    resource(text("apiVersion"), text("kind")).plural
}

/// The label selector of a query.
fn selector(query: &str) -> String {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let mut encoded = pairs.filter(|(key, _)| *key == "labelSelector");
    let Some((_, encoded)) = encoded.next() else {
        return String::new();
    };
    let mut parts = encoded.split('%');
    let mut decoded = parts.next().unwrap().replace('+', " ");
    for part in parts {
        let (code, rest) = part.split_at(2);
        decoded.push(u8::from_str_radix(code, 16).unwrap().into());
        decoded.push_str(&rest.replace('+', " "));
    }
    decoded
}

/// Whether a label selector matches an object.
fn is_selected(object: &Value, selector: &str) -> bool {
    let label = |key: &str| object["metadata"]["labels"][key].as_str();
    let mut is_in_list = false;
    let mut requirements = selector.split(|char| {
        is_in_list = (is_in_list || char == '(') && char != ')';
        char == ',' && !is_in_list
    });
    requirements.all(|requirement| {
        if let Some(key) = requirement.strip_prefix('!') {
            return label(key).is_none();
        }
        if let Some((key, value)) = requirement.split_once('=') {
            return label(key) == Some(value);
        }
        let Some((key, values)) = requirement.split_once(' ') else {
            return requirement.is_empty() || label(requirement).is_some();
        };
        let (operator, values) = values.split_once(" (").unwrap();
        let mut values = values.trim_end_matches(')').split(',');
        let has_one = label(key).is_some_and(|label| values.any(|value| value == label));
        has_one == (operator == "in")
    })
}
