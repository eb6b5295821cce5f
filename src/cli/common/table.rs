//! Prints the tables of all commands, and ages in them: like kubectl's, with upper-case headers and no lines.
//!
//! A table that is wider than the terminal is cut in its elastic columns, widest first, marked with `…`.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Color, Style};
use comfy_table::{CellAlignment, ContentArrangement, presets};
use dialoguer::console::{Term, measure_text_width, truncate_str};
use jiff::{SignedDuration, Timestamp};

use crate::api::text::one_line;

/// Spaces between columns.
const GAP: u16 = 2;
/// An elastic column is not cut below this width, nor below its header's.
const MIN_WIDTH: usize = 8;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    header: &'static str,
    elastic: bool,
    right: bool,
}

impl Column {
    /// A column of short words.
    pub(crate) const fn new(header: &'static str) -> Self {
        Self {
            header,
            elastic: false,
            right: false,
        }
    }

    /// A column of names or sentences, which may be cut.
    pub(crate) const fn elastic(header: &'static str) -> Self {
        Self {
            elastic: true,
            ..Self::new(header)
        }
    }

    /// A column of numbers.
    pub(crate) const fn number(header: &'static str) -> Self {
        Self {
            right: true,
            ..Self::new(header)
        }
    }
}

/// How a text is colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Nothing in particular.
    Plain,
    /// As it should be.
    Good,
    /// Not as it should be, or not known.
    Doubtful,
    /// Wrong.
    Bad,
}

impl Tone {
    fn style(self) -> Style {
        let color = match self {
            Self::Plain => return Style::new(),
            Self::Good => AnsiColor::Green,
            Self::Doubtful => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
        };
        Style::new().fg_color(Some(Color::Ansi(color)))
    }
}

/// A cell. Its text has one line and no control characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    pub(crate) fn toned(text: impl AsRef<str>, tone: Tone) -> Self {
        let mut text = one_line(text.as_ref());
        if text.is_empty() {
            text.push('-');
        }
        Self { text, tone }
    }
}

impl<T: AsRef<str>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// A table.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a cell for each column.
    pub(crate) fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Whether there are no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as colored text, with lines no longer than `width` if possible.
    pub(crate) fn render(&self, width: Option<usize>) -> String {
        let lines = self.lines(width);
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// The lines of the table, the header's first.
    pub(crate) fn lines(&self, width: Option<usize>) -> Vec<String> {
        let widths = self.fit(width);
        let cut = |text: &str, column: usize| truncate_str(text, widths[column], "…").into_owned();
        let mut layout = comfy_table::Table::new();
        layout
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(self.columns.iter().map(|column| column.header));
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                let texts = row.iter().enumerate();
                texts.map(|(at, cell)| cut(&cell.text, at)).collect()
            })
            .collect();
        for row in &rows {
            layout.add_row(row);
        }
        for (column, shape) in self.columns.iter().zip(layout.column_iter_mut()) {
            shape.set_padding((0, GAP));
            if column.right {
                shape.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut lines: Vec<_> = layout
            .lines()
            .map(|line| line.trim_end().to_owned())
            .collect();
        for ((line, row), texts) in lines.iter_mut().skip(1).zip(&self.rows).zip(&rows) {
            *line = paint(line, row, texts);
        }
        lines
    }

    /// Widths of the columns that make the table fit.
    fn fit(&self, width: Option<usize>) -> Vec<usize> {
        let header = |column: &Column| measure_text_width(column.header);
        let mut widths: Vec<_> = self.columns.iter().map(header).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(&cell.text));
            }
        }
        let gaps = usize::from(GAP) * self.columns.len().saturating_sub(1);
        let limit = width.unwrap_or(usize::MAX);
        while widths.iter().sum::<usize>() + gaps > limit {
            let floor = |at: usize| header(&self.columns[at]).max(MIN_WIDTH);
            let widest = (0..widths.len())
                .filter(|&at| self.columns[at].elastic && widths[at] > floor(at))
                .max_by_key(|&at| widths[at]);
            match widest {
                Some(at) => widths[at] -= 1,
                None => break,
            }
        }
        widths
    }
}

/// Colors the cells of a finished line. Each is searched for after the one before it.
fn paint(line: &str, row: &[Cell], texts: &[String]) -> String {
    let mut painted = String::with_capacity(line.len() + 32);
    let mut rest = line;
    for (cell, text) in row.iter().zip(texts) {
        let Some((before, after)) = rest.split_once(text.as_str()) else {
            break;
        };
        let style = cell.tone.style();
        // Writing to a String cannot fail.
        let _ = write!(painted, "{before}{style}{text}{style:#}");
        rest = after;
    }
    painted + rest
}

/// Width of the terminal, if stdout is one.
pub(crate) fn terminal_width() -> Option<usize> {
    let terminal = Term::stdout();
    let (_, width) = terminal.is_term().then(|| terminal.size_checked())??;
    Some(width.into())
}

/// How long ago something was; `-` when that is unknown, `0s` when it is in the future.
pub(crate) fn age(now: Timestamp, then: Option<Timestamp>) -> String {
    then.map_or_else(|| "-".to_owned(), |then| short(now.duration_since(then)))
}

/// A span in at most two units, fewer the longer it is. Steps are those of `kubectl get`.
fn short(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let years = days / 365;
    let two = |whole: i64, unit: char, rest: i64, small: char| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if hours < 3 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, 'd', hours % 24, 'h')
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        two(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            Column::elastic("CLUSTER"),
            Column::new("GATEWAY"),
            Column::number("MIRRORED"),
            Column::elastic("REASON"),
        ]);
        table.push(vec![
            "east".into(),
            Cell::toned("alive", Tone::Good),
            "12".into(),
            Cell::toned("", Tone::Plain),
        ]);
        table.push(vec![
            "a-cluster-with-a-rather-long-name".into(),
            Cell::toned("dead", Tone::Bad),
            "7".into(),
            "what\nwent \u{1b}[31mwrong, told at length and more".into(),
        ]);
        table
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        insta::assert_snapshot!(plain(&table().render(None)), @r"
        CLUSTER                            GATEWAY  MIRRORED  REASON
        east                               alive          12  -
        a-cluster-with-a-rather-long-name  dead            7  what went [31mwrong, told at length and more
        ");
    }

    #[test]
    fn a_table_is_cut_to_the_terminal_widest_column_first() {
        let text = plain(&table().render(Some(60)));
        insta::assert_snapshot!(text, @r"
        CLUSTER               GATEWAY  MIRRORED  REASON
        east                  alive          12  -
        a-cluster-with-a-ra…  dead            7  what went [31mwron…
        ");
        assert!(text.lines().all(|line| line.chars().count() <= 60));
        // Columns have a minimum width.
        let narrow = plain(&table().render(Some(10)));
        assert!(narrow.contains("a-clust…"), "{narrow}");
    }

    #[test]
    fn only_the_cell_is_coloured() {
        let line = &table().lines(None)[1];
        assert!(line.contains("  \u{1b}[32malive\u{1b}[0m  "), "{line:?}");
    }

    #[test]
    fn ages_are_formatted_as_by_kubectl() {
        const DAY: i64 = 86_400;
        for (seconds, expected) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (8 * 3_600, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3_600, "2d1h"),
            (8 * DAY, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (740 * DAY, "2y10d"),
            (3_000 * DAY, "8y"),
        ] {
            assert_eq!(
                short(SignedDuration::from_secs(seconds)),
                expected,
                "{seconds}"
            );
        }
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            age(now, Some("2026-01-01T00:00:00Z".parse().unwrap())),
            "60s"
        );
        assert_eq!(age(now, None), "-");
    }
}
