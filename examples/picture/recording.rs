//! Records the screens of one or more terminals over time.

use std::{
    process::Command,
    thread,
    time::{Duration, Instant},
};

use anyhow::{bail, ensure};

use crate::{
    pane::{Pane, Surroundings},
    screen::Row,
};

/// Interval at which the screens are read.
const TICK: Duration = Duration::from_millis(80);
/// Characters that are typed in one interval.
const TYPED: usize = 3;
/// The longest time between two frames. Longer pauses are shortened to it.
const PAUSE: Duration = Duration::from_millis(1500);
/// How long a command may take, or the clusters until the screen shows an expected text.
const LIMIT: Duration = Duration::from_secs(60);

/// Terminals one above the other.
pub(crate) struct Recording {
    columns: u16,
    titles: Vec<(&'static str, u16)>,
    panes: Vec<Pane>,
    frames: Vec<Frame>,
    /// When the last frame was recorded, and the time of that frame in the picture.
    last: (Instant, Duration),
}

/// The contents of the screens from a certain time on.
pub(crate) struct Frame {
    pub(crate) at: Duration,
    /// The rows of all terminals, from top to bottom.
    pub(crate) rows: Vec<Row>,
}

impl Recording {
    /// Terminals that wait for a command: their titles and heights.
    pub(crate) fn new(columns: u16, titles: &[(&'static str, u16)]) -> anyhow::Result<Self> {
        let panes = titles.iter().map(|(_, height)| Pane::new(*height, columns));
        Ok(Self {
            columns,
            titles: titles.to_vec(),
            panes: panes.collect::<Result<_, _>>()?,
            frames: Vec::new(),
            last: (Instant::now(), Duration::ZERO),
        })
    }

    pub(crate) fn columns(&self) -> u16 {
        self.columns
    }

    /// The title and the height of each terminal.
    pub(crate) fn titles(&self) -> &[(&'static str, u16)] {
        &self.titles
    }

    /// The frames, in the order of their times.
    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    pub(crate) fn pane(&self, pane: usize) -> &Pane {
        &self.panes[pane]
    }

    /// Types a command, but does not run it.
    pub(crate) fn type_in(&mut self, pane: usize, text: &str) {
        self.look(TICK);
        let characters: Vec<char> = text.chars().collect();
        for some in characters.chunks(TYPED) {
            self.panes[pane].type_in(&some.iter().collect::<String>());
            self.look(TICK);
        }
        self.look(4 * TICK);
    }

    /// Types a line that no shell runs, and shows the prompt again.
    pub(crate) fn comment(&mut self, pane: usize, text: &str) {
        self.type_in(pane, text);
        self.panes[pane].end_line();
        self.look(TICK);
    }

    /// Runs the typed command. Output after `last` is not shown.
    pub(crate) fn start(
        &mut self,
        pane: usize,
        command: Command,
        last: Option<&'static str>,
    ) -> anyhow::Result<()> {
        self.panes[pane].start(command, last)
    }

    /// Types a command, runs it and waits for its end.
    pub(crate) fn run(
        &mut self,
        pane: usize,
        command: &str,
        surroundings: &Surroundings,
    ) -> anyhow::Result<()> {
        self.type_in(pane, command);
        self.start(pane, surroundings.shell(command), None)?;
        let end = Instant::now() + LIMIT;
        while !self.panes[pane].has_ended()? {
            ensure!(Instant::now() < end, "`{command}` does not end");
            self.look(TICK);
        }
        self.look(TICK);
        Ok(())
    }

    /// Waits until a screen shows a text.
    pub(crate) fn until_shows(&mut self, pane: usize, text: &str) -> anyhow::Result<()> {
        self.until(pane, text, LIMIT, |pane| pane.shown().contains(text))
    }

    /// Waits until `done` returns true. Fails after `limit`, or if the program in the terminal ends. The error
    /// names `what`.
    pub(crate) fn until(
        &mut self,
        pane: usize,
        what: &str,
        limit: Duration,
        done: impl Fn(&Pane) -> bool,
    ) -> anyhow::Result<()> {
        let end = Instant::now() + limit;
        while !done(&self.panes[pane]) {
            if Instant::now() > end || self.panes[pane].has_ended()? {
                bail!("{what} does not come:\n{}", self.panes[pane].heard());
            }
            self.look(TICK);
        }
        Ok(())
    }

    /// Records the screens for this long.
    pub(crate) fn look(&mut self, time: Duration) {
        let end = Instant::now() + time;
        loop {
            thread::sleep(TICK);
            self.panes.iter_mut().for_each(Pane::listen);
            self.keep();
            if Instant::now() >= end {
                return;
            }
        }
    }

    /// Adds a frame if the screens have changed.
    fn keep(&mut self) {
        let rows: Vec<Row> = self.panes.iter().flat_map(Pane::rows).collect();
        if self.frames.last().is_some_and(|last| last.rows == rows) {
            return;
        }
        let now = Instant::now();
        let pause = now.duration_since(self.last.0).min(PAUSE);
        let at = if self.frames.is_empty() {
            Duration::ZERO
        } else {
            self.last.1 + pause
        };
        self.last = (now, at);
        self.frames.push(Frame { at, rows });
    }
}
