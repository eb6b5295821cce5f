//! Names of the accounts that other clusters use. An account gives its name to a `ClusterRole` and its binding.

use mirror_core::api::labels;

/// `ClusterRole`s of Kubernetes and of the extension itself: applied over them, those of an account would replace their
/// rules.
const ROLES: [&str; 5] = [
    "cluster-admin",
    "admin",
    "edit",
    "view",
    labels::CONTROLLER_NAME,
];
/// The account that Pods have unless they name another one.
const OF_PODS: &str = "default";

/// All names that an account cannot have.
#[cfg(test)]
pub fn taken() -> impl Iterator<Item = &'static str> {
    ROLES.into_iter().chain([OF_PODS])
}

/// Refuses a name that others need. The error is the rest of a message that begins with the name.
pub fn refuse_taken(name: &str) -> Result<(), &'static str> {
    if ROLES.contains(&name) {
        Err("is the name of a ClusterRole that others use; choose another name")
    } else if name == OF_PODS {
        Err("is the ServiceAccount that Pods use by default; choose another name")
    } else {
        Ok(())
    }
}
