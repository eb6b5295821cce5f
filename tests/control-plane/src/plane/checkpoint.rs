//! Returns of a control plane to an earlier state, for a small part of what a new one costs.
//!
//! Everything that an API server stores is a key of etcd, and the API server watches all of them. So when the keys have
//! their earlier values again, that is for the API server and its clients as if somebody had undone every change.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client, Config, ResourceExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::ControlPlane;
use crate::wait::eventually;

/// How long kube-controller-manager may take for what it does in each namespace, or go on writing after a return.
const SETTLED: Duration = Duration::from_secs(60);
/// The most operations that etcd allows in a transaction (`--max-txn-ops`).
const OPERATIONS: usize = 128;
/// The keys of the API server's objects: from the first on, and before the second.
const OBJECTS: [&str; 2] = ["/registry/", "/registry0"];
/// The keys of namespaces.
const NAMESPACES: &str = "/registry/namespaces/";
/// Events. kube-controller-manager repeats them for minutes, for Services that are no more.
const EVENTS: &str = "/registry/events/";
/// Leases that servers renew all the time.
const LEASES: &[u8] = b"/registry/leases/kube-system/";

/// All objects of a control plane at one time, by their keys in etcd.
#[derive(Debug)]
pub struct Checkpoint(BTreeMap<String, Stored>);

/// What etcd stores under a key, as its JSON interface has it: key and value in base64.
#[derive(Clone, Debug, Deserialize)]
struct Stored {
    key: String,
    #[serde(default)]
    value: String,
    mod_revision: String,
}

impl ControlPlane {
    /// Reads all objects, once each namespace and each aggregated role has what kube-controller-manager puts there.
    /// Otherwise each return would undo that, and the controller would do it again.
    pub async fn checkpoint(&self) -> anyhow::Result<Checkpoint> {
        eventually("what the controllers write", SETTLED, async || {
            let settled = self.are_all_controlled().await? && self.are_all_aggregated().await?;
            Ok(settled.then_some(()))
        })
        .await?;
        let all = self.stored(false).await?;
        Ok(Checkpoint(
            all.into_iter()
                .map(|stored| (stored.key.clone(), stored))
                .collect(),
        ))
    }

    /// Makes all objects what they were at the checkpoint, with the same UIDs.
    ///
    /// Whatever wrote to the cluster must have ended. What kube-controller-manager writes meanwhile is undone too, but
    /// for Events that it repeats later.
    ///
    /// # Errors
    ///
    /// If something goes on writing, or a server does not answer.
    pub async fn return_to(&self, checkpoint: &mut Checkpoint) -> anyhow::Result<()> {
        let deadline = Instant::now() + SETTLED;
        let mut removed = BTreeSet::<String>::new();
        loop {
            let changes = checkpoint.changes(self.stored(true).await?);
            let is_waited_for = changes.iter().any(|change| !change.is_event());
            if !is_waited_for {
                self.carry_out(&changes, checkpoint).await?;
                self.wait_until_ready(deadline).await?;
                let Some(namespace) = removed.pop_first() else {
                    return Ok(());
                };
                self.wait_until_unknown(&namespace, deadline).await?;
                continue;
            }
            ensure!(
                Instant::now() < deadline,
                "something goes on writing: {}",
                changes
                    .iter()
                    .map(Change::key)
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            removed.extend(changes.iter().filter_map(Change::removed_namespace));
            self.carry_out(&changes, checkpoint).await?;
        }
    }

    async fn carry_out(
        &self,
        changes: &[Change],
        checkpoint: &mut Checkpoint,
    ) -> anyhow::Result<()> {
        for some in changes.chunks(OPERATIONS) {
            let operations: Vec<Value> = some.iter().map(Change::operation).collect();
            let answer: Answer = self.etcd("txn", &json!({ "success": operations })).await?;
            for change in some {
                checkpoint.note(change, &answer.header.revision);
            }
        }
        Ok(())
    }

    /// Until the API server creates nothing in a namespace that was removed. Before, it lets kube-controller-manager
    /// create what each namespace has, because it judges by a copy of the namespaces that lags behind etcd.
    async fn wait_until_unknown(&self, namespace: &str, deadline: Instant) -> anyhow::Result<()> {
        let maps: Api<ConfigMap> = Api::namespaced(self.client(), namespace);
        let map = serde_json::from_value(json!({ "metadata": { "generateName": "probe-" } }))?;
        let probe = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        eventually(
            "the end of a namespace",
            deadline - Instant::now(),
            async || match maps.create(&probe, &map).await {
                Ok(_) => Ok(None),
                Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Some(())),
                Err(error) => Err(error.into()),
            },
        )
        .await
    }

    async fn are_all_controlled(&self) -> anyhow::Result<bool> {
        let namespaces = Api::<Namespace>::all(self.client());
        let namespaces = namespaces.list(&ListParams::default()).await?;
        for namespace in &namespaces {
            if !self.is_controlled(&namespace.name_any()).await? {
                return Ok(false);
            }
        }
        // The API server creates these namespaces one after another when it has started.
        Ok(namespaces.items.len() >= 4)
    }

    async fn are_all_aggregated(&self) -> anyhow::Result<bool> {
        let roles = Api::<ClusterRole>::all(self.client());
        Ok(are_aggregated(
            &roles.list(&ListParams::default()).await?.items,
        ))
    }

    /// What etcd stores for the API server.
    async fn stored(&self, keys_only: bool) -> anyhow::Result<Vec<Stored>> {
        let [from, to] = OBJECTS.map(|key| STANDARD.encode(key));
        let range = json!({ "key": from, "range_end": to, "keys_only": keys_only });
        let mut all = self.etcd::<Range>("range", &range).await?.kvs;
        all.retain(|stored| {
            STANDARD
                .decode(&stored.key)
                .is_ok_and(|key| !key.starts_with(LEASES))
        });
        Ok(all)
    }

    /// Calls a method of the JSON interface of etcd.
    async fn etcd<T: DeserializeOwned>(&self, method: &str, body: &Value) -> anyhow::Result<T> {
        let client = Client::try_from(Config::new(self.etcd_url.parse()?))?;
        let request = http::Request::post(format!("/v3/kv/{method}"));
        let answer = client.request(request.body(serde_json::to_vec(body)?)?);
        answer.await.with_context(|| format!("etcd: {method}"))
    }
}

/// Whether each role has the rules of all roles that it aggregates.
fn are_aggregated(roles: &[ClusterRole]) -> bool {
    roles.iter().all(|role| {
        let selectors = role.aggregation_rule.iter();
        let selectors = selectors.flat_map(|rule| rule.cluster_role_selectors.iter().flatten());
        let rules = selectors.flat_map(|selector| {
            let wanted = selector.match_labels.iter().flatten();
            let selected = roles.iter().filter(move |part| {
                wanted
                    .clone()
                    .all(|(key, value)| part.labels().get(key) == Some(value))
            });
            selected.flat_map(|part| part.rules.iter().flatten())
        });
        let own = role.rules.as_deref().unwrap_or_default();
        rules.into_iter().all(|rule| own.contains(rule))
    })
}

/// What etcd answers to a read of many keys.
#[derive(Deserialize)]
struct Range {
    #[serde(default)]
    kvs: Vec<Stored>,
}

/// What etcd answers to a transaction.
#[derive(Deserialize)]
struct Answer {
    header: Header,
}

#[derive(Deserialize)]
struct Header {
    revision: String,
}

/// A step of a return.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    /// Removes the key.
    Remove(String),
    /// Gives the key its earlier value.
    Put(String, String),
}

impl Change {
    /// The key, as it is read.
    fn key(&self) -> String {
        let (Self::Remove(key) | Self::Put(key, _)) = self;
        let bytes = STANDARD.decode(key).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn is_event(&self) -> bool {
        self.key().starts_with(EVENTS)
    }

    /// The namespace that this removes.
    fn removed_namespace(&self) -> Option<String> {
        let key = matches!(self, Self::Remove(_)).then(|| self.key())?;
        key.strip_prefix(NAMESPACES).map(str::to_owned)
    }

    /// The operation of a transaction.
    fn operation(&self) -> Value {
        match self {
            Self::Remove(key) => json!({ "request_delete_range": { "key": key } }),
            Self::Put(key, value) => json!({ "request_put": { "key": key, "value": value } }),
        }
    }
}

impl Checkpoint {
    /// What makes of the keys that are stored now those of the checkpoint.
    fn changes(&self, now: Vec<Stored>) -> Vec<Change> {
        let now: BTreeMap<String, String> = now
            .into_iter()
            .map(|stored| (stored.key, stored.mod_revision))
            .collect();
        let new = now.keys().filter(|key| !self.0.contains_key(*key));
        let changed = self
            .0
            .values()
            .filter(|before| now.get(&before.key) != Some(&before.mod_revision));
        new.cloned()
            .map(Change::Remove)
            .chain(changed.map(|before| Change::Put(before.key.clone(), before.value.clone())))
            .collect()
    }

    /// Notes that etcd has made a change in this revision.
    fn note(&mut self, change: &Change, revision: &str) {
        if let Change::Put(key, _) = change
            && let Some(stored) = self.0.get_mut(key)
        {
            revision.clone_into(&mut stored.mod_revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, labels: &Value, verbs: &[&str], sum: &Value) -> ClusterRole {
        let rules = verbs
            .iter()
            .map(|verb| json!({ "apiGroups": [""], "resources": ["pods"], "verbs": [verb] }));
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": labels },
            "rules": rules.collect::<Vec<_>>(),
            "aggregationRule": sum,
        }))
        .unwrap()
    }

    /// As in a new cluster: `edit` aggregates `view`, which aggregates the last one.
    #[test]
    fn aggregated_roles_are_waited_for() {
        let of =
            |label: &str| json!({ "clusterRoleSelectors": [{ "matchLabels": { label: "true" } }] });
        let cases: [(&[&str], &[&str], bool); 4] = [
            (&[], &[], false),
            (&[], &["get"], false),
            (&["get"], &[], false),
            (&["get"], &["get"], true),
        ];
        for (edit, view, expected) in cases {
            let roles = [
                role("edit", &json!({}), edit, &of("to-edit")),
                role("view", &json!({ "to-edit": "true" }), view, &of("to-view")),
                role(
                    "part",
                    &json!({ "to-view": "true" }),
                    &["get"],
                    &Value::Null,
                ),
                role("other", &json!({}), &["list"], &Value::Null),
            ];
            assert_eq!(are_aggregated(&roles), expected, "{edit:?} {view:?}");
        }
    }

    fn stored(key: &str, value: &str, revision: &str) -> Stored {
        Stored {
            key: key.into(),
            value: value.into(),
            mod_revision: revision.into(),
        }
    }

    #[test]
    fn changes_are_those_that_undo_what_happened_since() {
        let before = ["same", "other", "gone"].map(|key| stored(key, "was", "1"));
        let mut checkpoint = Checkpoint(before.into_iter().map(|s| (s.key.clone(), s)).collect());
        let now = [("same", "1"), ("other", "3"), ("new", "2")];
        let changes = checkpoint.changes(now.map(|(key, at)| stored(key, "", at)).into());
        let put = |key: &str| Change::Put(key.into(), "was".into());
        assert_eq!(
            changes,
            [Change::Remove("new".into()), put("gone"), put("other")]
        );

        for change in &changes {
            checkpoint.note(change, "4");
        }
        let then = [("same", "1"), ("other", "4"), ("gone", "4")];
        let then = then.map(|(key, at)| stored(key, "", at));
        assert_eq!(checkpoint.changes(then.into()), []);
    }
}
