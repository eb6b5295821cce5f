//! The text of a diagnosis on a terminal.

use client::timing;
use hints::prose::wrapped;
use observe::diagnose::{Diagnosis, report};

use crate::cli::common::{table::terminal_width, timeline};

/// Where the text of a layer begins.
const INDENT: usize = 12;

/// A report without lines that are longer than the terminal is wide. Commands stay whole, so that they can be copied.
pub fn fitted(text: &str, width: Option<usize>) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        if line.starts_with("  in ") {
            return line.to_owned();
        }
        let hang = if line.starts_with(' ') { 0 } else { INDENT };
        wrapped(line, width, hang)
    });
    lines.collect()
}

/// The text of a diagnosis, and if something is wrong, of what happened.
pub fn text(diagnosis: &Diagnosis) -> String {
    fitted(&report::text(diagnosis), terminal_width()) + &happened(diagnosis)
}

/// What happened, if something is wrong.
pub fn happened(diagnosis: &Diagnosis) -> String {
    match diagnosis.cause() {
        Some(_) => timeline::text(&diagnosis.timeline, timing::now(), terminal_width()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_fits_the_terminal_and_keeps_commands_whole() {
        let report = "Fix: words that are more than fit\n  \
                      in east: kubectl -n shop get pods -o wide\n\n\
                      × objects   NotExported: words that are more\n";
        let text = fitted(report, Some(32));
        assert_eq!(
            text,
            "Fix: words that are more than\n            fit\n  \
             in east: kubectl -n shop get pods -o wide\n\n\
             × objects   NotExported: words\n            that are more\n"
        );
        assert_eq!(fitted(report, None), report);
    }
}
