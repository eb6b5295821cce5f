//! Measures how long commands take that people and pipelines wait for. Fails if a median exceeds its limit.
//!
//! `cargo bench --bench cli` starts control planes of its own, and runs the built program as a shell would. Run it on
//! an idle machine. The first run of each command does not count, because the program may not be in the page cache.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(
    clippy::unwrap_used,
    reason = "a benchmark that cannot go on has failed"
)]
#![allow(missing_docs, unreachable_pub, clippy::panic, clippy::print_stderr)]

mod scene;
#[path = "../../tests/it/support/mod.rs"]
#[allow(dead_code, clippy::large_futures)]
mod support;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use clap::Parser;
use comfy_table::Table;

use scene::Scene;

/// Measures the command line
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// Runs of each quick command; slow commands run a tenth as often, or less
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Mirrors that `check` checks
    #[arg(long, default_value_t = 1000)]
    mirrors: usize,
    /// Links that `check` checks, one of them to a cluster that does not answer
    #[arg(long, default_value_t = 20)]
    links: usize,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

/// `--timeout` of the `check` that asks a cluster that does not answer.
const TIMEOUT: Duration = Duration::from_secs(4);

/// One row of the printed table.
struct Measured {
    what: String,
    /// How long each run took, shortest first.
    took: Vec<Duration>,
    limit: Duration,
}

impl Measured {
    fn of(what: &str, took: impl Iterator<Item = Duration>, limit: Duration) -> Self {
        let mut took: Vec<_> = took.collect();
        took.sort();
        Self {
            what: what.to_owned(),
            took,
            limit,
        }
    }

    fn median(&self) -> Duration {
        self.took[self.took.len() / 2]
    }

    fn holds(&self) -> bool {
        self.median() <= self.limit
    }
}

/// Measures `runs` runs of the program. One run before them does not count.
fn measure(what: &str, runs: u32, limit: Duration, kubeconfig: &Path, args: &[&str]) -> Measured {
    let took = (0..=runs).map(|_| once(kubeconfig, args).whole).skip(1);
    Measured::of(what, took, limit)
}

/// Like [`measure`], for a command that prints rows while it runs. Measures the time to its first row, and the time to
/// its end.
fn measure_rows(
    what: &str,
    runs: u32,
    limits: [Duration; 2],
    kubeconfig: &Path,
    args: &[&str],
) -> [Measured; 2] {
    let took: Vec<Run> = (0..=runs).map(|_| once(kubeconfig, args)).skip(1).collect();
    [
        Measured::of(
            &format!("{what}: first row"),
            took.iter().map(|run| run.first_line),
            limits[0],
        ),
        Measured::of(
            &format!("{what}: all rows"),
            took.iter().map(|run| run.whole),
            limits[1],
        ),
    ]
}

/// How long a run took until it printed its first line, and until it ended.
struct Run {
    first_line: Duration,
    whole: Duration,
}

fn once(kubeconfig: &Path, args: &[&str]) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linkerd-mc"));
    command
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let started = Instant::now();
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    let first_line = started.elapsed();
    std::io::copy(&mut stdout, &mut std::io::sink()).unwrap();
    let code = child.wait().unwrap().code();
    let whole = started.elapsed();
    // `check` ends with 1, because no Deployment runs on these control planes.
    let fine = code == Some(0) || (args[0] == "check" && code == Some(1));
    assert!(fine, "{args:?} ended with {code:?}");
    Run { first_line, whole }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let results = runtime.block_on(run(&args));
    print(&results);
    if results.iter().all(Measured::holds) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

async fn run(args: &Args) -> Vec<Measured> {
    let ms = Duration::from_millis;
    let (quick, slow) = (args.runs, args.runs.div_ceil(10));
    let nowhere = Path::new("/nonexistent");
    let mut results = vec![
        measure("--help", quick, ms(5), nowhere, &["--help"]),
        measure(
            "install --ignore-cluster",
            quick,
            ms(10),
            nowhere,
            &["install", "--ignore-cluster"],
        ),
    ];
    let scene = Box::pin(Scene::set()).await;
    let link_gen = [
        "link-gen",
        "--cluster-name=east",
        "--api-server-address",
        scene.east.url(),
    ];
    results.push(measure(
        "link-gen",
        quick,
        ms(25),
        scene.east.kubeconfig(),
        &link_gen,
    ));
    let west = scene.west.kubeconfig();
    let _controller = scene.mirror(args.mirrors).await;
    let what = format!("check with {} mirrors", args.mirrors);
    let check = ["check"];
    results.push(measure(&what, slow, ms(2000), west, &check));

    scene.link_many(args.links).await;
    let what = format!(
        "check of {} Links, dead gateways, one dead target",
        args.links
    );
    let timeout = format!("--timeout={}s", TIMEOUT.as_secs());
    let check = ["check", &timeout];
    let limits = [ms(300), TIMEOUT + Duration::from_secs(1)];
    results.extend(measure_rows(&what, slow.min(3), limits, west, &check));
    results
}

fn print(results: &[Measured]) {
    let mut table = Table::new();
    table
        .load_style(comfy_table::presets::ASCII_MARKDOWN)
        .set_header(["command", "runs", "min", "median", "max", "limit", "holds"]);
    let shown = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1000.0);
    for result in results {
        table.add_row([
            result.what.clone(),
            result.took.len().to_string(),
            shown(result.took[0]),
            shown(result.median()),
            shown(result.took[result.took.len() - 1]),
            shown(result.limit),
            if result.holds() { "yes" } else { "NO" }.to_owned(),
        ]);
    }
    println!("{table}");
}
