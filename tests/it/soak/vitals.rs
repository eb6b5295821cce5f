//! Resource use of a process.

use std::fmt::Write as _;

use crate::support::controller::Controller;

/// Growth that is tolerated in addition to a tenth: allocators keep freed memory, and a request may be in progress.
const SLACK: [u64; 4] = [6 * 1024, 6, 10, 2];
const NAMES: [&str; 4] = ["RSS, KiB", "tasks", "open files", "threads"];

/// Resident memory in KiB, tasks of the runtime, open files, threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vitals([u64; 4]);

impl Vitals {
    /// Current values of a controller.
    pub(super) async fn of(controller: &Controller) -> Self {
        let process = format!("/proc/{}", controller.pid());
        let status = std::fs::read_to_string(format!("{process}/status")).unwrap();
        let files = std::fs::read_dir(format!("{process}/fd")).unwrap().count();
        let tasks = controller.metric("linkerd_mc_tasks").await.unwrap();
        let number = |name: &str| {
            let value = status.lines().find_map(|line| line.strip_prefix(name));
            let value = value.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            value.unwrap_or_else(|| panic!("there is no {name}"))
        };
        Self([
            number("VmRSS:"),
            tasks.expect("a metric of tasks"),
            files as u64,
            number("Threads:"),
        ])
    }

    /// The maximum of each value.
    pub(super) fn most(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|n| self.0[n].max(other.0[n])))
    }

    /// Values that grew by more than the tolerance.
    pub(super) fn grown_since(&self, first: &Self) -> Vec<String> {
        let all = self.0.iter().zip(first.0).zip(SLACK).zip(NAMES);
        all.filter(|(((now, then), slack), _)| **now > then + then / 10 + slack)
            .map(|(((now, then), _), name)| format!("{name} grew from {then} to {now}"))
            .collect()
    }
}

/// The values as a table.
pub(super) fn table(first: &Vitals, last: &Vitals, max: &Vitals) -> String {
    let mut text = format!(
        "{:<10} {:>9} {:>9} {:>9}",
        "", "warmed up", "at end", "most"
    );
    for (n, name) in NAMES.iter().enumerate() {
        let (first, last, max) = (first.0[n], last.0[n], max.0[n]);
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{name:<10} {first:>9} {last:>9} {max:>9}");
    }
    text
}
