//! Disturbs a watch at a chosen event: delays the event, or closes the watch before it.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use control_plane::{Asked, Interceptor, Passing, Verdict};

use super::stage::Stage;

/// How long an event is delayed. In this time, the controller processes the events of its other watches.
const LATE: Duration = Duration::from_secs(1);
/// After this time without an event or a write, the test assumes that the controller has processed everything.
const QUIET: Duration = Duration::from_millis(800);

/// How an event is disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    /// It is delayed, with all later events of its watch. Events of other watches arrive before it.
    Late,
    /// The watch is closed before it.
    Lost,
    /// The watch is closed before it. The next watch gets the error that its resource version is too old.
    Forgotten,
}

impl Mishap {
    pub(super) const ALL: [Self; 3] = [Self::Late, Self::Lost, Self::Forgotten];
}

/// Counts the events of a run, and disturbs one of them.
pub(super) struct Watched(Arc<Mutex<Seen>>);

struct Seen {
    /// Number of writes, and of events that concern the stage.
    writes: usize,
    events: usize,
    /// When the last event or write happened.
    last: Instant,
    mishap: Option<(usize, Mishap)>,
    /// Which watch was disturbed, and when.
    hit: Option<(Place, Instant)>,
    /// Whether the watch got the error that its version is too old.
    told: bool,
    /// Whether the controller has started the watch again. After that error, whether it has listed again.
    mended: bool,
}

/// A watch: the number of its proxy, and the resource that it watches.
type Place = (usize, String);

impl Watched {
    /// Counts the writes and events that these proxies forward. Disturbs the event of `mishap`, counted from 1.
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

    /// Number of writes and events.
    pub(super) fn counts(&self) -> (usize, usize) {
        let seen = self.0.lock().unwrap();
        (seen.writes, seen.events)
    }

    /// Whether there was neither a write nor an event for this time.
    pub(super) fn is_calm(&self, time: Duration) -> bool {
        self.0.lock().unwrap().last.elapsed() > time
    }

    /// Whether the disturbance happened.
    pub(super) fn happened(&self) -> bool {
        self.0.lock().unwrap().hit.is_some()
    }

    /// Whether the disturbance is over, and the controller has processed it.
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

/// The answer to a watch from a version that the API server does not have any more.
fn expired() -> Verdict {
    let event = serde_json::json!({ "type": "ERROR", "object": {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version", "reason": "Expired", "code": 410,
    } });
    let json = vec![("content-type", "application/json".to_owned())];
    Verdict::Answer(200, json, format!("{event}\n"))
}
