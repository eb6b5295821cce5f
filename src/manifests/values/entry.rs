//! A part of the schema of `install`'s values.

use super::kind::Kind;

/// A key or a group of keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// Dotted path.
    pub(super) path: &'static str,
    /// What is at this path.
    pub(super) shape: Shape,
    /// Its description: a sentence without a period.
    pub(super) doc: &'static str,
}

/// What is at a path.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// A value of this kind.
    Value(Kind),
    /// A group with these entries.
    Group(&'static [Entry]),
}
