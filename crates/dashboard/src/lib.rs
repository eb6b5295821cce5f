//! The page of linkerd-mc that shows linked clusters, and the server that shows it to browsers of this machine. Nothing here
//! asks a cluster: the command hands over what it has read.
//!
//! | Module | Responsibility |
//! | --- | --- |
//! | [`facts`] | what the page shows, as the commands found it |
//! | [`page`] | facts → HTML, in fragments |
//! | [`hub`] | what is shown now, to how many tabs, and their questions |
//! | [`server`] | which requests are answered, and the connections |

pub mod facts;
#[cfg(any(test, feature = "fixtures"))]
pub mod fixtures;
pub mod hub;
#[cfg(test)]
mod in_browser;
pub mod page;
pub mod server;
