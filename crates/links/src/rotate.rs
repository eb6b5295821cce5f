//! New credentials for links that are there, without a moment in which none are valid.

pub mod batch;
pub mod credentials;
pub mod decision;
pub mod flags;
pub mod gather;
pub mod outcome;
pub mod restart;
pub mod rotation;
pub mod tokens;
