//! When a token expires: whether that is soon, and the message about it. The controller and the commands share this
//! rule.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::api::duration::utc_minute;

/// A token that is valid for this long, or less, is about to expire.
pub const SOON: SignedDuration = SignedDuration::from_hours(7 * 24);

/// How close a token is to its expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryState {
    /// It does not expire soon.
    Valid,
    /// It is about to expire.
    ExpiresSoon,
    /// It has expired.
    Expired,
}

impl ExpiryState {
    /// The state of a token that expires at `at`.
    pub fn of(at: Timestamp, now: Timestamp) -> Self {
        let left = at.duration_since(now);
        if left > SOON {
            Self::Valid
        } else if left > SignedDuration::ZERO {
            Self::ExpiresSoon
        } else {
            Self::Expired
        }
    }
}

/// When the state changes; `None` if it is final.
pub fn changes_in(at: Timestamp, now: Timestamp) -> Option<Duration> {
    let left = at.duration_since(now);
    match ExpiryState::of(at, now) {
        ExpiryState::Valid => Some((left - SOON).unsigned_abs()),
        ExpiryState::ExpiresSoon => Some(left.unsigned_abs()),
        ExpiryState::Expired => None,
    }
}

/// The problem of a token that expires at `at`, and this remedy; `None` if it does not expire soon. The text changes only
/// with the state.
pub fn problem(at: Timestamp, now: Timestamp, remedy: &str) -> Option<String> {
    let verb = match ExpiryState::of(at, now) {
        ExpiryState::Valid => return None,
        ExpiryState::ExpiresSoon => "expires",
        ExpiryState::Expired => "expired",
    };
    Some(format!(
        "the token {verb} on {}; {remedy}. An expired token cuts the \
         controller and Linkerd off from the target cluster: proxies keep the last endpoints, even with a new token in \
         the Secrets, until linkerd-destination restarts",
        utc_minute(at)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_depends_only_on_the_time_that_is_left() {
        let at: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let expires = Some("the token expires on 2026-11-28 12:00 UTC; renew it");
        let expired = Some("the token expired on 2026-11-28 12:00 UTC; renew it");
        let days = |days: u64| Duration::from_secs(days * 86_400);
        let second = Duration::from_secs(1);
        for (now, state, lasting, said) in [
            (
                "2026-08-28T12:00:00Z",
                ExpiryState::Valid,
                Some(days(85)),
                None,
            ),
            (
                "2026-11-21T11:59:59Z",
                ExpiryState::Valid,
                Some(second),
                None,
            ),
            (
                "2026-11-21T12:00:00Z",
                ExpiryState::ExpiresSoon,
                Some(days(7)),
                expires,
            ),
            (
                "2026-11-28T11:59:59Z",
                ExpiryState::ExpiresSoon,
                Some(second),
                expires,
            ),
            ("2026-11-28T12:00:00Z", ExpiryState::Expired, None, expired),
            ("2027-11-28T12:00:00Z", ExpiryState::Expired, None, expired),
        ] {
            let time = now.parse().unwrap();
            assert_eq!(ExpiryState::of(at, time), state, "{now}");
            assert_eq!(changes_in(at, time), lasting, "{now}");
            let text = problem(at, time, "renew it");
            let (said_now, ending) = text
                .as_deref()
                .and_then(|text| text.split_once(". "))
                .unzip();
            assert_eq!(said_now, said, "{now}");
            assert!(ending.is_none_or(|ending| ending.ends_with("linkerd-destination restarts")));
        }
    }

    #[test]
    fn the_earliest_and_the_latest_time_are_accepted() {
        let (first, last) = (Timestamp::MIN, Timestamp::MAX);
        assert_eq!(ExpiryState::of(last, first), ExpiryState::Valid);
        assert!(changes_in(last, first).is_some());
        assert_eq!(ExpiryState::of(first, last), ExpiryState::Expired);
        assert!(problem(first, last, "renew it").is_some());
    }
}
