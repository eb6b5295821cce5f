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

impl ConnectionLoss {
    /// The loss that says most about what is wrong. An API server that refuses a token also closes the connection, and so
    /// ends the other requests on it.
    pub fn most_specific<'a>(losses: impl Iterator<Item = &'a Self>) -> Option<&'a Self> {
        losses.min_by_key(|loss| loss.cause == LossCause::Unreachable)
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_token_says_more_than_the_closed_connection() {
        let closed = ConnectionLoss::from("connection error received".to_owned());
        let late = ConnectionLoss::from("timed out".to_owned());
        let refused = ConnectionLoss {
            why: "Unauthorized".to_owned(),
            cause: LossCause::Token,
        };
        for (losses, expected) in [
            (vec![], None),
            (vec![&closed, &late], Some(&closed)),
            (vec![&closed, &refused], Some(&refused)),
            (vec![&refused, &closed], Some(&refused)),
        ] {
            assert_eq!(ConnectionLoss::most_specific(losses.into_iter()), expected);
        }
    }
}
