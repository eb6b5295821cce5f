//! `verify`: canaries in two clusters show whether requests arrive, how long changes take, and whose identity is seen.

mod args;
mod contexts;
mod run;
mod view;

use std::{fs, path::Path, process::ExitCode, time::Duration};

use anyhow::Context as _;
use hints::hint::fail;
use observe::{
    clusters::{
        canaries::{CanarySpec, namespaces::FoundNamespace, program::CanaryKey},
        workloads::ParseArgs,
    },
    verify::{StepResult, VerifyReport, VerifyStep},
};
use tokio::time::Instant;

pub use self::args::VerifyArgs;
use self::{contexts::Pair, run::Run};
use super::common::{
    args::Global,
    interrupt::{INTERRUPTED, StopSignals, on_interrupt},
    output,
    table::terminal_width,
    wait::Progress,
};

/// How much of the time is for the deletion at the end.
const DELETION: Duration = Duration::from_secs(25);

/// Runs the command. Exit code 1 if a step has failed. `parse` reads the arguments of a controller.
pub async fn run(global: &Global, args: &VerifyArgs, parse: ParseArgs) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let pair = Pair::connect(global, args).await?;
    if args.cleanup {
        return Box::pin(clean(&pair, args, began + args.timeout)).await;
    }
    let progress = Progress::new("checking the clusters");
    let work = Box::pin(verify(&pair, args, parse, &progress, began));
    let result = progress.during(work).await;
    let (report, was_stopped) = match result {
        Ok(done) => done,
        Err(error) => {
            // A report for CI says so too.
            let mut report = empty(args);
            report.push(unmet(&error));
            write_junit(args.junit.as_deref(), &report)?;
            return Err(error);
        }
    };
    write_junit(args.junit.as_deref(), &report)?;
    let text = || view::text(&report, terminal_width());
    output::data(&args.output.of(&report, text)?)?;
    if was_stopped {
        output::interrupted("interrupted: the canaries are deleted");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    Ok(output::exit_code(!report.success))
}

/// Checks all that has to be there, runs the steps, and deletes the canaries. Returns whether it was stopped.
async fn verify(
    pair: &Pair,
    args: &VerifyArgs,
    parse: ParseArgs,
    progress: &Progress,
    began: Instant,
) -> anyhow::Result<(VerifyReport, bool)> {
    let name = format!("{:08x}", fastrand::u32(..));
    let verified = Box::pin(pair.check(args, &name, parse)).await?;
    let found = pair.found(&args.namespace).await?;
    let end = began + args.timeout;
    // They end the steps early, and the canaries are deleted all the same.
    let mut stop = StopSignals::listen()?;
    if found != [FoundNamespace::Nothing, FoundNamespace::Nothing] {
        progress.say("deleting what an earlier run has left");
        Box::pin(delete(pair, args, end)).await?;
    }
    let key = CanaryKey::random();
    let mut run = Run {
        pair,
        canaries: CanarySpec {
            namespace: args.namespace.clone(),
            run: name,
            image: verified.image.clone(),
            key: key.map_err(|why| anyhow::anyhow!("cannot make a key: {why}"))?,
            lifetime: args.timeout,
        },
        verified: &verified,
        progress,
        report: VerifyReport {
            link: verified.link.id().to_string(),
            ..empty(args)
        },
        until: end - DELETION.min(args.timeout / 3),
    };
    let was_stopped = tokio::select! {
        () = run.steps() => false,
        () = stop.asked() => true,
    };
    let mut report = run.report;
    on_interrupt(
        &format!("canaries may be left in the namespace {}", args.namespace),
        &format!("run {}", cleanup(pair, args)),
    );
    progress.say("deleting the canaries");
    let deleting = Instant::now();
    let deleted = Box::pin(delete(pair, args, end)).await;
    report.push(VerifyStep {
        mode: None,
        step: "deletion",
        result: if deleted.is_ok() {
            StepResult::Passed
        } else {
            StepResult::Failed
        },
        milliseconds: u64::try_from(deleting.elapsed().as_millis()).ok(),
        detail: match deleted {
            Ok(_) => "no canary is left".to_owned(),
            Err(why) => format!("{why}; run {}", cleanup(pair, args)),
        },
    });
    Ok((report, was_stopped))
}

/// Deletes the canaries.
async fn delete(pair: &Pair, args: &VerifyArgs, end: Instant) -> anyhow::Result<bool> {
    Box::pin(pair.remove(&args.namespace, end))
        .await
        .map_err(|why| {
            fail(
                format!(
                    "cannot delete the canaries in the namespace {}: {why}",
                    args.namespace
                ),
                format!("run {}", cleanup(pair, args)),
            )
        })
}

/// The command that deletes what is left.
fn cleanup(pair: &Pair, args: &VerifyArgs) -> String {
    let command = pair.both.mc(
        "verify --target {} --source {} --namespace {} --cleanup",
        &[&args.target, &args.source, &args.namespace],
    );
    command.to_string()
}

/// Only deletes what an earlier run has left.
async fn clean(pair: &Pair, args: &VerifyArgs, end: Instant) -> anyhow::Result<ExitCode> {
    let progress = Progress::new("deleting the canaries");
    pair.found(&args.namespace).await?;
    let found = progress.during(Box::pin(delete(pair, args, end))).await?;
    output::note(if found {
        "the canaries are deleted"
    } else {
        "there are no canaries"
    });
    Ok(ExitCode::SUCCESS)
}

fn empty(args: &VerifyArgs) -> VerifyReport {
    VerifyReport {
        source: args.source.clone(),
        target: args.target.clone(),
        namespace: args.namespace.clone(),
        ..VerifyReport::default()
    }
}

/// The step of a run that was not possible.
fn unmet(error: &anyhow::Error) -> VerifyStep {
    VerifyStep {
        mode: None,
        step: "requirements",
        result: StepResult::Failed,
        milliseconds: None,
        detail: format!("{error:#}"),
    }
}

fn write_junit(file: Option<&Path>, report: &VerifyReport) -> anyhow::Result<()> {
    let Some(file) = file else {
        return Ok(());
    };
    let written = fs::write(file, report.junit());
    written.with_context(|| format!("failed to write {}", file.display()))
}

#[cfg(test)]
mod tests;
