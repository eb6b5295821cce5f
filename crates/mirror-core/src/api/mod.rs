//! Types of API objects, and parsers of their text forms. No behaviour, no client.

pub mod conditions;
pub mod consent;
pub mod covers;
pub mod duration;
pub mod gateway_suffixes;
pub mod interned_str;
pub mod k8s;
pub mod labels;
pub mod link;
pub mod map;
pub mod members;
pub mod metadata;
pub mod names;
pub mod preference;
pub mod route;
pub mod selector;
pub mod selector_text;
pub mod text;
pub mod tls;
pub mod wire;

use serde::{Deserialize, Deserializer};

/// Reads `null`, which Kubernetes writes for empty values, as the default.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
