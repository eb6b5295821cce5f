//! The Gateway API in a test's cluster, and the controller's permission to write its routes.

use control_plane::{ControlPlane, ROUTES};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind},
};

use crate::support::installation::reinstall;

/// Allows or forbids the controller to write routes.
pub(crate) async fn permit(plane: &ControlPlane, routes: bool) {
    let routes = format!("federation.routes={routes}");
    reinstall(plane, &["--set", &routes]).await;
}

/// The routes of a kind in a namespace.
pub(crate) fn routes(plane: &ControlPlane, namespace: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version, kind) = ROUTES.into_iter().find(|(.., own)| *own == kind).unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(plane.client(), namespace, &resource)
}
