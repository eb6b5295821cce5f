//! The table with the results of the cases.

use std::{collections::BTreeMap, time::Duration};

use crate::load::Tally;

/// The result of a case.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    /// Whether the proxy had the right endpoints.
    pub(crate) oracle: String,
    /// Times, and other measurements.
    pub(crate) measured: String,
}

impl Row {
    /// A row for a load. The proxy had the right endpoints at the end.
    pub(crate) fn of(tallies: &BTreeMap<String, Tally>) -> Self {
        Self {
            requests: tallies.values().map(|tally| tally.requests).sum(),
            failed: tallies.values().map(|tally| tally.failed).sum(),
            oracle: "right".to_owned(),
            measured: String::new(),
        }
    }

    /// Adds the requests of another row.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.requests += other.requests;
        self.failed += other.failed;
        self
    }

    /// Adds a measurement.
    pub(crate) fn with(mut self, measured: impl Into<String>) -> Self {
        self.measured = measured.into();
        self
    }
}

/// Prints the rows, and the error of each case that failed.
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

/// The time that this percentage of the measurements did not exceed.
pub(crate) fn percentile(times: &mut [Duration], percent: usize) -> Duration {
    times.sort_unstable();
    let place = (times.len() * percent).div_ceil(100).max(1) - 1;
    times.get(place).copied().unwrap_or_default()
}
