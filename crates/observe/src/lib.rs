//! What linkerd-mc finds out about clusters and their Links, and how it judges that. Nothing here writes to a cluster but
//! [`clusters::canaries`].
//!
//! | Module | Responsibility |
//! | --- | --- |
//! | [`check`], [`diagnose`] | the rules of `check`; the layers of `diagnose` |
//! | [`traffic`], [`verify`], [`drain`] | the sums of `traffic`; the judgements of `verify` and of `drain --dry-run` |
//! | [`finding`] | what is wrong, as all of these say it |
//! | [`timeline`] | what happened in clusters, and when |
//! | [`clusters`] | what all of these, `status` and `graph` read |
//! | [`junit`] | reports for CI |

pub mod check;
pub mod clusters;
pub mod diagnose;
pub mod drain;
pub mod finding;
pub mod junit;
pub mod timeline;
pub mod traffic;
pub mod verify;
