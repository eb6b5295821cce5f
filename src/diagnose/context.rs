//! What a layer judges.

use super::{layer::Commands, subject::Subject};
use crate::clusters::request_path::RequestPath;

/// The facts, and what the Service is.
pub(crate) struct PathContext<'a> {
    pub(crate) facts: &'a RequestPath,
    pub(crate) subject: Subject<'a>,
    pub(crate) commands: &'a Commands,
}
