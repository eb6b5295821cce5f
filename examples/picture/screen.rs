//! The contents of a screen, as runs of text in one style.

use vt100::{Color, Screen};

/// A row of a screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) runs: Vec<Run>,
    /// The column of the cursor, if it is in this row.
    pub(crate) cursor: Option<u16>,
}

/// Text in one style. A new run begins after two blanks in a row, which no run contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) column: u16,
    /// Width in columns.
    pub(crate) width: u16,
    pub(crate) text: String,
    pub(crate) style: Style,
}

/// The style of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// One of the sixteen colours; `None` for the default colour.
    pub(crate) colour: Option<u8>,
    pub(crate) bold: bool,
    pub(crate) dim: bool,
}

/// The rows of a screen. `cursor` says whether the cursor is shown.
pub(crate) fn rows(screen: &Screen, cursor: bool) -> Vec<Row> {
    let (height, width) = screen.size();
    let (at_row, at_column) = screen.cursor_position();
    let row = |number| Row {
        runs: runs(screen, number, width.get()),
        cursor: (cursor && number == at_row).then_some(at_column),
    };
    (0..height.get()).map(row).collect()
}

fn runs(screen: &Screen, row: u16, width: u16) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let mut blanks = 0;
    for column in 0..width {
        let Some(cell) = screen.cell(row, column) else {
            continue;
        };
        if cell.is_wide_continuation() {
            continue;
        }
        if [" ", ""].contains(&cell.contents()) {
            blanks += 1;
            continue;
        }
        let style = Style {
            colour: match cell.fgcolor() {
                Color::Idx(index @ 0..16) => Some(index),
                _ => None,
            },
            bold: cell.bold(),
            dim: cell.dim(),
        };
        let end = column + if cell.is_wide() { 2 } else { 1 };
        match runs.last_mut() {
            Some(run) if run.style == style && blanks < 2 => {
                run.text.extend((0..blanks).map(|_| ' '));
                run.text.push_str(cell.contents());
                run.width = end - run.column;
            }
            _ => runs.push(Run {
                column,
                width: end - column,
                text: cell.contents().to_owned(),
                style,
            }),
        }
        blanks = 0;
    }
    runs
}
