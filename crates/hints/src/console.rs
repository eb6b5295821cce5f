//! Who tells the user what goes on meanwhile. The command line prints it; nothing below does.

use std::fmt::Debug;

/// Gets what a user should know while a command works. Results and errors are returned instead.
pub trait Console: Debug + Send + Sync {
    /// What is being done, or was done.
    fn note(&self, text: &str);
    /// What the user may have to act on.
    fn warning(&self, text: &str);
}

/// Says nothing: for tests, and for completions.
#[derive(Debug)]
struct Silent;

impl Console for Silent {
    fn note(&self, _: &str) {}
    fn warning(&self, _: &str) {}
}

impl Default for &dyn Console {
    fn default() -> Self {
        &Silent
    }
}
