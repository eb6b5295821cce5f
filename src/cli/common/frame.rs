//! Tables and notes on a screen that may be too small for them. Pure.

/// Tables and the notes below them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenFrame {
    /// Their lines, each with its header first.
    pub tables: Vec<Vec<String>>,
    /// A line each.
    pub notes: Vec<String>,
}

impl ScreenFrame {
    /// All of it, with an empty line between its parts.
    pub fn text(&self) -> String {
        let parts = self.tables.iter().chain([&self.notes]);
        let parts: Vec<String> = parts
            .filter(|lines| !lines.is_empty())
            .map(|lines| lines.join("\n") + "\n")
            .collect();
        parts.join("\n")
    }

    /// As much of it as fits a terminal of this size, and how many lines are missing. The header and the first row of
    /// each table always stay. Of the rest, rows are left out before notes, because notes have the problems.
    pub fn fitted(&self, height: usize, width: usize) -> String {
        let is_too_high =
            |text: &str| text.lines().map(|line| rows_of(line, width)).sum::<usize>() >= height;
        let whole = self.text();
        if !is_too_high(&whole) {
            return whole;
        }
        let (mut frame, mut missing) = (self.clone(), 0);
        // Rows go before notes, and those of the last table before those of the first.
        loop {
            let rows = frame.tables.iter_mut().rev().find(|table| table.len() > 2);
            let line = match rows {
                Some(rows) => rows.pop(),
                None => frame.notes.pop(),
            };
            if line.is_none() {
                break;
            }
            missing += 1;
            let text = frame.text() + &left_out(missing);
            if !is_too_high(&text) {
                return text;
            }
        }
        frame.text()
    }
}

fn left_out(lines: usize) -> String {
    format!("… and {lines} more lines: choose a SERVICE, a --namespace or a --cluster-name\n")
}

/// How many rows of a terminal a line takes.
fn rows_of(line: &str, width: usize) -> usize {
    let plain = anstream::adapter::strip_str(line).to_string();
    plain.chars().count().div_ceil(width.max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_does_not_fit_keeps_headers_and_problems() {
        let rows = |name: &str, count: usize| -> Vec<String> {
            let rows = (1..count).map(|n| format!("{name} {n}"));
            [name.to_uppercase()].into_iter().chain(rows).collect()
        };
        let frame = ScreenFrame {
            tables: vec![rows("link", 3), rows("service", 40)],
            notes: vec!["x".repeat(30)],
        };
        assert_eq!(frame.fitted(100, 20), frame.text());
        let fitted = frame.fitted(14, 100);
        insta::assert_snapshot!(fitted, @r"
        LINK
        link 1
        link 2

        SERVICE
        service 1
        service 2
        service 3
        service 4
        service 5

        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        … and 34 more lines: choose a SERVICE, a --namespace or a --cluster-name
        ");
        assert!(fitted.lines().count() < 14);
        let tiny = frame.fitted(9, 20);
        assert!(tiny.starts_with("LINK\nlink 1\n"), "{tiny}");
    }
}
