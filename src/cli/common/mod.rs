//! What several commands need.

pub(super) mod args;
pub(super) mod changes;
pub(super) mod cluster;
pub(super) mod cluster_name;
pub(super) mod complete;
pub(super) mod context_pattern;
pub(super) mod contexts;
pub(super) mod files;
pub(super) mod frame;
pub(super) mod given;
pub(super) mod interrupt;
pub(super) mod inventory;
pub(super) mod link_credentials;
pub(super) mod linked;
pub(super) mod log_format;
pub(super) mod mirroring;
pub(super) mod output;
pub(super) mod plugin;
pub(super) mod problems;
pub(super) mod prompt;
pub(super) mod prose;
pub(super) mod proxy_url;
pub(super) mod service_mirror;
pub(super) mod service_name;
pub(super) mod table;
#[cfg(test)]
pub(super) mod test_server;
pub(super) mod wait;
