//! The accounts of the extension whose tokens lie somewhere where they could be stolen.

use client::{Cluster, ReadError};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::{ResourceExt as _, api::ListParams};
use mirror_core::api::labels as l;
use serde::Serialize;

/// Whose token it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ThiefKind {
    /// The controller of this cluster.
    Controller,
    /// An account with which another cluster reads this one.
    RemoteAccess,
}

/// A ServiceAccount whose token could be stolen.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Thief {
    /// Whose token it is.
    pub kind: ThiefKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub account: String,
    /// Namespace of Linkerd's control plane.
    #[serde(skip)]
    pub linkerd: String,
    /// Namespaces with the tokens of accounts of other clusters.
    #[serde(skip)]
    pub accounts: Vec<String>,
}

impl Thief {
    /// The user that the API server knows it as.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.account)
    }

    /// The groups of this user.
    pub fn groups(&self) -> Vec<String> {
        vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{}", self.namespace),
            "system:authenticated".to_owned(),
        ]
    }
}

/// The accounts of a cluster to which the extension binds its roles.
pub async fn thieves(cluster: &Cluster) -> Result<Vec<Thief>, ReadError> {
    let of_extension = format!("{}={}", l::EXTENSION, l::EXTENSION_NAME);
    let bindings = cluster.all::<ClusterRoleBinding>();
    let found = bindings
        .list(&ListParams::default().labels(&of_extension))
        .await?;
    Ok(of_bindings(&found.items, &cluster.linkerd_namespace))
}

fn of_bindings(bindings: &[ClusterRoleBinding], linkerd: &str) -> Vec<Thief> {
    let bound = bindings.iter().flat_map(|binding| {
        let is_controller = binding.name_any() == l::CONTROLLER_NAME;
        let accounts = binding.subjects.iter().flatten();
        let accounts = accounts.filter(|subject| subject.kind == "ServiceAccount");
        accounts.map(move |subject| Thief {
            kind: if is_controller {
                ThiefKind::Controller
            } else {
                ThiefKind::RemoteAccess
            },
            namespace: subject.namespace.clone().unwrap_or_default(),
            account: subject.name.clone(),
            linkerd: linkerd.to_owned(),
            accounts: Vec::new(),
        })
    });
    let mut thieves: Vec<Thief> = bound.collect();
    thieves.sort();
    thieves.dedup();
    let remote = thieves.iter().filter(|t| t.kind == ThiefKind::RemoteAccess);
    let mut accounts: Vec<String> = remote.map(|thief| thief.namespace.clone()).collect();
    accounts.sort();
    accounts.dedup();
    for thief in &mut thieves {
        thief.accounts.clone_from(&accounts);
    }
    thieves
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn accounts_are_those_of_the_bindings() {
        let binding = |name: &str, namespace: &str| {
            let subject = json!({ "kind": "ServiceAccount", "name": name, "namespace": namespace });
            let role = json!({ "apiGroup": "", "kind": "ClusterRole", "name": name });
            let object =
                json!({ "metadata": { "name": name }, "roleRef": role, "subjects": [subject] });
            serde_json::from_value::<ClusterRoleBinding>(object).unwrap()
        };
        let bindings = [
            binding("west", "access"),
            binding(l::CONTROLLER_NAME, "mc"),
            binding("north", "access"),
        ];
        let thieves = of_bindings(&bindings, "linkerd");
        let named: Vec<_> = thieves.iter().map(|t| (t.kind, t.user())).collect();
        let account = |of: &str| format!("system:serviceaccount:{of}");
        assert_eq!(
            named,
            [
                (
                    ThiefKind::Controller,
                    account(&format!("mc:{}", l::CONTROLLER_NAME))
                ),
                (ThiefKind::RemoteAccess, account("access:north")),
                (ThiefKind::RemoteAccess, account("access:west")),
            ]
        );
        assert!(thieves.iter().all(|thief| thief.accounts == ["access"]));
    }
}
