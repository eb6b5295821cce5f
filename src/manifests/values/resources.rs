//! Resource requests and limits, as values.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::deserialize::quantities;

/// Resource requests and limits of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// Limits.
    #[serde(
        default,
        deserialize_with = "quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub limits: BTreeMap<String, String>,
    /// Requests.
    #[serde(
        default,
        deserialize_with = "quantities",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub requests: BTreeMap<String, String>,
}
