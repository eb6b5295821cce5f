//! Tables of edits. Edits in one row belong together. A case has at most one row of each group.

mod cluster;
mod files;
mod user;

use crate::case::Edit;

/// Rows, with the percentage of cases that have one of them.
pub(crate) type Group = (u8, &'static [&'static [Edit]]);

/// All groups.
pub(crate) fn groups() -> impl Iterator<Item = Group> {
    let all = [cluster::GROUPS, user::GROUPS, files::GROUPS];
    all.into_iter().flatten().copied()
}
