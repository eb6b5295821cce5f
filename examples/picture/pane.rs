//! A terminal in a recording: it runs programs in pseudo terminals, and keeps their output and the text on its screen.

use std::{
    fs::File,
    io::{BufReader, Read as _},
    num::NonZero,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use rustix::{
    fs::{Mode, OFlags},
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::screen::{Row, rows};

/// How long a program may take to end after SIGINT, and its output to arrive after its end.
const LAST_WORDS: Duration = Duration::from_secs(20);
/// Environment variables that are removed: those that change colours, and proxies, which cannot reach loopback.
const OTHER: [&str; 7] = [
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];
const PROMPT: &[u8] = b"\x1b[1;32m$\x1b[m ";

/// The environment of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// The kubeconfig; empty for none.
    pub(crate) kubeconfig: String,
    /// The `PATH`; empty for that of this process.
    path: String,
}

impl Surroundings {
    /// The environment that the guide of the playground tells its user to set.
    pub(crate) fn of_guide(guide: &str) -> anyhow::Result<Self> {
        let export = |name: &str| {
            let mut lines = guide.lines().map(str::trim);
            let found = lines.find_map(|line| line.strip_prefix(&format!("export {name}=")));
            found.with_context(|| format!("the playground's guide has no {name}"))
        };
        let path = std::env::var("PATH").unwrap_or_default();
        Ok(Self {
            kubeconfig: export("KUBECONFIG")?.to_owned(),
            path: export("PATH")?.replace("$PATH", &path),
        })
    }

    /// A shell that runs a command as a reader would type it.
    pub(crate) fn shell(&self, command: &str) -> Command {
        let mut shell = self.program("sh".into());
        // `exec` replaces the shell by the command, so the command gets its signals.
        shell.args(["-c", &format!("exec {command}")]);
        shell
    }

    /// A program with this environment, in the root folder of the repository.
    pub(crate) fn program(&self, program: PathBuf) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("TERM", "xterm-256color");
        for (name, value) in [("KUBECONFIG", &self.kubeconfig), ("PATH", &self.path)] {
            if !value.is_empty() {
                command.env(name, value);
            }
        }
        for name in OTHER {
            command.env_remove(name);
        }
        command
    }
}

pub(crate) struct Pane {
    screen: vt100::Parser,
    size: Winsize,
    /// Whether the cursor is shown, as it is while no program runs.
    cursor: bool,
    /// The output of the program.
    heard: Vec<u8>,
    /// How many bytes of `heard` are on the screen.
    passed: usize,
    /// Output after this text is not shown.
    last: Option<&'static str>,
    program: Option<(Child, Receiver<Vec<u8>>)>,
}

impl Pane {
    /// A terminal that waits for a command.
    pub(crate) fn new(height: u16, width: u16) -> anyhow::Result<Self> {
        let cells = |number| NonZero::new(number).context("a terminal without cells");
        let mut screen = vt100::Parser::new(cells(height)?, cells(width)?, 0);
        screen.process(PROMPT);
        Ok(Self {
            screen,
            size: Winsize {
                ws_row: height,
                ws_col: width,
                ws_xpixel: 0,
                ws_ypixel: 0,
            },
            cursor: true,
            heard: Vec::new(),
            passed: 0,
            last: None,
            program: None,
        })
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        rows(self.screen.screen(), self.cursor)
    }

    /// The text of the screen.
    pub(crate) fn shown(&self) -> String {
        self.screen.screen().contents()
    }

    /// The output of the program so far.
    pub(crate) fn heard(&self) -> String {
        String::from_utf8_lossy(&self.heard).replace('\r', "")
    }

    /// Shows text as if somebody typed it.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.screen.process(text.as_bytes());
    }

    /// Ends a typed line without running it.
    pub(crate) fn end_line(&mut self) {
        self.screen.process(b"\r\n");
        self.screen.process(PROMPT);
    }

    /// Runs the typed command. Output after `last` is not shown.
    pub(crate) fn start(
        &mut self,
        mut command: Command,
        last: Option<&'static str>,
    ) -> anyhow::Result<()> {
        self.screen.process(b"\r\n");
        self.cursor = false;
        (self.heard, self.passed, self.last) = (Vec::new(), 0, last);
        let (ours, theirs) = pseudo_terminal(self.size)?;
        command
            .stdin(theirs.try_clone()?)
            .stdout(theirs.try_clone()?);
        // With `last`, stderr goes to the pseudo terminal like stdout. Otherwise `pass_lines` filters stderr.
        if last.is_some() {
            command.stderr(theirs);
        } else {
            command.stderr(Stdio::piped());
            drop(theirs);
        }
        let mut child = command.spawn().context("failed to start a program")?;
        let (sender, receiver) = channel();
        if let Some(errors) = child.stderr.take() {
            let sender = sender.clone();
            thread::spawn(move || pass_lines(BufReader::new(errors), &sender));
        }
        thread::spawn(move || pass(ours, &sender));
        self.program = Some((child, receiver));
        Ok(())
    }

    /// Updates the screen with the output so far.
    pub(crate) fn listen(&mut self) {
        while let Some((_, output)) = &self.program
            && let Ok(bytes) = output.try_recv()
        {
            self.hear(&bytes);
        }
    }

    /// Whether the program has ended. If so, checks its exit code, and shows the prompt again.
    pub(crate) fn has_ended(&mut self) -> anyhow::Result<bool> {
        let Some((child, output)) = &mut self.program else {
            return Ok(true);
        };
        let Some(status) = child.try_wait()? else {
            return Ok(false);
        };
        let mut rest = Vec::new();
        while let Ok(bytes) = output.recv_timeout(LAST_WORDS) {
            rest.extend(bytes);
        }
        self.hear(&rest);
        self.program = None;
        ensure!(
            status.success(),
            "a program ended with {status}:\n{}",
            self.heard()
        );
        self.screen.process(PROMPT);
        self.cursor = true;
        Ok(true)
    }

    fn hear(&mut self, bytes: &[u8]) {
        self.heard.extend_from_slice(bytes);
        let end = self.last.and_then(|last| {
            let places = self.heard.windows(last.len());
            Some(
                places
                    .into_iter()
                    .position(|text| text == last.as_bytes())?
                    + last.len(),
            )
        });
        let end = end.unwrap_or(self.heard.len());
        if end > self.passed {
            self.screen.process(&self.heard[self.passed..end]);
            self.passed = end;
        }
    }
}

impl Drop for Pane {
    /// Ends the program as Ctrl-C would.
    fn drop(&mut self) {
        let Some((child, _)) = &mut self.program else {
            return;
        };
        // An error means that the program has already ended.
        let _ = kill_process(Pid::from_child(child), Signal::INT);
        let end = Instant::now() + LAST_WORDS;
        while Instant::now() < end && matches!(child.try_wait(), Ok(None)) {
            thread::sleep(Duration::from_millis(50));
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Opens a pseudo terminal. Returns the end for this program, and then the end for the program that runs in it.
fn pseudo_terminal(size: Winsize) -> anyhow::Result<(File, File)> {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&ours)?;
    unlockpt(&ours)?;
    let name = ptsname(&ours, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = rustix::fs::open(name, flags, Mode::empty())?;
    tcsetwinsize(&theirs, size)?;
    Ok((ours.into(), theirs.into()))
}

/// Forwards the output of a terminal until no program has it open any more.
fn pass(mut terminal: File, to: &Sender<Vec<u8>>) {
    let mut buffer = [0; 4096];
    while let Ok(length @ 1..) = terminal.read(&mut buffer) {
        if to.send(buffer[..length].to_vec()).is_err() {
            return;
        }
    }
}

/// Forwards lines, as a terminal would, except for lines with addresses of this machine.
fn pass_lines(lines: impl std::io::BufRead, to: &Sender<Vec<u8>>) {
    for line in lines.lines().map_while(Result::ok) {
        if !line.contains("//127.0.0.1:") && to.send(format!("{line}\r\n").into_bytes()).is_err() {
            return;
        }
    }
}
