//! How much of a table `status` shows.

/// How much of a table is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli::status) struct Shape {
    /// Whether several clusters are asked.
    pub(in crate::cli::status) several: bool,
    /// Whether all columns are shown.
    pub(in crate::cli::status) wide: bool,
}
