//! What a user reads: [`hint`] has errors with a hint, [`suggest`] commands to paste, [`console`] what goes on meanwhile,
//! and [`prose`] numbers and lists in words.

pub mod console;
pub mod hint;
pub mod prose;
pub mod suggest;
