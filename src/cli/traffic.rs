//! `traffic`: which cluster serves the requests to a mirror or federated Service, and how well.

mod args;
mod observe;
mod view;

use std::{io::IsTerminal as _, process::ExitCode};

use ::observe::clusters::kube_context::KubeContext;
use futures::future::join_all;
use hints::hint::fail;
use tokio::time::{Instant, sleep_until};

use self::view::{TrafficView, frame};
pub use self::{
    args::TrafficArgs,
    observe::{Observation, Observer},
};
use super::common::{
    args::Global,
    contexts::flags_of_all,
    format::OutputFormat,
    output,
    table::{terminal_size, terminal_width},
    wait::spin,
};

/// Runs the command. Exit code 1 if the proxies of a cluster could not be read.
pub async fn run(global: &Global, args: &TrafficArgs) -> anyhow::Result<ExitCode> {
    let contexts = args.contexts.select(global, args.request_timeout).await?;
    let mut observers: Vec<Observer<'_>> = contexts
        .iter()
        .map(|context| Observer::new(context, args))
        .collect();
    let mut at = Instant::now();
    let first = spin("reading the proxies", observe(&mut observers)).await;
    let first = TrafficView::of(first);
    if first.is_silent() && !args.watch {
        return finish(&contexts, args, &first); // counting would show no more
    }
    loop {
        at += args.interval;
        let next = async {
            sleep_until(at).await;
            observe(&mut observers).await
        };
        let message = format!("counting for {} s", args.interval.as_secs_f32());
        let view = if args.watch {
            TrafficView::of(next.await)
        } else {
            TrafficView::of(spin(&message, next).await)
        };
        if !args.watch {
            return finish(&contexts, args, &view);
        }
        update(args, &view)?;
        // A round may take longer than the interval.
        at = at.max(Instant::now());
    }
}

/// Takes the next sample of each cluster. Returns what happened since the one before.
async fn observe(observers: &mut [Observer<'_>]) -> Vec<observe::Observation> {
    join_all(observers.iter_mut().map(Observer::observe)).await
}

/// Prints the only result.
fn finish(
    contexts: &[KubeContext],
    args: &TrafficArgs,
    view: &TrafficView,
) -> anyhow::Result<ExitCode> {
    refuse_silence(contexts, view)?;
    require(contexts, args, view)?;
    show(args, view)?;
    Ok(output::exit_code(view.has_silent_cluster()))
}

/// Fails if there is only one cluster, and nothing is known about it.
fn refuse_silence(contexts: &[KubeContext], view: &TrafficView) -> anyhow::Result<()> {
    let [context] = contexts else {
        return Ok(());
    };
    let Some(problem) = view.problem() else {
        return Ok(());
    };
    Err(fail(
        format!(
            "cannot read the traffic of {}: {}",
            context.name, problem.message
        ),
        problem.hint,
    ))
}

/// Fails if the Service that was asked for does not exist in any cluster that responded.
fn require(contexts: &[KubeContext], args: &TrafficArgs, view: &TrafficView) -> anyhow::Result<()> {
    let Some(name) = args.wanted().name else {
        return Ok(());
    };
    if view.has_silent_cluster() || !view.is_without_services() {
        return Ok(());
    }
    let namespace = args.wanted().namespace;
    let place = namespace.map_or_else(String::new, |namespace| format!("{namespace}/"));
    Err(fail(
        format!("no mirror or federated Service is, or comes from, {place}{name}"),
        format!(
            "run {} to see all",
            flags_of_all(contexts).mc("status --services", &[])
        ),
    ))
}

/// Prints a result.
fn show(args: &TrafficArgs, view: &TrafficView) -> anyhow::Result<()> {
    let text = || frame(view, terminal_width()).text();
    output::data(&args.output.of(view, text)?)?;
    if args.output == OutputFormat::Text {
        if let Some(note) = view.absent() {
            output::note(note);
        }
        for error in view.errors() {
            output::error(&anyhow::Error::msg(error));
        }
    }
    Ok(())
}

/// Prints one of many results: on a terminal in place of the last one.
fn update(args: &TrafficArgs, view: &TrafficView) -> anyhow::Result<()> {
    if args.output != OutputFormat::Text {
        return output::data(&args.output.one_of_many(view, String::new)?);
    }
    if !std::io::stdout().is_terminal() {
        return show(args, view);
    }
    let (height, width) = terminal_size().unwrap_or((usize::MAX, usize::MAX));
    let mut frame = frame(view, Some(width));
    frame.notes.extend(view.absent().map(str::to_owned));
    frame.notes.extend(view.errors());
    output::screen(&frame.fitted(height, width))
}
