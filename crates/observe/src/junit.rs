//! Reports as `JUnit` XML, in the dialect that CI systems read
//! (<https://github.com/testmoapp/junitxml>). Pure.

use std::fmt::Write as _;

use mirror_core::api::text::lines;

/// A suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JunitSuite {
    /// Its name, also the class of its cases.
    pub name: String,
    /// Its cases, in order.
    pub cases: Vec<JunitCase>,
    /// Whether cases can be skipped; then it says how many were.
    pub can_skip: bool,
}

/// A case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JunitCase {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub milliseconds: Option<u64>,
    /// How it ended.
    pub outcome: JunitOutcome,
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JunitOutcome {
    /// Well.
    Passed,
    /// Well, and this is to be said about it.
    Noted(String),
    /// It failed.
    Failed {
        /// The first line of the reason.
        message: String,
        /// The whole reason.
        text: String,
    },
    /// It was not tried; why.
    Skipped(String),
}

/// The document of these suites. Times are in seconds.
pub fn document(suites: &[JunitSuite]) -> String {
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    for suite in suites {
        write_suite(&mut xml, suite);
    }
    xml.push_str("</testsuites>\n");
    xml
}

/// Writing to a String cannot fail, here and below.
fn write_suite(xml: &mut String, suite: &JunitSuite) {
    let count = |is: fn(&JunitOutcome) -> bool| {
        let cases = suite.cases.iter();
        cases.filter(|case| is(&case.outcome)).count()
    };
    let name = escaped(&suite.name);
    let failures = count(|outcome| matches!(outcome, JunitOutcome::Failed { .. }));
    let _ = write!(
        xml,
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failures}\"",
        suite.cases.len()
    );
    if suite.can_skip {
        let skipped = count(|outcome| matches!(outcome, JunitOutcome::Skipped(_)));
        let _ = write!(xml, " skipped=\"{skipped}\"");
    }
    xml.push_str(">\n");
    for case in &suite.cases {
        write_case(xml, &name, case);
    }
    xml.push_str("  </testsuite>\n");
}

fn write_case(xml: &mut String, suite: &str, case: &JunitCase) {
    let name = escaped(&case.name);
    let _ = write!(xml, "    <testcase classname=\"{suite}\" name=\"{name}\"");
    if let Some(milliseconds) = case.milliseconds {
        let (seconds, rest) = (milliseconds / 1000, milliseconds % 1000);
        let _ = write!(xml, " time=\"{seconds}.{rest:03}\"");
    }
    let inside = match &case.outcome {
        JunitOutcome::Passed => {
            xml.push_str("/>\n");
            return;
        }
        JunitOutcome::Noted(note) => format!("<system-out>{}</system-out>", escaped(note)),
        JunitOutcome::Failed { message, text } => {
            let (message, text) = (escaped(message), escaped(text));
            format!("<failure message=\"{message}\">{text}</failure>")
        }
        JunitOutcome::Skipped(why) => format!("<skipped message=\"{}\"/>", escaped(why)),
    };
    let _ = writeln!(xml, ">\n      {inside}\n    </testcase>");
}

fn escaped(text: &str) -> String {
    lines(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
