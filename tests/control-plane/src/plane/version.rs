//! The version of Kubernetes that an API server reports.

use anyhow::Context as _;

use super::ControlPlane;

impl ControlPlane {
    /// The minor version of the API server, such as 36: what tests can rely on depends on it.
    pub async fn minor_version(&self) -> anyhow::Result<u32> {
        let version = self.client().apiserver_version().await?;
        // Some vendors add a `+`.
        let minor = version.minor.trim_end_matches('+').parse();
        minor.with_context(|| format!("strange version {}", version.git_version))
    }
}
