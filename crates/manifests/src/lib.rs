//! Values → YAML and JSON documents, and certificates. No client: facts about clusters are arguments.

pub mod authority;
#[cfg(test)]
mod chart;
pub mod external_secret;
pub mod gateway;
pub mod install;
pub mod kubeconfig;
pub mod link;
pub mod located;
pub mod render;
pub mod signable_names;
pub mod values;
pub mod yaml;
