//! The whole controller against real control planes, compared with the machine's limit in the same run.
//!
//! `cargo bench --all-features --bench mirror -- --help` tells what can be asked for. The limit is what this machine does
//! when the same objects are written by bare parallel requests; ratios to it mean something on any machine,
//! times only on this one.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints"
)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a benchmark that cannot go on has failed"
)]
#![allow(missing_docs, unreachable_pub)]

mod churn;
mod counted;
mod crowds;
mod gatewayed;
mod limit;
mod objects;
mod process;
mod refused;
mod report;
mod scenarios;
#[path = "../../tests/it/support/mod.rs"]
#[allow(dead_code, clippy::large_futures)]
mod support;

use clap::{CommandFactory as _, Parser, ValueEnum, error::ErrorKind};

/// What can be measured. Each scenario leaves the clusters as the next one in the default order expects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scenario {
    Cold,
    Restart,
    Idle,
    Churn,
    Unexport,
    Delete,
    Noise,
    Links,
    Federated,
    Gatewayed,
    Refused,
}

impl Scenario {
    /// Whether it measures the mirrors that `cold` has made.
    fn needs_mirrors(self) -> bool {
        use Scenario::{Churn, Delete, Idle, Restart, Unexport};
        matches!(self, Restart | Idle | Churn | Unexport | Delete)
    }

    /// The first of `scenarios` that would find no mirrors to measure.
    fn without_mirrors(scenarios: &[Self]) -> Option<Self> {
        let mut mirrored = false;
        scenarios.iter().copied().find(|scenario| {
            let fails = scenario.needs_mirrors() && !mirrored;
            match scenario {
                Self::Cold => mirrored = true,
                Self::Unexport | Self::Delete => mirrored = false,
                _ => {}
            }
            fails
        })
    }
}

/// Measures the controller
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// Exported Services; of the scenario `gatewayed` also its federated Services, and of `refused` those that are refused
    #[arg(long, default_value_t = 1000)]
    services: usize,
    /// Links of the scenarios `links` and `gatewayed`, all to one control plane under different names; of `gatewayed` at
    /// most 150
    #[arg(long, default_value_t = 100)]
    links: usize,
    /// Services of the scenario `noise` that are not exported
    #[arg(long, default_value_t = 20_000)]
    noise: usize,
    /// Scenarios to run, in this order
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "cold,restart,idle,churn,delete"
    )]
    scenarios: Vec<Scenario>,
    /// Whose requests are the limit; a measurement takes as long as the first sync, and is made again after `delete`
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "administrator,controller"
    )]
    limits: Vec<limit::Writer>,
    /// Seconds that `idle` and `churn` last
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Writes the results to this file, too
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let args = Args::parse();
    if let Some(scenario) = Scenario::without_mirrors(&args.scenarios) {
        let words = format!("{scenario:?} needs mirrors: run `cold` before it").to_lowercase();
        Args::command()
            .error(ErrorKind::ValueValidation, words)
            .exit();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let report = runtime.block_on(scenarios::all_of(&args));
    report.print();
    if let Some(file) = &args.json {
        std::fs::write(file, report.json()).unwrap();
    }
}
