//! The limit of open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for hundreds of clusters. macOS allows no more.
const MANY: u64 = 10_240;

/// Raises the limit that programs begin with, as far as the system allows: often 1,024, and 256 on macOS. A fleet has a
/// connection to each cluster. Programs in Go do this too.
pub fn allow_many() {
    let limit = getrlimit(Resource::Nofile);
    let allowed = limit.maximum.unwrap_or(MANY).min(MANY);
    if limit.current.is_some_and(|current| current < allowed) {
        // If it fails, the lower limit is enough for some clusters.
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit {
                current: Some(allowed),
                ..limit
            },
        );
    }
}
