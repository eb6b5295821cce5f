//! Changes links: what `link`, `unlink`, `rotate` and `fleet` read, plan, show and write. It says what it does to a
//! `Console`, and prints nothing.
//!
//! | Module | Responsibility |
//! | --- | --- |
//! | [`fleet`] | the clusters of a file: what is read of them, and the plan of all its links |
//! | [`fleet_file`] | what such a file says, and its schema |
//! | [`rotate`] | new credentials for links that are there |
//! | [`link`] | one link: its flags, its target cluster, what its source cluster has |
//! | [`steps`] | the objects that are written and deleted: what is shown is what runs |
//! | [`linked`], [`inventory`] | the Links and other objects of a cluster |
//! | [`link_credentials`] | the cluster and the account that a credentials Secret leads to |
//! | [`extension`] | the objects of `install` for one cluster |
//! | [`typed`], [`proxy_url`], [`cluster_name`], [`context_pattern`] | values that people type |
//! | [`poll`], [`files`], [`given`], [`linkerd`] | helpers |

// The command line is the only user: names of fields and variants say what they are where no line stands above them.
#![allow(missing_docs)]

pub mod cluster_name;
pub mod context_pattern;
pub mod extension;
pub mod files;
pub mod fleet;
pub mod fleet_file;
pub mod given;
pub mod inventory;
pub mod link;
pub mod link_credentials;
pub mod linked;
pub mod linkerd;
pub mod poll;
pub mod proxy_url;
pub mod rotate;
pub mod steps;
#[cfg(any(test, feature = "fixtures"))]
pub mod test_server;
pub mod typed;
