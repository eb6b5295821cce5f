//! Measurements of the effect of hostile targets on the controller and its cluster, and their limits.

use std::{collections::BTreeMap, fmt::Write as _, time::Duration};

use control_plane::ControlPlane;

use super::{APART, conduct::Conduct, neighbours::Latencies};
use crate::support::{
    controller::Controller,
    installation::{NAMESPACE, account},
};

/// The limits of a run. A value without a limit (`None`) is only printed. No other test checks these budgets of the
/// controller.
pub(super) struct Bounds {
    /// Resident memory of the controller, MiB.
    pub(super) memory: Option<u64>,
    /// Writes to the source cluster for one hostile target, including refused ones: a burst, and then per second.
    pub(super) writes: Option<(f64, f64)>,
    /// Lines of the log per minute, or in the whole run if it is shorter.
    pub(super) lines: Option<usize>,
    /// Growth of the p99 of the neighbours, in percent, compared with the phase in which another controller has the
    /// hostile targets. Only measured in the long run.
    pub(super) latency: Option<f64>,
    /// The p90 of the neighbours, as a multiple of the p90 of the other controller's neighbours at the same time. Only
    /// measured in the brief run.
    pub(super) slower: f64,
}

/// The start of a phase.
pub(super) struct Mark {
    audit: u64,
    lines: usize,
}

impl Mark {
    /// The current position. Resets the peak of memory.
    pub(super) fn here(source: &ControlPlane, controller: &Controller) -> Self {
        // Writing 5 resets the peak (`VmHWM`): see the manual page proc(5).
        std::fs::write(format!("/proc/{}/clear_refs", controller.pid()), "5").unwrap();
        Self {
            audit: source.audit_mark().unwrap(),
            lines: controller.log().lines().count(),
        }
    }
}

/// Measurements of one phase.
pub(super) struct Figures {
    name: &'static str,
    time: Duration,
    /// Peak of resident memory, in MiB.
    memory: u64,
    latencies: Latencies,
    /// Latencies of the other controller's neighbours at the same time. This controller has no hostile targets.
    undisturbed: Option<Latencies>,
    /// Writes of both controllers by namespace. Each hostile cluster has a namespace of its own.
    writes: BTreeMap<String, usize>,
    /// Writes of statuses of Links, by Link.
    statuses: BTreeMap<String, usize>,
    /// Lines of the log.
    lines: usize,
}

impl Figures {
    /// Measurements since this mark.
    pub(super) fn since(
        mark: &Mark,
        name: &'static str,
        time: Duration,
        latencies: Latencies,
        undisturbed: Option<Latencies>,
        source: &ControlPlane,
        controller: &Controller,
    ) -> Self {
        let (mut writes, mut statuses) = (BTreeMap::new(), BTreeMap::new());
        for event in source.audit_since(mark.audit).unwrap() {
            let is_read = matches!(event.verb.as_str(), "get" | "list" | "watch");
            // Either of the two controllers.
            let is_controller = [NAMESPACE, APART].map(account).contains(&event.user);
            if !is_controller || is_read || event.group == "authorization.k8s.io" {
                continue;
            }
            let (counts, of) = match event.resource.as_str() {
                "links" => (&mut statuses, event.name),
                "events" => (&mut writes, "(Events)".to_owned()),
                _ => (&mut writes, event.namespace),
            };
            *counts.entry(of).or_default() += 1;
        }
        Self {
            name,
            time,
            memory: controller.peak_memory(),
            latencies,
            undisturbed,
            writes,
            statuses,
            lines: controller.log().lines().count() - mark.lines,
        }
    }

    /// Writes per second for a hostile target.
    fn writes_of(&self, conduct: Conduct) -> f64 {
        let count = |counts: &BTreeMap<String, usize>| {
            u32::try_from(counts.get(conduct.name()).copied().unwrap_or_default()).unwrap()
        };
        f64::from(count(&self.writes) + count(&self.statuses)) / self.time.as_secs_f64()
    }

    /// Values over their limits. `before` is the phase with which the p99 is compared.
    pub(super) fn beyond(
        &self,
        bounds: &Bounds,
        conducts: &[Conduct],
        before: Option<&Self>,
    ) -> Vec<String> {
        let mut beyond = Vec::new();
        if let Some(most) = bounds.memory.filter(|most| self.memory > *most) {
            beyond.push(format!("{} MiB of memory, not {most}", self.memory));
        }
        for conduct in conducts {
            let writes = self.writes_of(*conduct);
            let seconds = self.time.as_secs_f64();
            let most = bounds.writes.map(|(burst, each)| burst / seconds + each);
            if most.is_some_and(|most| writes > most) {
                beyond.push(format!(
                    "{writes:.1} writes a second for {}",
                    conduct.name()
                ));
            }
        }
        let minutes = self.time.as_secs_f64() / 60.0;
        #[expect(clippy::cast_precision_loss, reason = "a count of lines")]
        let lines = self.lines as f64 / minutes.max(1.0);
        #[expect(clippy::cast_precision_loss, reason = "a count of lines")]
        if bounds.lines.is_some_and(|most| lines > most as f64) {
            beyond.push(format!("{lines:.0} lines of log a minute"));
        }
        let all = self.undisturbed.iter().chain([&self.latencies]);
        let missing: usize = all.map(|latencies| latencies.missing).sum();
        if missing > 0 {
            beyond.push(format!("{missing} changes of neighbours are missing"));
        }
        let slower = self.slower();
        if slower.is_some_and(|times| times > bounds.slower) {
            beyond.push(format!("neighbours take {slower:.1?} times as long"));
        }
        let growth = before.map(|before| self.growth(before));
        if let (Some(most), Some(growth)) = (bounds.latency, growth)
            && growth > most
        {
            beyond.push(format!("p99 of the neighbours grew by {growth:.0} %"));
        }
        beyond
    }

    /// The p90 of the neighbours, as a multiple of the p90 of the other controller's neighbours.
    fn slower(&self) -> Option<f64> {
        let p90 = |latencies: &Latencies| latencies.at(90).as_secs_f64();
        Some(p90(&self.latencies) / p90(self.undisturbed.as_ref()?))
    }

    /// Growth of the p99 since the phase `before`, in percent.
    fn growth(&self, before: &Self) -> f64 {
        let p99 = |figures: &Self| figures.latencies.at(99).as_secs_f64();
        (p99(self) / p99(before) - 1.0) * 100.0
    }
}

/// The measurements as a table.
pub(super) fn table(phases: &[Figures], conducts: &[Conduct]) -> String {
    let mut text = format!("{:<34}", "");
    let mut row = |name: String, cell: &dyn Fn(&Figures) -> String| {
        let _ = write!(text, "\n{name:<34}");
        for phase in phases {
            // Writing to a String cannot fail.
            let _ = write!(text, " {:>16}", cell(phase));
        }
    };
    row("phase".into(), &|p| p.name.into());
    row("seconds".into(), &|p| p.time.as_secs().to_string());
    row("most resident memory, MiB".into(), &|p| {
        p.memory.to_string()
    });
    row("neighbours' changes".into(), &|p| {
        p.latencies.count().to_string()
    });
    row("  missing".into(), &|p| p.latencies.missing.to_string());
    for percent in [50, 90, 99, 100] {
        row(format!("  p{percent}, ms"), &|p| {
            p.latencies.at(percent).as_millis().to_string()
        });
    }
    row("  p90 of another controller, ms".into(), &|p| {
        let undisturbed = p.undisturbed.as_ref().map(|latencies| latencies.at(90));
        undisturbed.map_or_else(|| "-".into(), |p90| p90.as_millis().to_string())
    });
    row("lines of log".into(), &|p| p.lines.to_string());
    row("Events".into(), &|p| {
        p.writes
            .get("(Events)")
            .copied()
            .unwrap_or_default()
            .to_string()
    });
    for conduct in conducts {
        row(format!("writes a second for {}", conduct.name()), &|p| {
            format!("{:.1}", p.writes_of(*conduct))
        });
    }
    for pair in phases.windows(2) {
        let grew = pair[1].growth(&pair[0]);
        let (from, to) = (pair[0].name, pair[1].name);
        let _ = write!(text, "\np99 grew by {grew:.0} % from {from} to {to}");
    }
    text
}
