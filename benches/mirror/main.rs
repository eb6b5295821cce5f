//! Measures the whole controller against real control planes, and compares it with the limit of the machine in the same
//! run.
//!
//! `cargo bench --features jemalloc --bench mirror -- --help` lists the options. The limit is the time that bare parallel
//! requests need on this machine to write the same objects. Ratios to the limit apply to other machines too, times only
//! to this one.

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

/// What can be measured. Each scenario leaves the clusters in the state that the next one in the default order needs.
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
    /// Whether this scenario needs the mirrors that the controller creates in `cold`.
    fn needs_mirrors(self) -> bool {
        use Scenario::{Churn, Delete, Idle, Restart, Unexport};
        matches!(self, Restart | Idle | Churn | Unexport | Delete)
    }

    /// The first of `scenarios` that needs mirrors when there are none.
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
    /// Exported Services; in the scenario `gatewayed` also its federated Services, in `refused` also its refused
    /// Services
    #[arg(long, default_value_t = 1000)]
    services: usize,
    /// Links in the scenarios `links` and `gatewayed`, all to one control plane under different names; at most 150 in
    /// `gatewayed`
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
    /// Whose bare requests measure the limit; it is measured at the start, and at the end if no mirrors are left
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
    /// Also write the results to this file, as JSON
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
