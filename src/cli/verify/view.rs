//! The table of `verify`. Pure.

use mirror_core::api::text::one_line;
use observe::verify::{StepResult, VerifyReport};

use crate::cli::common::{
    frame::ScreenFrame,
    table::{Cell, Column, Table, Tone},
};

/// The table of a report, with a sentence below it.
pub fn text(report: &VerifyReport, width: Option<usize>) -> String {
    let mut table = Table::new([
        Column::new("MODE"),
        Column::new("STEP"),
        Column::new("RESULT"),
        Column::number("MS"),
        Column::elastic("DETAIL"),
    ]);
    for step in &report.steps {
        let tone = match step.result {
            StepResult::Passed => Tone::Good,
            StepResult::Failed => Tone::Bad,
            StepResult::Skipped => Tone::Doubtful,
        };
        let took = step.milliseconds.map(|took| took.to_string());
        table.push(vec![
            Cell::from(step.mode.map_or("", observe::verify::CanaryMode::as_str)),
            Cell::from(step.step),
            Cell::toned(step.result.as_str(), tone),
            Cell::from(took.unwrap_or_default()),
            Cell::from(&step.detail),
        ]);
    }
    // A table cuts long lines, and these are what matters.
    let failed = report
        .steps
        .iter()
        .filter(|step| step.result == StepResult::Failed);
    let mut notes: Vec<String> = failed
        .map(|step| one_line(&format!("{}: {}", step.step, step.detail)))
        .collect();
    let (source, target) = (&report.source, &report.target);
    notes.push(if report.success {
        format!("{source} reaches the Services of {target}")
    } else {
        format!("{source} does not reach all Services of {target}")
    });
    ScreenFrame {
        tables: vec![table.lines(width)],
        notes,
    }
    .text()
}
