//! Writes a Link.

use anyhow::Context as _;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::changes::replacement;
use crate::{
    api::{labels::MANAGER, link::Link},
    cli::common::{cluster::Cluster, inventory},
};

/// Creates a Link, or replaces the settings of the `old` one in a single write: the controller acts on each state that it
/// sees. Returns the Link as it is stored.
pub(in crate::cli) async fn write(
    cluster: &Cluster,
    old: Option<&Link>,
    new: &Link,
) -> anyhow::Result<Link> {
    let name = new.name_any();
    let Some(old) = old else {
        let stored = inventory::apply(cluster, &json!(new)).await?;
        let decoded = stored.try_parse();
        return decoded.with_context(|| format!("cannot decode the Link {name}"));
    };
    let api = cluster.api::<Link>(&new.namespace().unwrap_or_default());
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(replacement(old, new));
    let patched = api.patch(&name, &params, &patch);
    cluster
        .request(&format!("change the Link {name}"), patched)
        .await
}
