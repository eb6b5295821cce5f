//! Drains: a target cluster takes no part in federated Services for a while, for example during maintenance. An
//! annotation of its Link sets the drain. The controller and the commands share this rule.

use std::fmt;

use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use crate::api::{conditions::drained, duration::rfc3339, text::short};

/// What is wrong with the end of a drain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid time {0:?} (use RFC 3339, such as 2026-01-31T12:00:00Z)")]
pub struct DrainError(String);

/// A target cluster that is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrainState {
    /// End of the drain.
    pub until: Timestamp,
    /// Federated Services that it has to leave.
    pub leaving: usize,
    /// Federated Services that it stays in, because they have no other member.
    pub last: usize,
}

impl DrainState {
    /// The reason of the condition `Drained`.
    pub fn reason(&self) -> &'static str {
        match (self.leaving, self.last) {
            (0, 0) => drained::DRAINED,
            (0, _) => drained::LAST_MEMBER,
            _ => drained::LEAVING,
        }
    }
}

impl fmt::Display for DrainState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&until(self.until))?;
        if self.leaving > 0 {
            write!(f, "; federated Services to leave: {}", self.leaving)?;
        }
        if self.last > 0 {
            write!(
                f,
                "; federated Services that it stays in because they have no other member: {}",
                self.last
            )?;
        }
        Ok(())
    }
}

/// The text for the end of a drain. The text of a [`Drain`] begins with it.
pub fn until(time: Timestamp) -> String {
    format!("until {}", rfc3339(time))
}

/// The end of the drain that the message of a condition `Drained` shows: the other way round than [`DrainState`].
pub fn shown_end(message: &str) -> Option<Timestamp> {
    let (end, _) = message.split_once(';').unwrap_or((message, ""));
    end.strip_prefix("until ")?.parse().ok()
}

/// Reads a Link's annotation.
pub(crate) fn drained_until(text: &str) -> Result<Timestamp, DrainError> {
    let time = text.trim().parse();
    time.map_err(|_| DrainError(short(text)))
}

#[cfg(test)]
mod tests;
