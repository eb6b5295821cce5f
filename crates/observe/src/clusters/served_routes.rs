//! Lists of routes, whose kinds API servers serve in different versions.

use kube::api::ApiResource;
use mirror_core::api::route::RouteKind;

/// What `list` lists of a kind in the first version that the API server serves; nothing if it serves none.
pub async fn in_served_version<T: Default>(
    kind: RouteKind,
    list: impl AsyncFn(ApiResource) -> kube::Result<T>,
) -> kube::Result<T> {
    for version in kind.versions() {
        match list(kind.resource_in(version)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            found => return found,
        }
    }
    Ok(T::default())
}
