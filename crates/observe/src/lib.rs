//! What linkerd-mc finds out about clusters and their Links, and how it judges that. Nothing here writes to a cluster but
//! [`clusters::canaries`].
//!
//! | Module | Responsibility |
//! | --- | --- |
//! | [`check`], [`diagnose`] | the rules of `check`; the layers of `diagnose` |
//! | [`traffic`], [`verify`], [`drain`] | the sums of `traffic`; the judgements of `verify` and of `drain --dry-run` |
//! | [`attack`] | what thieves of tokens try, and how the API server answers |
//! | [`finding`] | what is wrong, as all of these say it |
//! | [`timeline`] | what happened in clusters, and when |
//! | [`clusters`] | what all of these, and `status` read |
//! | [`junit`] | reports for CI |

pub mod attack;
pub mod check;
pub mod clusters;
pub mod diagnose;
pub mod drain;
pub mod finding;
pub mod junit;
pub mod timeline;
pub mod traffic;
pub mod verify;
