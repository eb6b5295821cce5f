//! What the user has to know about a link that was generated. The command prints it.

use crate::cli::common::output;

/// What the user has to know about a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli) enum Remark {
    Warning(String),
    Note(String),
}

impl Remark {
    /// Prints it.
    pub(in crate::cli) fn say(&self) {
        match self {
            Self::Warning(text) => output::warning(text),
            Self::Note(text) => output::note(text),
        }
    }

    /// Prints it, for one of several clusters.
    pub(in crate::cli) fn say_of(&self, cluster: &str) {
        match self {
            Self::Warning(text) => output::warning(&format!("{cluster}: {text}")),
            Self::Note(text) => output::note(&format!("{cluster}: {text}")),
        }
    }

    /// Says that a setting stays, although the target cluster has another value now.
    pub(super) fn kept(what: &str, kept: &str, now: &str, flag: &str) -> Self {
        Self::Note(format!(
            "the link keeps the {what} {kept}; pass {flag} {now} to use the current one"
        ))
    }
}
