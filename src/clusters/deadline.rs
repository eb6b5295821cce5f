//! Reads that end at a deadline.

use std::time::Duration;

use tokio::time::timeout;

use super::snapshot::Known;

/// The answer, or an error after the deadline.
pub(super) async fn within<T>(
    deadline: Duration,
    read: impl Future<Output = Known<T>>,
) -> Known<T> {
    // Boxed, so that the future of the caller does not contain it twice.
    match timeout(deadline, Box::pin(read)).await {
        Ok(answer) => answer,
        Err(_) => Err(late(deadline)),
    }
}

/// Why there is no answer.
pub(super) fn late(deadline: Duration) -> String {
    format!("timed out after {} s", deadline.as_secs_f32())
}
