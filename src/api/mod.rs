//! Types that are read from and written to API servers, and the texts that people write them as. No behaviour, no client.

pub mod duration;
pub mod foreign;
pub mod k8s;
pub mod labels;
pub mod link;
pub mod map;
pub mod members;
pub mod metadata;
pub mod preference;
pub mod routes;
pub mod selector;
pub mod time;
pub mod wire;
pub mod word;

use serde::{Deserialize, Deserializer};

/// Kubernetes writes `null` where it means that there is nothing.
fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
