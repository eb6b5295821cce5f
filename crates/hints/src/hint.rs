//! Errors with hints for the user: an [`anyhow::Error`] may have one hint.
//!
//! A leaf: it uses no other module.

use std::fmt;

/// A step of an error chain with a hint.
#[derive(Debug)]
struct Hinted {
    what: String,
    hint: String,
    /// Whether the command line asks for something that cannot be done.
    is_misuse: bool,
    source: Option<anyhow::Error>,
}

impl fmt::Display for Hinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Hinted {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(AsRef::as_ref)
    }
}

/// An error that says what failed and what to do. Both are one sentence without a period.
pub fn fail(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    hinted(what.into(), hint.into(), false, None)
}

/// Like [`fail`], for a command line that makes no sense: the exit code is that of one that clap refuses.
pub fn misuse(what: impl Into<String>, hint: impl Into<String>) -> anyhow::Error {
    hinted(what.into(), hint.into(), true, None)
}

/// Like [`fail`], with the cause.
pub fn caused(
    what: impl Into<String>,
    hint: impl Into<String>,
    cause: impl Into<anyhow::Error>,
) -> anyhow::Error {
    hinted(what.into(), hint.into(), false, Some(cause.into()))
}

fn hinted(
    what: String,
    hint: String,
    is_misuse: bool,
    source: Option<anyhow::Error>,
) -> anyhow::Error {
    anyhow::Error::new(Hinted {
        what,
        hint,
        is_misuse,
        source,
    })
}

/// Whether an error is one of [`misuse`].
pub fn is_misuse(error: &anyhow::Error) -> bool {
    steps(error).any(|step| step.is_misuse)
}

/// Adds a message and a hint to an error.
pub trait HintExt<T> {
    /// Like [`anyhow::Context::with_context`], with a hint.
    fn hint(
        self,
        what: impl FnOnce() -> String,
        hint: impl FnOnce() -> String,
    ) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> HintExt<T> for Result<T, E> {
    fn hint(
        self,
        what: impl FnOnce() -> String,
        hint: impl FnOnce() -> String,
    ) -> anyhow::Result<T> {
        self.map_err(|error| caused(what(), hint(), error))
    }
}

/// The innermost hint of an error, which is nearest to the cause.
pub fn hint_of(error: &anyhow::Error) -> Option<&str> {
    let innermost = steps(error).last();
    innermost.map(|step| step.hint.as_str())
}

fn steps(error: &anyhow::Error) -> impl Iterator<Item = &Hinted> {
    let steps = error.chain();
    steps.filter_map(|step| step.downcast_ref::<Hinted>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_hint_wins_and_the_chain_is_kept() {
        let inner: anyhow::Result<()> = Err(anyhow::anyhow!("refused"));
        let outer = inner
            .hint(|| "cannot reach east".into(), || "is it up?".into())
            .hint(|| "cannot link".into(), || "try again".into())
            .unwrap_err();
        assert_eq!(hint_of(&outer), Some("is it up?"));
        let chain: Vec<String> = outer.chain().map(ToString::to_string).collect();
        assert_eq!(chain, ["cannot link", "cannot reach east", "refused"]);
        assert_eq!(hint_of(&anyhow::anyhow!("plain")), None);
    }
}
