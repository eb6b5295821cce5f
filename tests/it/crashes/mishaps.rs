//! Watches that go wrong at a chosen event: the event comes late, or is lost with its watch.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use control_plane::{Asked, Interceptor, Passing, Verdict};

use super::scenarios::Stage;

/// How late an event is: by then what comes on other watches has been worked on.
const LATE: Duration = Duration::from_secs(1);
/// So long after the last event, and the last write, nothing follows from them any more.
const QUIET: Duration = Duration::from_millis(800);

/// What becomes of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    /// It comes late, with all that follows it on its watch; what comes on other watches overtakes it.
    Late,
    /// Its watch breaks off before it.
    Lost,
    /// Its watch breaks off before it, and whoever wants to go on from there is told that this is too long ago.
    Forgotten,
}

impl Mishap {
    pub(super) const ALL: [Self; 3] = [Self::Late, Self::Lost, Self::Forgotten];
}

/// Counts the events of a run, and has one of them go wrong.
pub(super) struct Watched(Arc<Mutex<Seen>>);

struct Seen {
    /// Writes, and events that are about the stage, so far.
    writes: usize,
    events: usize,
    /// When there was the last event or write.
    last: Instant,
    mishap: Option<(usize, Mishap)>,
    /// Which watch it befell, and when.
    hit: Option<(Place, Instant)>,
    /// Whether the watch was told that what it knows is too old.
    told: bool,
    mended: bool,
}

/// A watch: the number of its way to an API server, and what it is about.
type Place = (usize, String);

impl Watched {
    /// Watches what comes on these ways to API servers, until they are told otherwise. The event of this number, counted
    /// from 1, goes wrong.
    pub(super) fn on(
        ways: [&Interceptor; 2],
        stage: &Stage,
        mishap: Option<(usize, Mishap)>,
    ) -> Self {
        let seen = Arc::new(Mutex::new(Seen {
            writes: 0,
            events: 0,
            last: Instant::now(),
            mishap,
            hit: None,
            told: false,
            mended: false,
        }));
        let about = [
            stage.namespace.clone(),
            format!("{}\"", stage.cluster),
            format!("{}\"", stage.second()),
        ];
        for (number, way) in ways.into_iter().enumerate() {
            let (judge, look, about) = (seen.clone(), seen.clone(), about.clone());
            way.judge(move |asked| judge.lock().unwrap().judge(number, asked));
            way.look(move |asked, event| {
                if about.iter().any(|name| event.contains(name)) {
                    look.lock().unwrap().look(number, asked)
                } else {
                    Passing::On
                }
            });
        }
        Self(seen)
    }

    /// How many writes and events there were.
    pub(super) fn counts(&self) -> (usize, usize) {
        let seen = self.0.lock().unwrap();
        (seen.writes, seen.events)
    }

    /// Whether there was neither for so long.
    pub(super) fn is_calm(&self, time: Duration) -> bool {
        self.0.lock().unwrap().last.elapsed() > time
    }

    /// Whether the event came that was to go wrong.
    pub(super) fn happened(&self) -> bool {
        self.0.lock().unwrap().hit.is_some()
    }

    /// Whether what went wrong is over, and nothing follows from it any more.
    pub(super) fn is_over(&self) -> bool {
        let seen = self.0.lock().unwrap();
        let mended = match (&seen.hit, seen.mishap) {
            (None, _) => true,
            (Some((_, at)), Some((_, Mishap::Late))) => at.elapsed() > LATE + QUIET,
            _ => seen.mended,
        };
        mended && seen.last.elapsed() > QUIET
    }
}

impl Seen {
    fn look(&mut self, way: usize, asked: &Asked) -> Passing {
        self.events += 1;
        self.last = Instant::now();
        match self.mishap {
            Some((number, mishap)) if number == self.events => {
                self.hit = Some(((way, asked.collection()), self.last));
                if mishap == Mishap::Late {
                    Passing::Late(LATE)
                } else {
                    Passing::Lost
                }
            }
            _ => Passing::On,
        }
    }

    fn judge(&mut self, way: usize, asked: &Asked) -> Verdict {
        let befallen = self
            .hit
            .as_ref()
            .is_some_and(|((of, what), _)| *of == way && *what == asked.collection());
        self.writes += usize::from(asked.is_write());
        if befallen || asked.is_write() {
            self.last = Instant::now();
        }
        match self.mishap {
            Some((_, Mishap::Lost)) if befallen => self.mended = true,
            Some((_, Mishap::Forgotten)) if befallen => {
                self.mended |= self.told && !asked.watches();
                if asked.watches() && !std::mem::replace(&mut self.told, true) {
                    return expired();
                }
            }
            _ => {}
        }
        Verdict::Forward
    }
}

/// The answer to a watch that would go on from what the API server no longer has.
fn expired() -> Verdict {
    let event = serde_json::json!({ "type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    } });
    let json = vec![("content-type", "application/json".to_owned())];
    Verdict::Answer(200, json, format!("{event}\n"))
}
