//! What a command has for all of its clusters: one client for each cluster and user, and one run of each plugin.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kube::{Client, Config, config::AuthInfo};
use serde_json::json;
use tokio::sync::OnceCell;

use super::{config::Identity, exec::Ran, multiplexed::Authenticated};

/// The clients and the plugins of a command. Its clones are the same.
#[derive(Clone, Default)]
pub struct Shared {
    clients: Map<Client>,
    plugins: Map<Ran>,
}

impl Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

impl Shared {
    /// The client of a configuration. Those that ask at the same time wait for the first.
    pub(super) async fn client(
        &self,
        config: Config,
        deadline: Duration,
    ) -> anyhow::Result<Client> {
        let AuthInfo {
            impersonate,
            impersonate_uid,
            impersonate_groups,
            impersonate_user_extra,
            ..
        } = &config.auth_info;
        // As a `Value`, its keys are in order.
        let acts_as = json!([
            impersonate,
            impersonate_uid,
            impersonate_groups,
            impersonate_user_extra
        ]);
        let identity = Identity::of(&config);
        let skips = config.accept_invalid_certs;
        let key = format!("{identity:?} {skips} {acts_as} {deadline:?}");
        let cell = self.clients.cell(key);
        let client = cell.get_or_try_init(async || {
            let authenticated = Authenticated::new(config, deadline, self);
            Box::pin(authenticated).await?.client(deadline)
        });
        client.await.cloned()
    }

    /// What a plugin printed, which `run` runs unless it has run already.
    pub(super) async fn plugin(
        &self,
        key: String,
        run: impl Future<Output = anyhow::Result<Ran>>,
    ) -> anyhow::Result<Ran> {
        self.plugins
            .cell(key)
            .get_or_try_init(|| run)
            .await
            .cloned()
    }
}

/// Values that are made once.
struct Map<T>(Arc<Mutex<BTreeMap<String, Arc<OnceCell<T>>>>>);

impl<T> Map<T> {
    fn cell(&self, key: String) -> Arc<OnceCell<T>> {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.entry(key).or_default().clone()
    }
}

impl<T> Clone for Map<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}
