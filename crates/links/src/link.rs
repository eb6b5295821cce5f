//! One link: its flags, what is read of its target cluster, and what its source cluster has.

pub mod api_server;
pub mod direction;
pub mod existing;
pub mod facts;
pub mod flags;
pub mod generate;
pub mod handed;
pub mod keys;
pub mod profile;
pub mod remark;
pub mod source;
pub mod summary;
pub mod taken;
