//! Why a target cluster does not answer.

use std::fmt;

/// Why a target cluster does not answer, or only with an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionLoss {
    /// One line.
    pub why: String,
    /// What a user has to look at.
    pub cause: LossCause,
}

/// The cause of a [`ConnectionLoss`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LossCause {
    /// There is no connection, or the API server has a problem.
    #[default]
    Unreachable,
    /// The certificate of the API server cannot be verified.
    Certificate,
    /// The API server refuses the token.
    Token,
    /// The local Service that leads to the API server does not exist.
    NoService,
}

impl From<String> for ConnectionLoss {
    fn from(why: String) -> Self {
        Self {
            why,
            cause: LossCause::default(),
        }
    }
}

impl fmt::Display for ConnectionLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}
