//! Values → YAML and JSON documents. No client: what a cluster knows comes in as a value.

pub mod gateway;
pub mod identity;
pub mod install;
pub mod kubeconfig;
pub mod link;
pub mod render;
pub mod values;
pub mod yaml;
