//! What a user reads: [`hint`] has errors with a hint, [`suggest`] commands to paste, and [`console`] what goes on
//! meanwhile.

pub mod console;
pub mod hint;
pub mod suggest;
