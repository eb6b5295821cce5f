//! Prints the tables of all commands, and ages in them: like kubectl's, with upper-case headers and no lines.
//!
//! A table that is wider than the terminal is cut in its elastic columns, widest first, marked with `…`. Then columns
//! are left out that can be missed. What tells rows apart is cut last, and in its middle.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Color, Style};
use comfy_table::{CellAlignment, ContentArrangement, presets};
use dialoguer::console::{Term, measure_text_width, truncate_str};
use jiff::{SignedDuration, Timestamp};

use mirror_core::api::text::one_line;

/// Spaces between columns.
const GAP: u16 = 2;
/// An elastic column is not cut below this width, nor below its header's.
const MIN_WIDTH: usize = 8;

#[derive(Clone, Copy, Debug)]
pub struct Column {
    header: &'static str,
    elastic: bool,
    right: bool,
    key: bool,
    /// Columns with the highest number are left out first, and those without one never.
    spare: u8,
}

impl Column {
    /// A column of short words.
    pub const fn new(header: &'static str) -> Self {
        Self {
            header,
            elastic: false,
            right: false,
            key: false,
            spare: 0,
        }
    }

    /// A column of names that tell the rows apart.
    pub const fn key(header: &'static str) -> Self {
        Self {
            key: true,
            ..Self::elastic(header)
        }
    }

    /// The column, which is left out if the table is too wide: those with the highest number first.
    pub const fn spare(self, order: u8) -> Self {
        Self {
            spare: order,
            ..self
        }
    }

    /// A column of names or sentences, which may be cut.
    pub const fn elastic(header: &'static str) -> Self {
        Self {
            elastic: true,
            ..Self::new(header)
        }
    }

    /// A column of numbers.
    pub const fn number(header: &'static str) -> Self {
        Self {
            right: true,
            ..Self::new(header)
        }
    }
}

/// How a text is colored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
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
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    /// A cell with a tone.
    pub fn toned(text: impl AsRef<str>, tone: Tone) -> Self {
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

#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    pub fn new(columns: impl Into<Vec<Column>>) -> Self {
        Self {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: a cell for each column.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len());
        self.rows.push(row);
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as colored text, with lines no longer than `width` if possible.
    #[cfg(test)]
    pub fn render(&self, width: Option<usize>) -> String {
        let lines = self.lines(width);
        lines.into_iter().map(|line| line + "\n").collect()
    }

    /// The lines of the table, the header's first.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let Some(width) = width else {
            return self.laid_out(&self.widths());
        };
        let mut table = self.clone();
        let mut left_out = Vec::new();
        loop {
            let mut widths = table.widths();
            if table.cut(&mut widths, width, false) {
                return table.with_missing(&widths, left_out, width);
            }
            let Some(header) = table.leave_out() else {
                table.cut(&mut widths, width, true);
                return table.with_missing(&widths, left_out, width);
            };
            left_out.push(header);
        }
    }

    /// The lines of the table, and a last one with the columns that were left out.
    fn with_missing(&self, widths: &[usize], mut left_out: Vec<&str>, width: usize) -> Vec<String> {
        let mut lines = self.laid_out(widths);
        if !left_out.is_empty() {
            left_out.reverse();
            let (dim, names) = (Style::new().dimmed(), left_out.join(", "));
            let text = format!("(too narrow for {names})");
            lines.push(format!("{dim}{}{dim:#}", truncate_str(&text, width, "…)")));
        }
        lines
    }

    /// The lines of the table with columns of these widths.
    fn laid_out(&self, widths: &[usize]) -> Vec<String> {
        let cut = |text: &str, at: usize| {
            if self.columns[at].key {
                cut_middle(text, widths[at])
            } else {
                truncate_str(text, widths[at], "…").into_owned()
            }
        };
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

    /// Widths of the columns with nothing cut.
    fn widths(&self) -> Vec<usize> {
        let headers = self.columns.iter();
        let mut widths: Vec<_> = headers.map(|c| measure_text_width(c.header)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(&cell.text));
            }
        }
        widths
    }

    /// Cuts elastic columns, the widest first; those that tell rows apart only if `keys`. Returns whether the table
    /// fits then.
    fn cut(&self, widths: &mut [usize], limit: usize, keys: bool) -> bool {
        let gaps = usize::from(GAP) * self.columns.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > limit {
            let may_be_cut = |at: &usize| {
                let column = &self.columns[*at];
                let floor = measure_text_width(column.header).max(MIN_WIDTH);
                column.elastic && (keys || !column.key) && widths[*at] > floor
            };
            let columns = (0..widths.len()).filter(may_be_cut);
            let Some(widest) = columns.max_by_key(|&at| widths[at]) else {
                return false;
            };
            widths[widest] -= 1;
        }
        true
    }

    /// Removes the column that can be missed most. Returns its header, if there was one.
    fn leave_out(&mut self) -> Option<&'static str> {
        let columns = self.columns.iter().enumerate();
        let spare = columns.filter(|(_, column)| column.spare > 0);
        let (at, _) = spare.max_by_key(|(_, column)| column.spare)?;
        let column = self.columns.remove(at);
        for row in &mut self.rows {
            row.remove(at);
        }
        Some(column.header)
    }
}

/// A text without its middle, no wider than `width`.
pub fn cut_middle(text: &str, width: usize) -> String {
    if measure_text_width(text) <= width {
        return text.to_owned();
    }
    let kept = width.saturating_sub(1);
    let begin = truncate_str(text, kept.div_ceil(2), "");
    let mut rest = text;
    while measure_text_width(rest) > kept / 2 {
        let mut chars = rest.chars();
        chars.next();
        rest = chars.as_str();
    }
    format!("{begin}…{rest}")
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

/// Height and width of the terminal, if stdout is one.
pub fn terminal_size() -> Option<(usize, usize)> {
    size_of(&Term::stdout())
}

/// Width of the terminal, if stderr is one.
pub fn stderr_width() -> Option<usize> {
    size_of(&Term::stderr()).map(|(_, width)| width)
}

fn size_of(terminal: &Term) -> Option<(usize, usize)> {
    let (height, width) = terminal.is_term().then(|| terminal.size_checked())??;
    Some((height.into(), width.into()))
}

/// Width of the terminal, if stdout is one.
pub fn terminal_width() -> Option<usize> {
    terminal_size().map(|(_, width)| width)
}

/// How long ago something was; `-` when that is unknown, `0s` when it is in the future.
pub fn age(now: Timestamp, then: Option<Timestamp>) -> String {
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
    fn columns_that_can_be_missed_are_left_out_before_keys_are_cut() {
        let mut table = Table::new([
            Column::key("CLUSTER"),
            Column::new("READY"),
            Column::number("LATENCY").spare(2),
            Column::new("CHANGED").spare(1),
            Column::elastic("REASON"),
        ]);
        for cluster in ["production-eu-west-1", "production-eu-west-2"] {
            let cells = [cluster, "True", "12ms", "3m", "some words to be cut"];
            table.push(cells.map(Cell::from).into());
        }
        for (width, expected) in [
            (80, "CLUSTER               READY  LATENCY  CHANGED  REASON"),
            (58, "CLUSTER               READY  LATENCY  CHANGED  REASON"),
            (50, "CLUSTER               READY  CHANGED  REASON"),
            (40, "CLUSTER               READY  REASON"),
            (30, "CLUSTER        READY  REASON"),
        ] {
            let lines = table.lines(Some(width));
            assert_eq!(lines[0], expected, "{width}");
            assert!(
                lines.iter().all(|line| measure_text_width(line) <= width),
                "{lines:?}"
            );
        }
        let narrow = table.lines(Some(30));
        let last = plain(narrow.last().unwrap());
        assert_eq!(last, "(too narrow for CHANGED, LAT…)");
        assert!(narrow[1].starts_with("produc…west-1  True"), "{narrow:?}");
        assert!(narrow[2].starts_with("produc…west-2  True"), "{narrow:?}");
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
