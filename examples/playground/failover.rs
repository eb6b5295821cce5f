//! A federated Service that prefers the Pods of its own cluster, loses them and gets them back.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use control_plane::{ControlPlane, ROUTES, eventually};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams},
};
use linkerd_mc::api::labels;
use serde_json::{Value, json};

use crate::{clusters::SHOP, progress::Progress};

/// The controller's hold-down, as the value of its flag.
pub(crate) const HOLD_DOWN: &str = "5s";
/// The Service of `west` that is a member.
const MEMBER: &str = "cart";
const FEDERATED: &str = "cart-federated";
/// How long a step may take.
const SOON: Duration = Duration::from_secs(30);

/// Shows in steps to which Services the requests to the federated Service go.
pub(crate) async fn show(progress: &Progress, west: &ControlPlane) -> anyhow::Result<()> {
    let own = [MEMBER, FEDERATED].as_slice();
    let all = [FEDERATED].as_slice();
    let prefer = async {
        let patch = json!({ "metadata": { "annotations": { labels::PREFER: "local" } } });
        Api::<Service>::namespaced(west.client(), SHOP)
            .patch(MEMBER, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        goes_to(west, own).await
    };
    let text = "cart-federated of west prefers local: requests go to west's own Pods";
    progress.step(text, prefer).await?;
    let lost = async {
        ready(west, false).await?;
        goes_to(west, all).await
    };
    let text = "these are not ready any more: east and north take the requests";
    progress.step(text, lost).await?;
    let back = async {
        ready(west, true).await?;
        goes_to(west, own).await
    };
    let text = format!("they are back, and have been for {HOLD_DOWN}: they are preferred again");
    progress.step(&text, back).await
}

/// Waits until the route of the federated Service sends requests to these Services: first the preferred ones, then the
/// federated Service itself, in case none of them answers.
async fn goes_to(west: &ControlPlane, services: &[&str]) -> anyhow::Result<()> {
    let (group, version, kind) = ROUTES[0];
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let routes: Api<DynamicObject> = Api::namespaced_with(west.client(), SHOP, &resource);
    eventually("the route of cart-federated", SOON, async || {
        let found = routes.list(&ListParams::default()).await?;
        let route = found.items.first().context("there is none")?;
        let backends = route.data["spec"]["rules"][0]["backendRefs"].as_array();
        let names = backends.into_iter().flatten();
        let names: Vec<&str> = names
            .filter_map(|backend| backend["name"].as_str())
            .collect();
        ensure!(names == services, "it leads to {}", names.join(", "));
        Ok(Some(()))
    })
    .await
}

/// Sets whether the member's Pods are ready, as the kubelet does.
async fn ready(west: &ControlPlane, ready: bool) -> anyhow::Result<()> {
    let pods = Api::<Pod>::namespaced(west.client(), SHOP);
    let status: Value = if ready { "True" } else { "False" }.into();
    let patch = json!({ "status": { "conditions": [{ "type": "Ready", "status": status }] } });
    let of_member = ListParams::default().labels(&format!("app={MEMBER}"));
    for pod in pods.list(&of_member).await? {
        let name = pod.metadata.name.context("a Pod without a name")?;
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .context("failed to change the readiness of a Pod")?;
    }
    Ok(())
}
