//! Why a plan was not executed to its end.

use std::time::Duration;

use super::written::Written;

/// Why a plan was not executed to its end.
#[derive(Clone, Debug)]
pub(in crate::controller) enum Failure {
    /// The object is not what the plan was made from: look again, plan again. With what is there instead, if
    /// that was seen.
    Outdated(Option<Box<Written>>),
    /// The name belongs to an object that is not ours.
    Foreign {
        /// Namespace.
        namespace: String,
        /// Name.
        name: String,
        /// Whose it is.
        who: String,
    },
    /// The namespace is missing or on its way out.
    NoNamespace,
    /// The API server has no `ClusterIP` left.
    NoClusterIp,
    /// The lease is not held any more.
    Fenced,
    /// The API server said no, or nothing. With the time it wants to be left alone for.
    Refused {
        /// One sentence.
        message: String,
        /// From `Retry-After`.
        wait: Option<Duration>,
    },
}
