//! The order in which a mirror and its slices were written, by their resource versions.

use std::fmt::Debug;

use anyhow::{Context as _, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use serde::de::DeserializeOwned;

use crate::rig::{NAMESPACE, Rig, wait::SOON};

/// The label of mirrors in remote-discovery mode.
const REMOTE_DISCOVERY: &str = "multicluster.linkerd.io/remote-discovery";

/// Resource versions of all Services and of all slices.
type Versions = [String; 2];

/// The current resource versions of Services and of slices, in the namespace of the mirrors.
pub(super) async fn versions(rig: &Rig) -> anyhow::Result<Versions> {
    let only = ListParams::default().limit(1);
    let services = rig.west.services(NAMESPACE).list_metadata(&only).await?;
    let slices = rig.slices().list_metadata(&only).await?;
    let [services, slices] = [services.metadata, slices.metadata].map(|list| list.resource_version);
    Ok([
        services.context("no version of the Services")?,
        slices.context("no version of the slices")?,
    ])
}

/// Checks that a mirror that had no slices got one before it lost the label of remote discovery. A stream that begins
/// between the two has no endpoints; requests wait for them, so they do not show this.
pub(super) async fn has_slices_first(
    rig: &Rig,
    mirror: &str,
    before: &Versions,
) -> anyhow::Result<()> {
    let [of_services, of_slices] = before;
    let params = WatchParams::default().timeout(SOON.as_secs().try_into()?);
    let named = params.clone().fields(&format!("metadata.name={mirror}"));
    let services = rig.west.services(NAMESPACE);
    let relabelled = first_change(&services, &named, of_services, |service| {
        !service.labels().contains_key(REMOTE_DISCOVERY)
    })
    .await
    .with_context(|| format!("{mirror} has kept its label"))?;
    let of_mirror = params.labels(&format!("kubernetes.io/service-name={mirror}"));
    let written = first_change(&rig.slices(), &of_mirror, of_slices, |_| true)
        .await
        .with_context(|| format!("{mirror} has got no slice"))?;
    ensure!(
        written < relabelled,
        "{mirror} lost its label at version {relabelled}, and got its slice at {written}"
    );
    Ok(())
}

/// The version of the first change since `from` with this property.
async fn first_change<K>(
    api: &Api<K>,
    params: &WatchParams,
    from: &str,
    is_it: impl Fn(&K) -> bool,
) -> anyhow::Result<u64>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned,
{
    let mut events = api.watch(params, from).await?.boxed();
    while let Some(event) = events.try_next().await? {
        if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
            && is_it(&object)
        {
            let version = object.resource_version().context("no version")?;
            return Ok(version.parse()?);
        }
    }
    bail!("no such change")
}
