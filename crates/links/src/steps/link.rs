//! Writes a Link.

use anyhow::Context as _;
use client::Cluster;
use hints::hint::fail;
use kube::{
    ResourceExt as _,
    api::{Patch, PatchParams},
};
use mirror_core::api::{labels::MANAGER, link::Link};
use serde_json::json;

use crate::{
    inventory,
    steps::settings::{replacement, settings_changes},
};

/// Creates a Link, or replaces the settings of the `old` one in a single write: the controller acts on each state that it
/// sees. Returns the Link as it is stored. Fails if the settings are not the old ones any more.
pub async fn write(cluster: &Cluster, old: Option<&Link>, new: &Link) -> anyhow::Result<Link> {
    let name = new.name_any();
    let Some(old) = old else {
        let stored = inventory::apply(cluster, &json!(new)).await?;
        let decoded = stored.try_parse();
        return decoded.with_context(|| format!("cannot decode the Link {name}"));
    };
    let api = cluster.api::<Link>(&new.namespace().unwrap_or_default());
    let live = cluster
        .request(&format!("read the Link {name}"), api.get_opt(&name))
        .await?;
    if !live.is_some_and(|live| live.uid() == old.uid() && settings_changes(old, &live).is_empty())
    {
        return Err(fail(
            format!("the Link {name} has changed meanwhile"),
            "run this again, which looks at it as it is now",
        ));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::TestServer;

    #[tokio::test]
    async fn link_that_somebody_else_has_changed_is_not_written() {
        let link = |uid: &str, selector: &str| {
            json!({
                "apiVersion": "multicluster.linkerd.io/v1alpha3",
                "kind": "Link",
                "metadata": { "name": "east", "namespace": "mc", "uid": uid },
                "spec": { "targetClusterName": "east", "selector": { "matchLabels": { "team": selector } } },
                "status": { "mirroredServices": [] },
            })
        };
        let old: Link = serde_json::from_value(link("a", "shop")).unwrap();
        for (stored, may) in [
            (vec![link("a", "shop")], true),
            (vec![link("a", "other")], false),
            (vec![link("b", "shop")], false),
            (vec![], false),
        ] {
            let cluster = TestServer::new(stored.clone()).cluster();
            let written = write(&cluster, Some(&old), &old).await;
            let refused = written.err().map(|error| error.to_string());
            let said = "the Link east has changed meanwhile".to_owned();
            assert_eq!(refused, (!may).then_some(said), "{stored:?}");
        }
    }
}
