//! What several commands need.

pub mod args;
pub mod changes;
pub mod cluster;
pub mod complete;
pub mod contexts;
pub mod format;
pub mod frame;
pub mod interrupt;
pub mod log_format;
pub mod mirroring;
pub mod output;
pub mod plugin;
pub mod problems;
pub mod prompt;
pub mod service_mirror;
pub mod service_name;
pub mod table;
pub mod terminal;
pub mod timeline;
pub mod wait;
