//! Values that a command makes once for all of its clusters.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::OnceCell;

/// Values by keys. Its clones are the same.
pub struct OnceMap<T>(Arc<Mutex<BTreeMap<String, Arc<OnceCell<T>>>>>);

impl<T: Clone> OnceMap<T> {
    /// The value of a key, which `make` makes unless it is there. Those that ask at the same time wait for the first.
    pub async fn get(
        &self,
        key: String,
        make: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let cell = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            cells.entry(key).or_default().clone()
        };
        cell.get_or_try_init(|| make).await.cloned()
    }
}

impl<T> Clone for OnceMap<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for OnceMap<T> {
    fn default() -> Self {
        Self(Arc::default())
    }
}
