//! The admission policy of the controller's account: what differs from one installation to the next.

use serde::Serialize;
use serde_json::json;

use crate::{api::labels, manifests::values::Values};

/// API group and version of admission policies and their bindings.
pub const ADMISSION: &str = "admissionregistration.k8s.io/v1";
/// Variables of the policy that follow from values of `install`. All else in it follows from the namespace.
pub const SETTINGS: [&str; 3] = ["protectedNamespaces", "installations", "createsNamespaces"];

/// Expressions of the policy, in CEL.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Confinement {
    is_the_controller: String,
    home: String,
    protected_namespaces: String,
    installations: String,
    creates_namespaces: String,
}

impl Confinement {
    pub(super) fn new(namespace: &str, values: &Values) -> Self {
        let account = format!(
            "system:serviceaccount:{namespace}:{}",
            labels::CONTROLLER_NAME
        );
        let mut protected = values.protected_namespaces();
        protected.push(namespace);
        // Whose objects it may change: its own, and those that it takes over.
        let mut installations = vec![namespace];
        installations.extend(Some(&*values.controller.take_over_from).filter(|n| !n.is_empty()));
        // What is text in JSON is the same text in CEL.
        Self {
            is_the_controller: format!("request.userInfo.username == {}", json!(account)),
            home: json!(namespace).to_string(),
            protected_namespaces: json!(protected).to_string(),
            installations: json!(installations).to_string(),
            creates_namespaces: values.enable_namespace_creation.to_string(),
        }
    }
}
