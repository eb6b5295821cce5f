//! How long a watch waits after a failure, depending on its kind, and on the number of failures in a row.

use std::{collections::BTreeMap, fmt, time::Duration};

use kube::core::Status;
use tokio::{sync::watch as latest, time::sleep};

use client::{
    requests::{explain, has_answered, is_certificate},
    timing::{Backoff, jitter, jittered},
};
use mirror_core::mirror::link_status::{ConnectionLoss, LossCause};

/// Time until the first retry after a failure.
const FIRST_PAUSE: Duration = Duration::from_millis(800);
/// Maximum time between two tries if a server does not respond, to notice soon when it does.
const LONGEST_UNANSWERED: Duration = Duration::from_secs(5);
/// Maximum time between two tries if a server responds with errors.
const LONGEST: Duration = Duration::from_secs(60);
/// Time until an endless list is tried again.
const ENDLESS_PAUSE: Duration = Duration::from_secs(120);
/// Maximum pause that a server may ask for.
const LONGEST_WISH: Duration = Duration::from_secs(600);
/// Maximum number of kinds of failures that are counted separately.
const KINDS: usize = 8;
/// Number of watches in a row that may break immediately before this is reported.
const QUIET_BREAKS: u32 = 6;

/// A kind of failure: the verb of a request, and the HTTP status of the response. The status is 0 if the response
/// cannot be read, and if a watch breaks immediately.
type FailureKind = (&'static str, u16);

/// A watch that breaks immediately, without an event.
const BREAKS: FailureKind = ("watch", 0);

/// Why a list or a watch has ended.
#[derive(Debug)]
pub enum Failure {
    /// The connection broke, or the known version is too old. True if a new list may be all that is needed: if the
    /// watch stayed open for a moment, or the version was too old.
    Broken(String, bool),
    /// There was no response.
    Unanswered(ConnectionLoss),
    /// The response was an error, or cannot be read.
    Refused {
        message: String,
        kind: FailureKind,
        /// The pause that the server asks for.
        wish: Duration,
    },
    /// The list did not end after this number of objects.
    Endless(usize),
    /// The list has page after page, and no objects on them.
    Empty,
    /// Not a failure: a new list is needed, because the objects that the limit omits have changed.
    Stale,
}

impl Failure {
    /// The failure for an error of a request. `verb` completes "failed to …".
    pub fn of(verb: &'static str, error: kube::Error) -> Self {
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
                    let cause = if is_certificate(&error) {
                        LossCause::Certificate
                    } else {
                        LossCause::Unreachable
                    };
                    Self::Unanswered(ConnectionLoss {
                        why: message,
                        cause,
                    })
                }
            }
        }
    }

    /// What this means for the connection.
    pub fn loss(&self) -> ConnectionLoss {
        let cause = match self {
            Self::Unanswered(loss) => loss.cause,
            Self::Refused { kind: (_, 401), .. } => LossCause::Token,
            _ => LossCause::Unreachable,
        };
        ConnectionLoss {
            why: self.to_string(),
            cause,
        }
    }

    /// The failure for a `Status` in a response.
    pub fn said(verb: &'static str, status: Box<Status>) -> Self {
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
            Self::Unanswered(loss) => f.write_str(&loss.why),
            Self::Refused { message, .. } => f.write_str(message),
            Self::Stale => f.write_str("the objects that are omitted have changed"),
            Self::Empty => f.write_str("the list has page after page without an object"),
            Self::Endless(seen) => write!(f, "the list has more than {seen} objects"),
        }
    }
}

/// The pauses of one watch.
#[derive(Debug)]
pub struct WatchBackoff {
    /// Requests without a response.
    unanswered: Backoff,
    /// Rounds that ended with an error response, or whose watch had no event, by kind. Different kinds are counted
    /// separately. The message is not part of the kind, because it may differ each time.
    fruitless: BTreeMap<FailureKind, Backoff>,
    /// Watches that broke soon, but not immediately.
    short: Backoff,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        let soon = Backoff::new(FIRST_PAUSE, LONGEST_UNANSWERED);
        Self {
            unanswered: soon,
            fruitless: BTreeMap::new(),
            short: soon,
        }
    }
}

impl WatchBackoff {
    /// Records that the server responded to a list. This says nothing about watches.
    pub fn answered(&mut self) {
        self.unanswered.reset();
    }

    /// Records that a watch had an event, or stayed open. `long`: it stayed open.
    pub fn lived(&mut self, long: bool) {
        self.fruitless.clear();
        if long {
            self.short.reset();
        }
    }

    /// How long to wait after a failure, and whether to report it.
    pub fn after(&mut self, failure: &Failure) -> (Pause, bool) {
        let mut least = Duration::ZERO;
        let (most, is_reported) = match failure {
            Failure::Unanswered(_) => (self.unanswered.next_jittered(), true),
            Failure::Refused { kind, wish, .. } => {
                least = *wish;
                (self.fruitless(*kind).next_jittered(), true)
            }
            Failure::Broken(_, true) => (self.short.next_jittered(), false),
            Failure::Broken(_, false) => {
                let breaks = self.fruitless(BREAKS);
                let is_reported = breaks.failures() >= QUIET_BREAKS;
                (breaks.next_jittered(), is_reported)
            }
            Failure::Endless(_) | Failure::Empty => (jittered(ENDLESS_PAUSE), true),
            Failure::Stale => (Duration::ZERO, false),
        };
        let most = least.max(most) + jitter(least / 10);
        (Pause { least, most }, is_reported)
    }

    /// The count of a kind. Kinds beyond [`KINDS`] share one count, so that a server cannot create any number of them.
    fn fruitless(&mut self, kind: FailureKind) -> &mut Backoff {
        let is_new = !self.fruitless.contains_key(&kind);
        let common = is_new && self.fruitless.len() >= KINDS;
        self.fruitless
            .entry(if common { BREAKS } else { kind })
            .or_insert(Backoff::new(FIRST_PAUSE, LONGEST))
    }
}

/// A time to wait after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// Minimum: the pause that the server asked for.
    pub least: Duration,
    /// Maximum, if the server does not recover earlier.
    pub most: Duration,
}

impl Pause {
    /// Waits. `recovered` ends it early when it changes.
    pub async fn wait(self, recovered: Option<&mut latest::Receiver<u64>>) {
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
    fn cause_of_a_loss_is_the_token_the_certificate_or_the_way() {
        let untrusted = ConnectionLoss {
            why: "unknown issuer".to_owned(),
            cause: LossCause::Certificate,
        };
        for (failure, cause) in [
            (no(401), LossCause::Token),
            (no(403), LossCause::Unreachable),
            (no(500), LossCause::Unreachable),
            (Failure::Unanswered(untrusted), LossCause::Certificate),
            (
                Failure::Unanswered("gone".to_owned().into()),
                LossCause::Unreachable,
            ),
        ] {
            assert_eq!(failure.loss().cause, cause, "{failure}");
        }
    }

    #[test]
    fn pauses_double_up_to_what_the_failure_allows() {
        let no = no(403);
        let gone = Failure::Unanswered("gone".to_owned().into());
        for (failure, longest) in [(&no, 60_000), (&gone, 5000)] {
            let mut backoff = WatchBackoff::default();
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
    fn successful_list_does_not_reset_the_backoff_of_refused_watches() {
        let no = no(403);
        let mut backoff = WatchBackoff::default();
        for _ in 0..10 {
            backoff.answered();
            backoff.after(&no);
        }
        assert!(backoff.after(&no).0.most >= LONGEST / 2);
    }

    #[test]
    fn kinds_of_refusals_have_separate_pauses_up_to_a_limit() {
        let mut backoff = WatchBackoff::default();
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
    fn broken_connection_after_refusals_is_retried_soon() {
        let mut backoff = WatchBackoff::default();
        for _ in 0..10 {
            backoff.after(&no(500));
        }
        let broken = Failure::Broken("reset".into(), false);
        assert!(backoff.after(&broken).0.most <= FIRST_PAUSE);
    }

    #[test]
    fn pause_that_the_server_asks_for_is_kept_up_to_a_limit() {
        let wish = |seconds: u32| {
            let status =
                serde_json::json!({ "code": 429, "details": { "retryAfterSeconds": seconds } });
            let status: Status = serde_json::from_value(status).unwrap();
            let (pause, _) =
                WatchBackoff::default().after(&Failure::said("watch", Box::new(status)));
            (pause.least, pause.most)
        };
        let (least, most) = wish(30);
        assert_eq!(least, Duration::from_secs(30));
        assert!(most >= least && most <= least * 11 / 10);
        assert_eq!(wish(u32::MAX).0, LONGEST_WISH);
    }

    #[tokio::test(start_paused = true)]
    async fn pause_ends_when_the_server_recovers_but_not_before_retry_after() {
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
    fn broken_connection_is_reported_only_if_it_repeats() {
        let mut backoff = WatchBackoff::default();
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
