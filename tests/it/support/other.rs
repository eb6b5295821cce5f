//! A second installation on a control plane, in another namespace.

use control_plane::ControlPlane;
use serde_json::{Value, json};

use super::{
    controller::Controller,
    installation::{CONTROLLER_GROUPS, NAMESPACE, account, confined, parsed},
    objects::apply,
    program::run,
};

/// Creates an installation in another namespace: the objects that `install` prints for its controller's account.
/// Cluster-scoped objects get other names, so that those of the first installation stay.
pub(crate) async fn install(plane: &ControlPlane, namespace: &str, flags: &[&str]) {
    let args = ["install", "-o", "json", "--namespace", namespace];
    let mut objects = parsed(&run(plane.kubeconfig(), &[&args, flags].concat()).data());
    objects.retain(|object| {
        object["metadata"]["labels"]["component"] == "controller" && object["kind"] != "Deployment"
    });
    for object in &mut objects {
        if object["metadata"]["namespace"].is_null() {
            for name in ["/metadata/name", "/spec/policyName", "/roleRef/name"] {
                if let Some(name) = object.pointer_mut(name) {
                    *name = json!(format!("{}.{namespace}", name.as_str().unwrap()));
                }
            }
        }
    }
    apply(plane, &objects).await;
    confined(plane, namespace).await;
}

/// Starts a controller of the installation in another namespace.
pub(crate) fn controller(plane: &ControlPlane, namespace: &str, flags: &[&str]) -> Controller {
    let kubeconfig = plane
        .kubeconfig_through(plane.url(), &account(namespace), &CONTROLLER_GROUPS)
        .unwrap();
    let own = ["--leader-elect=false", "--namespace", namespace];
    Controller::start_as(&kubeconfig, &[&own, flags].concat())
}

/// The Link and Secrets of `link-gen`, for an installation in another namespace.
pub(crate) fn moved(objects: Vec<Value>, namespace: &str) -> Vec<Value> {
    let here = |object: &Value| object["metadata"]["namespace"] == NAMESPACE;
    let mut objects: Vec<Value> = objects.into_iter().filter(here).collect();
    for object in &mut objects {
        object["metadata"]["namespace"] = json!(namespace);
    }
    objects
}
