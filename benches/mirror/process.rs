//! Memory and CPU time of a process, as the kernel counts them.

use std::time::Duration;

/// Memory and CPU time of a process since its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Resident memory, MiB.
    pub rss: f64,
    /// Peak of the resident memory, MiB.
    pub peak: f64,
    /// User and system time.
    pub cpu: Duration,
}

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
    // User and system time are fields 14 and 15, counted from 1. Field 2, the name in parentheses, may contain blanks,
    // so the code counts from field 3, behind the parentheses. A tick is 10 ms on Linux.
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
pub fn sockets(pid: u32) -> usize {
    let files = std::fs::read_dir(format!("/proc/{pid}/fd"));
    files
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .filter(|to| to.to_string_lossy().starts_with("socket:"))
        .count()
}
