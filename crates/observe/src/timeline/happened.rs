//! An entry of the time line.

use jiff::Timestamp;
use serde::Serialize;

/// Something that happened. Its JSON is part of the documented output of `diagnose`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Happened {
    /// When.
    pub at: Timestamp,
    /// In which cluster; empty until it is in a [`Timeline`].
    pub cluster: String,
    /// The kind, the namespace and the name of the object.
    pub about: String,
    /// What happened to it.
    pub what: String,
}
