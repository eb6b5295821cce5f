//! What the cases have shown, as rows.

use std::{collections::BTreeMap, time::Duration};

use crate::load::Tally;

/// What a case has shown.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    /// What the proxy had for endpoints.
    pub(crate) oracle: String,
    /// Times, and whatever else was measured.
    pub(crate) measured: String,
}

impl Row {
    /// A row of a load under which the proxy was always right in the end.
    pub(crate) fn of(tallies: &BTreeMap<String, Tally>) -> Self {
        Self {
            requests: tallies.values().map(|tally| tally.requests).sum(),
            failed: tallies.values().map(|tally| tally.failed).sum(),
            oracle: "right".to_owned(),
            measured: String::new(),
        }
    }

    /// The same with the requests of another one.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.requests += other.requests;
        self.failed += other.failed;
        self
    }

    /// The same with what else was measured.
    pub(crate) fn with(mut self, measured: impl Into<String>) -> Self {
        self.measured = measured.into();
        self
    }
}

/// Prints the rows, and for each case that failed why.
pub(crate) fn print(rows: &[(&str, anyhow::Result<Row>)]) {
    println!("\n| Case | Requests | Failed | Oracle | Measured |");
    println!("| --- | --- | --- | --- | --- |");
    for (case, outcome) in rows {
        match outcome {
            Ok(row) => println!(
                "| {case} | {} | {} | {} | {} |",
                row.requests, row.failed, row.oracle, row.measured
            ),
            Err(_) => println!("| {case} | | | FAILED | see above |"),
        }
    }
}

/// Seconds, as a table has them.
pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}

/// The times within which so many percent of all lie.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    let place = (times.len() * percent).div_ceil(100).max(1) - 1;
    times.get(place).copied().unwrap_or_default()
}
