//! The report of a run: its steps, and how long each took.

use std::fmt::Write as _;

use serde::Serialize;

use super::CanaryMode;
use crate::api::text::{lines, one_line};

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum StepResult {
    /// As it should.
    Passed,
    /// Not as it should; the detail says why.
    Failed,
    /// It was not tried; the detail says why.
    Skipped,
}

impl StepResult {
    /// The result in one word.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One step of a run. Its JSON is part of the documented output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct VerifyStep {
    /// The mode that it is about; `null` if it is about all.
    pub mode: Option<CanaryMode>,
    /// Its name.
    pub step: &'static str,
    /// How it ended.
    pub result: StepResult,
    /// How long it took. For a mode, since its Service was created.
    pub milliseconds: Option<u64>,
    /// What was found.
    pub detail: String,
}

/// The report of a run. Its JSON is the documented output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct VerifyReport {
    /// Whether all steps that were tried have passed, and one at least.
    pub success: bool,
    /// Context of the source cluster.
    pub source: String,
    /// Context of the target cluster.
    pub target: String,
    /// The Link: namespace and name.
    pub link: String,
    /// The namespace of the canaries.
    pub namespace: String,
    /// In the order in which they were tried.
    pub steps: Vec<VerifyStep>,
}

impl VerifyReport {
    /// Adds a step.
    pub(crate) fn push(&mut self, step: VerifyStep) {
        self.steps.push(step);
        let any = |result| self.steps.iter().any(|step| step.result == result);
        self.success = any(StepResult::Passed) && !any(StepResult::Failed);
    }

    /// `JUnit` XML: one suite, and a case for each step. Times are in seconds.
    pub(crate) fn junit(&self) -> String {
        let count = |result| self.steps.iter().filter(|s| s.result == result).count();
        let suite = escaped(&format!(
            "linkerd-mc verify: {} from {}",
            self.source, self.target
        ));
        let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
        // Writing to a String cannot fail.
        let _ = writeln!(
            xml,
            "  <testsuite name=\"{suite}\" tests=\"{}\" failures=\"{}\" skipped=\"{}\">",
            self.steps.len(),
            count(StepResult::Failed),
            count(StepResult::Skipped)
        );
        for step in &self.steps {
            let mode = step
                .mode
                .map(|mode| format!("{mode}: "))
                .unwrap_or_default();
            let _ = write!(
                xml,
                "    <testcase classname=\"{suite}\" name=\"{mode}{}\"",
                step.step
            );
            if let Some(milliseconds) = step.milliseconds {
                let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
                let _ = write!(xml, " time=\"{seconds}.{rest:03}\"");
            }
            let detail = escaped(&step.detail);
            let _ = match step.result {
                StepResult::Passed => writeln!(
                    xml,
                    ">\n      <system-out>{detail}</system-out>\n    </testcase>"
                ),
                StepResult::Failed => writeln!(
                    xml,
                    ">\n      <failure message=\"{}\">{detail}</failure>\n    </testcase>",
                    one_line(&detail)
                ),
                StepResult::Skipped => writeln!(
                    xml,
                    ">\n      <skipped message=\"{}\"/>\n    </testcase>",
                    one_line(&detail)
                ),
            };
        }
        xml.push_str("  </testsuite>\n</testsuites>\n");
        xml
    }
}

/// A text in XML.
fn escaped(text: &str) -> String {
    lines(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
