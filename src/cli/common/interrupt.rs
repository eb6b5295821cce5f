//! Ctrl-C and SIGTERM, or the end of the console on Windows: a command that has changed something says in one line what
//! it has done, and what to run.
//!
//! A command that only reads ends as any other program.

use std::{
    sync::{Mutex, Once, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use futures::FutureExt as _;
#[cfg(unix)]
use tokio::signal::unix::{Signal as Interrupt, Signal as Terminate, SignalKind, signal};
#[cfg(windows)]
use tokio::signal::windows::{CtrlC as Interrupt, CtrlClose as Terminate, ctrl_c, ctrl_close};

use super::output;

/// Exit code of a command that was interrupted, as shells have it.
pub const INTERRUPTED: u8 = 130;

/// Signals within this time count as one. `timeout`, for example, sends its signal to the program and to its process
/// group.
const SAME_REQUEST: Duration = Duration::from_secs(1);

/// Ctrl-C and SIGTERM, for a command that ends by itself when it is asked to.
pub struct StopSignals {
    interrupt: Interrupt,
    terminate: Terminate,
}

impl StopSignals {
    /// Listens from now on. Without this, they end the program at once.
    #[cfg(unix)]
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).context("failed to listen for SIGINT")?,
            terminate: signal(SignalKind::terminate()).context("failed to listen for SIGTERM")?,
        })
    }

    /// Listens from now on. Without this, they end the program at once.
    #[cfg(windows)]
    pub fn listen() -> anyhow::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c().context("failed to listen for Ctrl-C")?,
            terminate: ctrl_close().context("failed to listen for the end of the console")?,
        })
    }

    /// Waits for either.
    pub async fn asked(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }

    /// Waits for a further request, after the first one.
    pub async fn asked_again(&mut self) {
        tokio::time::sleep(SAME_REQUEST).await;
        while self.asked().now_or_never().is_some() {}
        self.asked().await;
    }
}

/// What an interrupted command says.
static DONE: Mutex<String> = Mutex::new(String::new());

/// Sets what is said if the command is interrupted from now on: what is done, such as `the Link east is written`, and
/// what to do, such as `run linkerd-mc check`.
pub fn on_interrupt(done: &str, then: &str) {
    static LISTENING: Once = Once::new();
    *DONE.lock().unwrap_or_else(PoisonError::into_inner) = line(done, then);
    LISTENING.call_once(listen);
}

fn line(done: &str, then: &str) -> String {
    format!("interrupted: {done}; {then}")
}

/// Listens in a thread of its own, because a question to the user blocks the thread of the command. If that fails, an
/// interrupt still ends the command, but nothing is said.
fn listen() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let Ok(runtime) = runtime else { return };
    let signals = {
        let _context = runtime.enter();
        StopSignals::listen()
    };
    let Ok(mut signals) = signals else { return };
    let listener = std::thread::Builder::new().name("interrupt".to_owned());
    // If no thread can be started, nothing listens.
    let _ = listener.spawn(move || {
        runtime.block_on(signals.asked());
        let said = DONE.lock().unwrap_or_else(PoisonError::into_inner).clone();
        output::interrupted(&said);
        #[expect(clippy::exit, reason = "the command may be in the middle of anything")]
        std::process::exit(INTERRUPTED.into());
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_command_says_what_is_done_and_what_to_run() {
        assert_eq!(
            line("the Link east is written", "run `linkerd-mc check`"),
            "interrupted: the Link east is written; run `linkerd-mc check`"
        );
    }
}
