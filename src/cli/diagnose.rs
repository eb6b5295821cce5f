//! `diagnose`: why a request to a Service of another cluster fails, and without a Service, what is broken right now.

mod args;
mod overview;
mod reader;
mod watch;

use std::process::ExitCode;

use client::timing;
use hints::prose::wrapped;
use observe::diagnose::{Diagnosis, report};

pub use self::args::Diagnose;
use self::reader::{PathReader, source};
use super::common::{args::Global, output, table::terminal_width, timeline, wait::spin};

/// Where the text of a layer begins.
const INDENT: usize = 12;

/// A report without lines that are longer than the terminal is wide. Commands stay whole, so that they can be copied.
fn fitted(text: &str, width: Option<usize>) -> String {
    let lines = text.split_inclusive('\n').map(|line| {
        if line.starts_with("  in ") {
            return line.to_owned();
        }
        let hang = if line.starts_with(' ') { 0 } else { INDENT };
        wrapped(line, width, hang)
    });
    lines.collect()
}

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
    fitted(&report::text(diagnosis), terminal_width()) + &happened(diagnosis)
}

/// What happened, if something is wrong.
fn happened(diagnosis: &Diagnosis) -> String {
    match diagnosis.cause() {
        Some(_) => timeline::text(&diagnosis.timeline, timing::now(), terminal_width()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_fits_the_terminal_and_keeps_commands_whole() {
        let report = "Fix: words that are more than fit\n  \
                      in east: kubectl -n shop get pods -o wide\n\n\
                      × objects   NotExported: words that are more\n";
        let text = fitted(report, Some(32));
        assert_eq!(
            text,
            "Fix: words that are more than\n            fit\n  \
             in east: kubectl -n shop get pods -o wide\n\n\
             × objects   NotExported: words\n            that are more\n"
        );
        assert_eq!(fitted(report, None), report);
    }
}
