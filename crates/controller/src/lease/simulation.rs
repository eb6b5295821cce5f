//! Simulates two candidates for one lease: clocks of different speed, slow and lost messages, stopped processes. The
//! rules are the real ones; only the requests are simulated.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::rules::{Act, Record, Sight, decide, fence_end};

const DURATION: Duration = Duration::from_secs(30);

/// Milliseconds of true time.
type Millis = u64;

/// One request of a candidate: the delay of the request, the delay of the response, how long the process is stopped
/// after that (SIGSTOP), and whether the response is lost.
#[derive(Clone, Debug)]
struct Step {
    there: Millis,
    back: Millis,
    pause: Millis,
    lost: bool,
    /// Whether the process ends its leadership and releases the lease.
    quits: bool,
}

#[derive(Clone, Debug)]
struct Plan {
    /// Speed of the clock in per mille of true time.
    speed: u64,
    steps: Vec<Step>,
}

#[derive(Debug)]
enum Phase {
    Start,
    AtServer {
        start: Millis,
        write: Option<Record>,
    },
    Answered {
        start: Millis,
        result: Option<Result<Option<Record>, ()>>,
        wrote: bool,
    },
}

struct Candidate {
    name: &'static str,
    speed: u64,
    steps: std::vec::IntoIter<Step>,
    step: Step,
    phase: Phase,
    next: Millis,
    sight: Option<Sight>,
    leads: bool,
    /// Intervals in true time in which the fence held.
    held: Vec<(Millis, Millis)>,
}

const RETRY: Millis = 2_000;

impl Candidate {
    fn new(name: &'static str, plan: Plan) -> Option<Self> {
        let mut steps = plan.steps.into_iter();
        let step = steps.next()?;
        Some(Self {
            name,
            speed: plan.speed,
            next: step.pause,
            steps,
            step,
            phase: Phase::Start,
            sight: None,
            leads: false,
            held: Vec::new(),
        })
    }

    /// True time → this candidate's clock.
    fn clock(&self, base: Instant, at: Millis) -> Instant {
        base + Duration::from_micros(at * self.speed)
    }

    /// A reading of this candidate's clock → true time, rounded up.
    fn true_time(&self, base: Instant, reading: Instant) -> Millis {
        let micros = u64::try_from((reading - base).as_micros()).unwrap();
        micros.div_ceil(self.speed)
    }

    /// Runs one phase; false when there are no more steps.
    fn run(&mut self, base: Instant, server: &mut Server) -> bool {
        let now = self.next;
        match std::mem::replace(&mut self.phase, Phase::Start) {
            Phase::Start => {
                let write = self.want(self.clock(base, now));
                self.phase = Phase::AtServer { start: now, write };
                self.next = now + self.step.there;
            }
            Phase::AtServer { start, write } => {
                let wrote = write.is_some();
                let result = match write {
                    None => Ok(server.record.clone()),
                    Some(record) => server.write(record),
                };
                let result = (!self.step.lost).then_some(result);
                self.phase = Phase::Answered {
                    start,
                    result,
                    wrote,
                };
                self.next = now + self.step.back + self.step.pause;
            }
            Phase::Answered {
                start,
                result,
                wrote,
            } => {
                self.answered(base, start, now, result, wrote);
                let Some(step) = self.steps.next() else {
                    return false;
                };
                self.step = step;
                self.next = now + RETRY;
            }
        }
        true
    }

    /// The record to write; `None` to read the lease.
    fn want(&mut self, now: Instant) -> Option<Record> {
        let sight = self.sight.as_ref()?;
        let version = || sight.record.as_ref().map_or("", |r| &r.version).to_owned();
        let mine = |holder: &str, duration| Record {
            holder: holder.to_owned(),
            duration,
            version: version(),
        };
        if self.leads && self.step.quits {
            return Some(mine("", Duration::from_secs(1)));
        }
        match decide(sight, now, self.name, DURATION) {
            Act::Create | Act::Take | Act::Renew => Some(mine(self.name, DURATION)),
            Act::Wait(_) => None,
        }
    }

    fn answered(
        &mut self,
        base: Instant,
        start: Millis,
        now: Millis,
        result: Option<Result<Option<Record>, ()>>,
        wrote: bool,
    ) {
        if wrote && self.leads && self.step.quits {
            // `release` closes the fence before it sends.
            self.leads = false;
            self.sight = None;
            for (_, until) in &mut self.held {
                *until = start.min(*until);
            }
            return;
        }
        match result {
            Some(Ok(record)) => {
                let at = self.clock(base, now);
                match &mut self.sight {
                    Some(sight) => sight.update(record, at),
                    None => self.sight = Some(Sight::new(record, at)),
                }
                if wrote {
                    self.leads = true;
                    let end = fence_end(self.clock(base, start), DURATION);
                    self.held.push((now, self.true_time(base, end)));
                }
            }
            // Rejected: read the lease before writing again.
            Some(Err(())) => {
                self.leads = false;
                self.sight = None;
            }
            // Unknown whether the write succeeded: the resourceVersion shows it at the next write.
            None => {}
        }
    }
}

#[derive(Default)]
struct Server {
    record: Option<Record>,
    writes: u64,
}

impl Server {
    fn write(&mut self, record: Record) -> Result<Option<Record>, ()> {
        let current = self.record.as_ref().map_or("", |r| &r.version);
        if current != record.version {
            return Err(());
        }
        self.writes += 1;
        let version = self.writes.to_string();
        self.record = Some(Record { version, ..record });
        Ok(self.record.clone())
    }
}

/// Runs both to their ends and returns when each held the fence.
fn simulate(a: Plan, b: Plan) -> [Vec<(Millis, Millis)>; 2] {
    let base = Instant::now();
    let mut server = Server::default();
    let mut held = [Vec::new(), Vec::new()];
    let mut running: Vec<_> = [("a", a), ("b", b)]
        .into_iter()
        .filter_map(|(name, plan)| Candidate::new(name, plan))
        .collect();
    while let Some(index) = (0..running.len()).min_by_key(|i| running[*i].next) {
        if !running[index].run(base, &mut server) {
            let done = running.swap_remove(index);
            held[usize::from(done.name == "b")] = done.held;
        }
    }
    held
}

fn plan() -> impl Strategy<Value = Plan> {
    let step = (
        prop_oneof![4 => 0..50u64, 1 => 0..20_000u64],
        prop_oneof![4 => 0..50u64, 1 => 0..20_000u64],
        prop_oneof![6 => Just(0), 1 => 0..90_000u64],
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.05),
    );
    let step = step.prop_map(|(there, back, pause, lost, quits)| Step {
        there,
        back,
        pause,
        lost,
        quits,
    });
    (960..1_040u64, prop::collection::vec(step, 1..60))
        .prop_map(|(speed, steps)| Plan { speed, steps })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn two_candidates_never_hold_the_fence_at_once(a in plan(), b in plan()) {
        let [a, b] = simulate(a, b);
        for (from, to) in &a {
            for (other_from, other_to) in &b {
                prop_assert!(
                    to.min(other_to) <= from.max(other_from),
                    "{from}..{to} and {other_from}..{other_to}"
                );
            }
        }
    }
}

#[test]
fn simulation_includes_a_change_of_leader() {
    let calm = |steps, pause| {
        let step = |i| Step {
            there: 5,
            back: 5,
            pause: if i == 20 { pause } else { 0 },
            lost: false,
            quits: false,
        };
        Plan {
            speed: 1_000,
            steps: (0..steps).map(step).collect(),
        }
    };
    let [a, b] = simulate(calm(60, 60_000), calm(60, 0));
    let (first, last) = (a.first().unwrap(), b.first().unwrap());
    assert!(first.0 < last.0, "a leads first, b after a was stopped");
    assert!(!b.is_empty() && a.len() > 15);
}
