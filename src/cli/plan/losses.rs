//! What the controller would remove if a Link were changed, for commands that change one.

use std::{collections::BTreeMap, time::Duration};

use controller::preview::{self, Proposed};
use kube::{Client, ResourceExt as _};
use links::linked::Losses;
use mirror_core::{
    api::{labels, link::Link, members::remote_members},
    mirror::{self, Confirmed, ObjectKind, State, Write},
};
use serde_json::Value;

use super::before;
use crate::cli::common::mirroring::{Mirroring, Parse};

/// Timeout of each request.
const DEADLINE: Duration = Duration::from_secs(30);

/// What the controller of the source cluster would remove if this Link were applied to it. `target` is the target cluster.
/// With the settings of the running controller, which `parse` reads, or with their defaults if the user may not see them.
pub async fn losses(
    source: &Client,
    target: &Client,
    wanted: &Link,
    parse: Parse,
) -> anyhow::Result<Losses> {
    let namespace = wanted.namespace().unwrap_or_default();
    let usual = ["run-controller", "--namespace", &namespace].map(str::to_owned);
    let running = Mirroring::running(&namespace, source, parse).await?;
    let running = running.ok().or_else(|| parse(usual.to_vec()));
    let Some(settings) = running else {
        anyhow::bail!("the settings of the controller cannot be read");
    };
    let name = wanted.name_any();
    let proposed = Proposed {
        link: wanted.clone(),
        credentials: BTreeMap::new(),
    };
    let unreadable = "check that you may list its Services and EndpointSlices".to_owned();
    let (settings, there) = (settings.of_preview(unreadable)?, Some(target.clone()));
    let state = preview::state(source, settings, &name, Some(proposed), there, DEADLINE);
    Ok(removed(&Box::pin(state).await?.state, &name))
}

/// What the plans for a Link remove.
fn removed(state: &State, link: &str) -> Losses {
    let mut losses = Losses::default();
    let Some(cluster) = state
        .links
        .get(link)
        .and_then(|link| link.cluster.as_deref())
    else {
        return losses;
    };
    let keys = state.keys_of_cluster(cluster).into_iter();
    let plans = keys.map(|key| mirror::plan(state, &key, Confirmed::All));
    for write in plans.flat_map(|plan| plan.writes) {
        let (_, _, namespace, name) = write.describe();
        let local = state.local.as_ref();
        let stands = || before(local?, ObjectKind::Service, namespace, name);
        let is_member = |service: &Value| {
            let annotation = |key: &str| service["metadata"]["annotations"][key].as_str();
            remote_members(annotation).any(|(_, of)| of == cluster)
        };
        match &write {
            Write::Delete {
                kind: ObjectKind::Service,
                ..
            } => {
                let Some(service) = stands() else { continue };
                let labels = &service["metadata"]["labels"];
                if labels[labels::MIRRORED_SERVICE].is_null() {
                    continue; // a Service that leads to the gateway
                }
                if labels[labels::CLUSTER_NAME].is_null() {
                    losses.federated += 1;
                } else {
                    losses.mirrors += 1;
                }
            }
            Write::Patch(patch) if patch.kind == ObjectKind::Service => {
                let leaves = stands().is_some_and(|service| {
                    let mut after = service.clone();
                    merge_annotations(&mut after, &patch.body);
                    is_member(&service) && !is_member(&after)
                });
                losses.memberships += usize::from(leaves);
            }
            _ => {}
        }
    }
    losses
}

/// Sets the annotations of a patch.
fn merge_annotations(service: &mut Value, patch: &Value) {
    let set = patch["metadata"]["annotations"].as_object();
    for (key, value) in set.into_iter().flatten() {
        service["metadata"]["annotations"][key] = value.clone();
    }
}
