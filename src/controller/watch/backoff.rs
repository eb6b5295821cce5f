//! How long a watch waits after a failure: by what has failed, and by how often in a row.

use std::{collections::BTreeMap, fmt, time::Duration};

use kube::core::Status;
use tokio::{sync::watch as latest, time::sleep};

use crate::{
    client::requests::{explain, has_answered},
    controller::clock::jitter,
};

/// Time until the first try after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
/// The longest time between two tries of a server that does not answer: once it does, that is to be seen soon.
const LONGEST_UNANSWERED: Duration = Duration::from_secs(5);
/// The longest time between two tries of a server that answers, and not as it should.
const LONGEST: Duration = Duration::from_secs(60);
/// Time until a list that does not end is tried again.
const ENDLESS_PAUSE: Duration = Duration::from_secs(120);
/// The longest that a server may ask to be left alone.
const LONGEST_WISH: Duration = Duration::from_secs(600);
/// So many kinds of failure are told apart.
const KINDS: usize = 8;
/// So many watches in a row may break at once before that is news.
const QUIET_BREAKS: u32 = 6;

/// What a server does not do: the verb of a request, and the HTTP status of its answer; 0 for one that cannot be read,
/// and for a watch that breaks at once.
type FailureKind = (&'static str, u16);

/// A watch that breaks before it has shown anything, again and again.
const BREAKS: FailureKind = ("watch", 0);

/// Why a list or a watch has ended.
#[derive(Debug)]
pub(super) enum Failure {
    /// The connection broke, or what is known is too old to go on from. With whether a list may well be all that is
    /// needed: the watch had stayed for a moment, or there was none because of what is too old.
    Broken(String, bool),
    /// There was no answer.
    Unanswered(String),
    /// The answer was no, or none that can be read.
    Refused {
        /// What was said.
        message: String,
        /// What was refused, and how.
        kind: FailureKind,
        /// The time that the server wants to be left alone for.
        wish: Duration,
    },
    /// The list went on beyond so many objects.
    Endless(usize),
    /// All is well, but what is left out because of the limit has to be told again.
    Stale,
}

impl Failure {
    /// What an error of a request means. `verb` ends "failed to".
    pub(super) fn of(verb: &'static str, error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::said(verb, status),
            error => {
                let message = format!("failed to {verb}: {}", explain(&error));
                if has_answered(&error) {
                    Self::Refused {
                        message,
                        kind: (verb, 0),
                        wish: Duration::ZERO,
                    }
                } else {
                    Self::Unanswered(message)
                }
            }
        }
    }

    /// What a `Status` means that came in place of what was asked for.
    pub(super) fn said(verb: &'static str, status: Box<Status>) -> Self {
        let (code, details) = (status.code, status.details.as_ref());
        let seconds = details.map_or(0, |details| details.retry_after_seconds);
        let message = explain(&kube::Error::Api(status));
        let message = format!("failed to {verb}: {message}");
        if code == 410 {
            return Self::Broken(message, true);
        }
        Self::Refused {
            message,
            kind: (verb, code),
            wish: Duration::from_secs(seconds.into()).min(LONGEST_WISH),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(message, _) => write!(f, "watches fail repeatedly: {message}"),
            Self::Unanswered(message) | Self::Refused { message, .. } => f.write_str(message),
            Self::Stale => f.write_str("the objects that are left out have changed"),
            Self::Endless(seen) => write!(f, "the list has more than {seen} objects"),
        }
    }
}

/// Failures in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Requests without an answer.
    unanswered: u32,
    /// Rounds that ended in a refusal, or whose watch showed nothing, by kind: what was refused in one way, and is now
    /// in another, is other trouble. The message does not tell, it may hold what differs each time.
    fruitless: BTreeMap<FailureKind, u32>,
    /// Watches that broke soon, after they had shown something.
    short: u32,
}

impl Backoff {
    /// The server answered a list. That says nothing about watches.
    pub(super) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// A watch has lived: it showed an event, or stayed. `long`: it stayed.
    pub(super) fn lived(&mut self, long: bool) {
        self.fruitless.clear();
        if long {
            self.short = 0;
        }
    }

    /// How long to wait after a failure, and whether it is news.
    pub(super) fn after(&mut self, failure: &Failure) -> (Pause, bool) {
        let (least, most, news) = match failure {
            Failure::Unanswered(_) => {
                let most = next(&mut self.unanswered, LONGEST_UNANSWERED);
                (Duration::ZERO, most, true)
            }
            Failure::Refused { kind, wish, .. } => {
                (*wish, next(self.fruitless(*kind), LONGEST), true)
            }
            Failure::Broken(_, true) => {
                let most = next(&mut self.short, LONGEST_UNANSWERED);
                (Duration::ZERO, most, false)
            }
            Failure::Broken(_, false) => {
                let breaks = self.fruitless(BREAKS);
                let news = *breaks >= QUIET_BREAKS;
                (Duration::ZERO, next(breaks, LONGEST), news)
            }
            Failure::Endless(_) => (Duration::ZERO, ENDLESS_PAUSE, true),
            Failure::Stale => (Duration::ZERO, Duration::ZERO, false),
        };
        let most = least.max(most / 2 + jitter(most / 2));
        let most = most + jitter(least / 10);
        (Pause { least, most }, news)
    }

    /// The count of a kind. Those beyond [`KINDS`] have one in common, whatever a server thinks up.
    fn fruitless(&mut self, kind: FailureKind) -> &mut u32 {
        let is_new = !self.fruitless.contains_key(&kind);
        let common = is_new && self.fruitless.len() >= KINDS;
        self.fruitless
            .entry(if common { BREAKS } else { kind })
            .or_default()
    }
}

/// The longest pause after so many failures: it doubles. Counts one more.
fn next(failures: &mut u32, longest: Duration) -> Duration {
    let pause = longest.min(FIRST_PAUSE * (1 << (*failures).min(8)));
    *failures = failures.saturating_add(1);
    pause
}

/// A time to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// In any case: what the server asked for.
    pub(super) least: Duration,
    /// Unless the server answers again.
    pub(super) most: Duration,
}

impl Pause {
    /// Waits. `recovered` ends it early when it changes.
    pub(super) async fn wait(self, recovered: Option<&mut latest::Receiver<u64>>) {
        sleep(self.least).await;
        let rest = sleep(self.most.saturating_sub(self.least));
        let Some(recovered) = recovered else {
            return rest.await;
        };
        tokio::select! {
            () = rest => {}
            Ok(()) = recovered.changed() => sleep(jitter(FIRST_PAUSE)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn no(code: u16) -> Failure {
        Failure::Refused {
            message: "no".into(),
            kind: ("list", code),
            wish: Duration::ZERO,
        }
    }

    #[test]
    fn pauses_double_up_to_what_the_failure_allows() {
        let no = no(403);
        let gone = Failure::Unanswered("gone".into());
        for (failure, longest) in [(&no, 60_000), (&gone, 5000)] {
            let mut backoff = Backoff::default();
            let mut expected = 800;
            for _ in 0..100 {
                let pause = backoff.after(failure).0.most.as_millis();
                let most = u128::min(expected, longest);
                assert!((most / 2..=most).contains(&pause), "{pause} of {most} ms");
                expected *= 2;
                expected = expected.min(1 << 20);
            }
            backoff.lived(false);
            backoff.answered();
            assert!(backoff.after(failure).0.most.as_millis() <= 800);
        }
    }

    #[test]
    fn answer_to_a_list_changes_nothing_for_refused_watches() {
        let no = no(403);
        let mut backoff = Backoff::default();
        for _ in 0..10 {
            backoff.answered();
            backoff.after(&no);
        }
        assert!(backoff.after(&no).0.most >= LONGEST / 2);
    }

    #[test]
    fn each_kind_of_refusal_has_pauses_of_its_own_up_to_a_number_of_kinds() {
        let mut backoff = Backoff::default();
        let mut pause = |code| backoff.after(&no(code)).0.most;
        for _ in 0..10 {
            pause(429);
        }
        assert!(pause(500) <= FIRST_PAUSE);
        assert!(pause(429) >= LONGEST / 2);
        let pauses: Vec<Duration> = (400..500).map(pause).collect();
        assert!(pauses[50..].iter().all(|pause| *pause >= LONGEST / 2));
        backoff.lived(false);
        assert!(backoff.after(&no(429)).0.most <= FIRST_PAUSE);
    }

    #[test]
    fn connection_that_breaks_after_refusals_is_had_again_soon() {
        let mut backoff = Backoff::default();
        for _ in 0..10 {
            backoff.after(&no(500));
        }
        let broken = Failure::Broken("reset".into(), false);
        assert!(backoff.after(&broken).0.most <= FIRST_PAUSE);
    }

    #[test]
    fn wish_of_the_server_is_held_within_reason() {
        let wish = |seconds: u32| {
            let status =
                serde_json::json!({ "code": 429, "details": { "retryAfterSeconds": seconds } });
            let status: Status = serde_json::from_value(status).unwrap();
            let (pause, _) = Backoff::default().after(&Failure::said("watch", Box::new(status)));
            (pause.least, pause.most)
        };
        let (least, most) = wish(30);
        assert_eq!(least, Duration::from_secs(30));
        assert!(most >= least && most <= least * 11 / 10);
        assert_eq!(wish(u32::MAX).0, LONGEST_WISH);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_ends_when_the_server_answers_again_but_not_before_its_wish() {
        let seconds = Duration::from_secs;
        for (least, early) in [(0, true), (20, true), (0, false)] {
            let (recovered, mut seen) = latest::channel(0);
            let began = tokio::time::Instant::now();
            let pause = Pause {
                least: seconds(least),
                most: seconds(50),
            };
            if early {
                recovered.send_replace(1);
            }
            pause.wait(Some(&mut seen)).await;
            let took = began.elapsed();
            let expected = if early { seconds(least) } else { seconds(50) };
            assert!(
                took >= expected && took <= expected + seconds(1),
                "{took:?}"
            );
        }
    }

    #[test]
    fn connection_that_breaks_is_no_news_until_it_does_so_again_and_again() {
        let mut backoff = Backoff::default();
        let broken = |lived| Failure::Broken("reset".into(), lived);
        let news: Vec<bool> = (0..8).map(|_| backoff.after(&broken(false)).1).collect();
        assert_eq!(news, [false, false, false, false, false, false, true, true]);
        assert!((0..20).all(|_| !backoff.after(&broken(true)).1));
        let status = |code| Status::failure("no", "No").with_code(code).boxed();
        assert!(matches!(
            Failure::said("watch", status(410)),
            Failure::Broken(_, true)
        ));
        for code in [401, 403, 429, 500] {
            assert!(matches!(
                Failure::said("watch", status(code)),
                Failure::Refused { .. }
            ));
        }
    }
}
