//! Types that are read from and written to API servers. No behaviour, no client.

pub mod duration;
pub mod k8s;
pub mod labels;
pub mod link;
