//! What a process costs, as the kernel counts it.

use std::time::Duration;

/// Memory and time of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Resident memory, MiB.
    pub rss: f64,
    /// Most resident memory ever, MiB.
    pub peak: f64,
    /// User and system time.
    pub cpu: Duration,
}

/// Reads what a process has cost so far.
pub fn cost(pid: u32) -> Cost {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mib = |field: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(field))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok())
            .map_or(0.0, |kib| kib / 1024.0)
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Fields 14 and 15 count from 1, and the name before them may hold blanks. Ticks are 1/100 s on Linux.
    let after = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 = after
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Cost {
        rss: mib("VmRSS:"),
        peak: mib("VmHWM:"),
        cpu: Duration::from_millis(ticks * 10),
    }
}

/// Number of sockets that a process has open.
pub fn connections(pid: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
    files
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .filter(|to| to.to_string_lossy().starts_with("socket:"))
        .count()
}
