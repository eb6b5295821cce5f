//! Runs commands that send requests to clusters.

use anyhow::Context as _;

/// Runs a command that sends requests. Other commands start no runtime.
pub fn block_on<T>(command: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("failed to start the async runtime")?;
    let result = runtime.block_on(command);
    // A name lookup that nobody waits for any more must not delay the exit.
    runtime.shutdown_background();
    result
}
