//! `diagnose`: why a request to a Service of another cluster fails, and without a Service, what is broken right now.

mod args;
mod overview;
mod reader;
mod watch;

use std::process::ExitCode;

use client::timing;
use observe::diagnose::{Diagnosis, report};

pub use self::args::Diagnose;
use self::reader::{PathReader, source};
use super::common::{args::Global, output, table::terminal_width, timeline, wait::spin};

/// Runs the command. Exit code 1 if a layer is broken, or without a Service, if anything is.
pub async fn run(global: &Global, args: &Diagnose) -> anyhow::Result<ExitCode> {
    let Some(called) = &args.service else {
        return Box::pin(overview::run(global, args)).await;
    };
    let reading = async {
        let from = args
            .from
            .as_ref()
            .map(|from| from.in_namespace(&called.service.namespace));
        let source = source(global, args).await?;
        let reader = PathReader::connect(global, args, source, called.clone(), from).await?;
        let first = reader.diagnose().await?;
        anyhow::Ok((reader, first))
    };
    let (reader, diagnosis) = spin("following the request", Box::pin(reading)).await?;
    if args.watch {
        watch::show(&reader, diagnosis, args.output).await?;
        return Ok(ExitCode::SUCCESS);
    }
    let document = report::document(&diagnosis);
    output::data(&args.output.of(&document, || text(&diagnosis))?)?;
    Ok(output::exit_code(diagnosis.is_broken()))
}

/// The text of a diagnosis, and if something is wrong, of what happened.
fn text(diagnosis: &Diagnosis) -> String {
    report::text(diagnosis) + &happened(diagnosis)
}

/// What happened, if something is wrong.
fn happened(diagnosis: &Diagnosis) -> String {
    match diagnosis.cause() {
        Some(_) => timeline::text(&diagnosis.timeline, timing::now(), terminal_width()),
        None => String::new(),
    }
}
