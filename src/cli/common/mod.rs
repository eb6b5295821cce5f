//! What several commands need.

pub mod args;
pub mod changes;
pub mod cluster;
pub mod cluster_name;
pub mod complete;
pub mod context_pattern;
pub mod contexts;
pub mod files;
pub mod frame;
pub mod given;
pub mod interrupt;
pub mod inventory;
pub mod link_credentials;
pub mod linked;
pub mod log_format;
pub mod mirroring;
pub mod output;
pub mod plugin;
pub mod problems;
pub mod prompt;
pub mod prose;
pub mod proxy_url;
pub mod service_mirror;
pub mod service_name;
pub mod table;
#[cfg(test)]
pub mod test_server;
pub mod wait;
