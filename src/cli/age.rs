//! Time spans as people read them, in kubectl's way: `45s`, `5m30s`, `3h`, `12d`.

use jiff::{SignedDuration, Timestamp};

/// How long ago something was; `-` when that is unknown, `0s` when it is in the future.
pub(crate) fn age(now: Timestamp, then: Option<Timestamp>) -> String {
    then.map_or_else(|| "-".to_owned(), |then| short(now.duration_since(then)))
}

/// A span in at most two units, fewer the longer it is. Steps are those of `kubectl get`.
fn short(span: SignedDuration) -> String {
    let seconds = span.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let years = days / 365;
    let two = |whole: i64, unit: char, rest: i64, small: char| match rest {
        0 => format!("{whole}{unit}"),
        rest => format!("{whole}{unit}{rest}{small}"),
    };
    if seconds < 120 {
        format!("{seconds}s")
    } else if minutes < 10 {
        two(minutes, 'm', seconds % 60, 's')
    } else if hours < 3 {
        format!("{minutes}m")
    } else if hours < 8 {
        two(hours, 'h', minutes % 60, 'm')
    } else if hours < 48 {
        format!("{hours}h")
    } else if days < 8 {
        two(days, 'd', hours % 24, 'h')
    } else if years < 2 {
        format!("{days}d")
    } else if years < 8 {
        two(years, 'y', days % 365, 'd')
    } else {
        format!("{years}y")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_formatted_as_by_kubectl() {
        const DAY: i64 = 86_400;
        for (seconds, expected) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (8 * 3_600, "8h"),
            (2 * DAY - 1, "47h"),
            (2 * DAY, "2d"),
            (2 * DAY + 3_600, "2d1h"),
            (8 * DAY, "8d"),
            (729 * DAY, "729d"),
            (730 * DAY, "2y"),
            (740 * DAY, "2y10d"),
            (3_000 * DAY, "8y"),
        ] {
            assert_eq!(
                short(SignedDuration::from_secs(seconds)),
                expected,
                "{seconds}"
            );
        }
        let now = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(
            age(now, Some("2026-01-01T00:00:00Z".parse().unwrap())),
            "60s"
        );
        assert_eq!(age(now, None), "-");
    }
}
