//! Values → YAML and JSON documents. No client: facts about clusters are arguments.

#[cfg(test)]
mod chart;
pub mod external_secret;
pub mod gateway;
pub mod install;
pub mod kubeconfig;
pub mod link;
pub mod located;
pub mod render;
pub mod values;
pub mod yaml;
