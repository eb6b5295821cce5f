//! The report of a run: its steps, and how long each took.

use mirror_core::api::text::one_line;
use serde::Serialize;

use super::CanaryMode;
use crate::junit::{self, JunitCase, JunitOutcome, JunitSuite};

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StepResult {
    /// As it should.
    Passed,
    /// Not as it should; the detail says why.
    Failed,
    /// It was not tried; the detail says why.
    Skipped,
}

impl StepResult {
    /// The result in one word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// One step of a run. Its JSON is part of the documented output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VerifyStep {
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

impl VerifyStep {
    fn case(&self) -> JunitCase {
        let mode = self.mode.map(|mode| format!("{mode}: "));
        let detail = &self.detail;
        JunitCase {
            name: format!("{}{}", mode.unwrap_or_default(), self.step),
            milliseconds: self.milliseconds,
            outcome: match self.result {
                StepResult::Passed => JunitOutcome::Noted(detail.clone()),
                StepResult::Failed => JunitOutcome::Failed {
                    message: one_line(detail),
                    text: detail.clone(),
                },
                StepResult::Skipped => JunitOutcome::Skipped(one_line(detail)),
            },
        }
    }
}

/// The report of a run. Its JSON is the documented output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
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
    pub fn push(&mut self, step: VerifyStep) {
        self.steps.push(step);
        let any = |result| self.steps.iter().any(|step| step.result == result);
        self.success = any(StepResult::Passed) && !any(StepResult::Failed);
    }

    /// `JUnit` XML: one suite, and a case for each step.
    pub fn junit(&self) -> String {
        junit::document(&[JunitSuite {
            name: format!("linkerd-mc verify: {} from {}", self.source, self.target),
            cases: self.steps.iter().map(VerifyStep::case).collect(),
            can_skip: true,
        }])
    }
}
