//! `diagnose`: why a request to a Service of another cluster fails, and without a Service, what is broken right now.

mod args;
mod overview;
mod reader;
mod view;
mod watch;

use std::process::ExitCode;

use observe::diagnose::report;

pub use self::{
    args::{Called, Diagnose},
    overview::timeline,
    reader::PathReader,
};
use self::{reader::source, view::text};
use super::common::{args::Global, output, wait::spin};

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
