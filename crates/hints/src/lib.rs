//! What a user reads when something is wrong: [`hint`] has errors with a hint, [`suggest`] commands to paste.

pub mod hint;
pub mod suggest;
