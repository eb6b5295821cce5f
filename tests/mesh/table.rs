//! The table with the results of the cases, and the line above it that says when and with what they were measured.

use std::{
    collections::BTreeMap, fmt::Write as _, fs, path::Path, process::Command, thread,
    time::Duration,
};

use anyhow::Context as _;

use crate::{isolation::Place, load::Tally, rig::process::pipe};

/// The last table; a run overwrites it.
const FILE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/mesh.md");

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

/// Prints the rows below what [`measured`] says, and writes them into a file.
pub(crate) fn publish(rows: &[(&str, anyhow::Result<Row>)], measured: &str) -> anyhow::Result<()> {
    let mut table = format!(
        "{measured}\n\n| Case | Requests | Failed | Oracle | Measured |\n| --- | --- | --- | --- | --- |\n"
    );
    for (case, outcome) in rows {
        match outcome {
            Ok(row) => writeln!(
                table,
                "| {case} | {} | {} | {} | {} |",
                row.requests, row.failed, row.oracle, row.measured
            )?,
            Err(error) => {
                let error = error.to_string().replace('|', "/");
                let first = error.lines().next().unwrap_or_default();
                writeln!(table, "| {case} | | | FAILED | {first} |")?;
            }
        }
    }
    print!("\n{table}");
    fs::write(FILE, table).with_context(|| format!("failed to write {FILE}"))
}

/// The day, the commit and the versions, as the documents name them above their tables.
pub(crate) fn measured(place: &Place, kubernetes: u32) -> anyhow::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "the day of the run")]
    let day = jiff::Timestamp::now().strftime("%Y-%m-%d");
    let commit = env!("LINKERD_MC_BUILD_COMMIT").get(..7);
    let linkerd = place.programs.join("linkerd");
    let linkerd = pipe(
        Command::new(linkerd).args(["version", "--client", "--short"]),
        "",
    )?;
    Ok(format!(
        "Measured on {day}, commit `{}`{}, with Linkerd {} and Kubernetes 1.{kubernetes} on {} cores.",
        commit.unwrap_or("unknown"),
        if is_changed() { " with changes" } else { "" },
        linkerd.trim(),
        thread::available_parallelism()?,
    ))
}

/// Whether files differ from those of the commit.
fn is_changed() -> bool {
    let status = Command::new("git")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")))
        .args(["diff", "--quiet", "HEAD"])
        .status();
    status.is_ok_and(|status| status.code() == Some(1))
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
