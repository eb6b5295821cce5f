//! The variables of the admission policy for the controller's account.

use mirror_core::api::labels;
use serde::Serialize;
use serde_json::json;

use crate::values::Values;

/// API group and version of admission policies and their bindings.
pub const ADMISSION: &str = "admissionregistration.k8s.io/v1";
/// Variables of the policy that depend on values of `install`. The others depend only on the namespace.
pub const SETTINGS: [&str; 5] = [
    "protectedNamespaces",
    "installations",
    "createsNamespaces",
    "accounts",
    "gateway",
];

/// Expressions of the policy, in CEL.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyVariables {
    is_the_controller: String,
    home: String,
    protected_namespaces: String,
    installations: String,
    creates_namespaces: String,
    accounts: String,
    gateway: String,
}

impl PolicyVariables {
    pub fn new(namespace: &str, values: &Values) -> Self {
        let account = format!(
            "system:serviceaccount:{namespace}:{}",
            labels::CONTROLLER_NAME
        );
        let mut protected = values.protected_namespaces();
        protected.push(namespace);
        // Installations whose objects it may change: its own, and the one that it takes over from.
        let mut installations = vec![namespace];
        installations.extend(Some(&*values.controller.take_over_from).filter(|n| !n.is_empty()));
        // Groups of the accounts that other clusters use: all in their namespace, and all in the extension's.
        let mut accounts = vec![namespace, values.accounts_namespace(namespace)];
        accounts.dedup();
        let accounts = accounts
            .iter()
            .map(|n| format!("system:serviceaccounts:{n}"));
        let accounts: Vec<String> = accounts.collect();
        let gateway = &values.gateway;
        let gateway = if gateway.is_limited() {
            &gateway.name
        } else {
            ""
        };
        // JSON strings are valid CEL strings.
        Self {
            is_the_controller: format!("request.userInfo.username == {}", json!(account)),
            home: json!(namespace).to_string(),
            protected_namespaces: json!(protected).to_string(),
            installations: json!(installations).to_string(),
            creates_namespaces: values.enable_namespace_creation.to_string(),
            accounts: json!(accounts).to_string(),
            gateway: json!(gateway).to_string(),
        }
    }
}
