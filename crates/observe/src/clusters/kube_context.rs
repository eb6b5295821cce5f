//! The clusters that a command asks, side by side.

use std::time::Duration;

use client::Cluster;
use futures::{StreamExt as _, stream};
use hints::suggest::ClusterFlags;

use super::snapshot::Known;

/// How long the API server keeps a watch open. A dead connection is detected after this time.
pub const WATCH: Duration = Duration::from_secs(60);

/// A context of the kubeconfig, with the client of its cluster, or the reason why there is none.
pub struct KubeContext {
    /// Its name in the kubeconfig.
    pub name: String,
    /// The client, or why there is none.
    pub client: Known<Cluster>,
    /// Flags with which other commands use the same cluster.
    pub flags: ClusterFlags,
}

/// How many clusters are asked side by side.
const SIDE_BY_SIDE: usize = 16;

/// Asks clusters side by side, not too many at the same time. The answers are in the order of the questions.
pub async fn side_by_side<F: Future>(questions: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    stream::iter(questions)
        .buffered(SIDE_BY_SIDE)
        .collect()
        .await
}
