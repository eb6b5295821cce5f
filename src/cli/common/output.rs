//! Prints data to stdout, and everything else to stderr. Nothing else in the crate prints.

use std::{
    error::Error,
    fmt,
    io::{self, IsTerminal as _, Write as _},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
};

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use client::requests::explain;
use hints::{
    hint::{HintExt as _, hint_of},
    prose::wrapped,
};
use manifests::yaml::to_yaml;
use mirror_core::api::text::{one_line, visible};
use serde::Serialize;
use tracing_subscriber::{field::MakeExt as _, fmt::format::debug_fn};

use super::{log_format, plugin, table::stderr_width};

/// Whether notes and progress are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves out notes and progress from now on. Warnings and errors stay.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether notes and progress are left out.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Sets when colors are used from now on, on stdout and stderr.
pub fn set_color(choice: ColorChoice) {
    match choice {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
}

/// The exit code of a command that printed what it found.
pub fn exit_code(has_failed: bool) -> ExitCode {
    ExitCode::from(u8::from(has_failed))
}

/// A value as an indented JSON document.
pub fn json(value: &impl Serialize) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(value)? + "\n")
}

/// A value as a YAML document.
pub fn yaml(value: &impl Serialize) -> anyhow::Result<String> {
    to_yaml(value)
}

/// A text that could not be written to stdout.
#[derive(Debug)]
struct Unwritten(io::Error);

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot write to stdout")
    }
}

impl Error for Unwritten {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

/// Writes a text to stdout completely, or fails. What it has of other clusters cannot change the state of a terminal.
pub fn data(text: &str) -> anyhow::Result<()> {
    let text = &*visible(text);
    if text.contains('\x1b') {
        write_out(anstream::stdout().lock(), text)
    } else {
        write_out(io::stdout().lock(), text) // no colors to strip, which is slower than writing
    }
}

fn write_out(mut out: impl io::Write, text: &str) -> anyhow::Result<()> {
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    Ok(written.map_err(Unwritten)?)
}

/// Writes one line to stderr that begins with `warning:`.
pub fn warning(text: &str) {
    labelled("warning", AnsiColor::Yellow, &one_line(text));
}

/// Writes each of these texts to stderr as [`warning`] does.
pub fn warnings(texts: &[String]) {
    for text in texts {
        warning(text);
    }
}

/// Writes one line to stderr, unless the user wants none.
pub fn note(text: &str) {
    if !is_quiet() {
        line(text);
    }
}

/// Writes what an interrupted command has done to stderr. The terminal has shown `^C`, and perhaps a spinner.
pub fn interrupted(text: &str) {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
    line(&plugin::as_typed(text));
}

/// Writes one line to stderr, such as one of a question.
pub fn line(text: &str) {
    write_line(&one_line(text), 0);
}

/// Writes a question to stderr. The answer follows on the same line.
pub fn prompt(question: &str) {
    let mut stderr = anstream::stderr().lock();
    // If stderr is closed, the error cannot be reported anywhere.
    let _ = write!(stderr, "{} ", one_line(question)).and_then(|()| stderr.flush());
}

/// Replaces the contents of the terminal. The caller has to check that stdout is one.
pub fn screen(text: &str) -> anyhow::Result<()> {
    let stdout = io::stdout();
    // Strips colors if the user disabled them, but not cursor movements.
    let colours = anstream::AutoStream::choice(&stdout) != anstream::ColorChoice::Never;
    let text = &*visible(text);
    let plain = anstream::adapter::strip_str(text).to_string();
    let text = if colours { text } else { &plain };
    // Erases line by line, so that the screen does not flicker.
    let mut frame = String::from("\x1b[H");
    for line in text.lines() {
        frame.push_str("\x1b[2K");
        frame.push_str(line);
        frame.push('\n');
    }
    frame.push_str("\x1b[J");
    write_out(stdout.lock(), &frame)
}

/// Logs each request to an API server to stderr, with its URL and status. No bodies: they may hold secrets.
pub fn log_requests() {
    // Fails if a subscriber is set already; that one stays.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(format!("kube_client=debug,{}", log_format::own("debug")))
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        .fmt_fields(debug_fn(log_format::field).delimited(" "))
        .try_init();
}

/// Writes an error to stderr: what failed, the cause and a hint, on one line each.
pub fn error(error: &anyhow::Error) {
    let steps = steps(error);
    labelled("error", AnsiColor::Red, &steps[0]);
    if steps.len() > 1 {
        labelled("cause", AnsiColor::Red, &steps[1..].join(": "));
    }
    if let Some(hint) = hint_of(error) {
        labelled("hint", AnsiColor::Cyan, &one_line(&plugin::as_typed(hint)));
    }
}

/// An error and its causes in one line, as [`error`] prints them.
pub fn in_one_line(error: &anyhow::Error) -> String {
    steps(error).join(": ")
}

/// An error and its causes, without a cause with which the message before it ends.
fn steps(error: &anyhow::Error) -> Vec<String> {
    let mut steps = Vec::new();
    for step in error.chain() {
        if let Some(request) = step.downcast_ref::<kube::Error>() {
            // For its causes too: they may quote what a plugin of the kubeconfig printed.
            steps.push(explain(request));
            break;
        }
        steps.push(one_line(&step.to_string()));
    }
    steps.dedup_by(|cause, step| step.ends_with(cause.as_str()));
    steps
}

/// Whether the reader of stdout has stopped early, as in `… | head`. A connection that breaks is another error.
pub fn is_unread(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|step| step.downcast_ref::<Unwritten>())
        .any(|unwritten| unwritten.0.kind() == io::ErrorKind::BrokenPipe)
}

/// Says what to do if the reader of stdout has stopped early. For commands that change clusters.
pub fn all_read<T>(done: anyhow::Result<T>) -> anyhow::Result<T> {
    match done {
        Err(error) if is_unread(&error) => Err(error).hint(
            || "the output was not read to its end, so only a part may be done".to_owned(),
            || "run the command again, and read all that it prints".to_owned(),
        ),
        done => done,
    }
}

fn labelled(label: &str, color: AnsiColor, text: &str) {
    let style = Style::new().bold().fg_color(Some(color.into()));
    write_line(&format!("{style}{label}:{style:#} {text}"), 2);
}

/// Writes a line to stderr. On a terminal it is continued below, after `hang` spaces.
fn write_line(text: &str, hang: usize) {
    let text = wrapped(&visible(text), stderr_width(), hang);
    // If stderr is closed, the error cannot be reported anywhere.
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    #[test]
    fn reader_that_stops_is_no_connection_that_breaks() {
        let broken = || io::Error::from(io::ErrorKind::BrokenPipe);
        let unread = anyhow::Error::from(Unwritten(broken())).context("of a command");
        assert!(is_unread(&unread));
        let hinted = all_read::<()>(Err(unread)).unwrap_err();
        assert!(is_unread(&hinted) && hint_of(&hinted).is_some());
        assert!(!is_unread(&anyhow::Error::from(broken())));
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert!(!is_unread(&anyhow::Error::from(Unwritten(full))));
    }

    #[test]
    fn refusal_of_an_api_server_is_said_and_not_dumped() {
        let status = serde_json::json!({ "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401 });
        let refused = kube::Error::Api(Box::new(serde_json::from_value(status).unwrap()));
        let error = anyhow::Error::from(refused).context("cannot list the Services");
        let said = in_one_line(&error);
        assert!(said.starts_with("cannot list the Services: "), "{said}");
        assert!(!said.contains("Status {"), "{said}");
    }

    #[test]
    fn each_cause_is_shown_once() {
        let error = Kubeconfig::read_from("/missing").unwrap_err();
        let error = anyhow::Error::from(error).context("cannot read it");
        assert_eq!(
            steps(&error),
            [
                "cannot read it",
                "failed to read kubeconfig from '\"/missing\"': No such file or directory (os error 2)"
            ]
        );
    }
}
