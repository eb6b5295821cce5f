//! Go durations, as in Links and annotations: `300ms`, `1h30m`, `3s`; and times in annotations.
//!
//! Syntax and canonical form are those of Go's `time.ParseDuration` and `Duration.String`. Negative durations are
//! rejected, because no duration in a Link can be negative.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;

/// The maximum in Go, which counts nanoseconds in an `int64`.
const MAX_NANOS: u128 = i64::MAX as u128;
const NANOS_PER_SECOND: u128 = 1_000_000_000;
/// Number of digits after the decimal point that are read. Further digits are below a nanosecond in every unit.
const FRACTION_DIGITS: usize = 18;

/// Why a duration is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DurationError {
    /// Empty text.
    #[error("missing duration (such as 30s or 1h30m)")]
    Empty,
    /// A minus sign.
    #[error("negative duration {0:?}")]
    Negative(String),
    /// A number without a unit.
    #[error("missing unit in duration {0:?} (known: ns, us, ms, s, m, h)")]
    MissingUnit(String),
    /// A unit that Go does not know, such as `d`.
    #[error("unknown unit {unit:?} in duration {text:?} (known: ns, us, ms, s, m, h)")]
    UnknownUnit {
        /// The whole text.
        text: String,
        /// The unit in it.
        unit: String,
    },
    /// Anything else.
    #[error("invalid duration {0:?} (use a value such as 30s or 1h30m)")]
    Malformed(String),
    /// More than Go can hold, about 292 years.
    #[error("duration {0:?} is too long")]
    TooLong(String),
}

/// Reads a Go duration: numbers with units, such as `1h30m`, `1.5s` or `300ms`; also a bare `0`.
pub fn parse_go_duration(text: &str) -> Result<Duration, DurationError> {
    let owned = || text.to_owned();
    if text.is_empty() {
        return Err(DurationError::Empty);
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if let Some(positive) = rest.strip_prefix('-') {
        // Go reads `-0` as zero.
        if positive == "0" {
            return Ok(Duration::ZERO);
        }
        return Err(DurationError::Negative(owned()));
    }
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(DurationError::Malformed(owned()));
    }

    let mut nanos: u128 = 0;
    while !rest.is_empty() {
        let (whole, after) = split_while(rest, |c| c.is_ascii_digit());
        let (fraction, after) = match after.strip_prefix('.') {
            Some(tail) => split_while(tail, |c| c.is_ascii_digit()),
            None => ("", after),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(DurationError::Malformed(owned()));
        }
        let (unit, after) = split_while(after, |c| c != '.' && !c.is_ascii_digit());
        if unit.is_empty() {
            return Err(DurationError::MissingUnit(owned()));
        }
        let unit_nanos = nanos_of(unit).ok_or_else(|| DurationError::UnknownUnit {
            text: owned(),
            unit: unit.to_owned(),
        })?;
        nanos = term(whole, fraction, unit_nanos)
            .and_then(|term| nanos.checked_add(term))
            .filter(|sum| *sum <= MAX_NANOS)
            .ok_or_else(|| DurationError::TooLong(owned()))?;
        rest = after;
    }
    let nanos = u64::try_from(nanos).map_err(|_| DurationError::TooLong(owned()))?;
    Ok(Duration::from_nanos(nanos))
}

/// Writes a duration as Go does: `0s`, `300ms`, `3s`, `1m30s`, `1h30m0s`.
pub fn format_go_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    if nanos < NANOS_PER_SECOND {
        return match nanos {
            0..1_000 => format!("{nanos}ns"),
            1_000..1_000_000 => format!("{}µs", decimal(nanos, 1_000)),
            _ => format!("{}ms", decimal(nanos, 1_000_000)),
        };
    }
    let minutes = nanos / (60 * NANOS_PER_SECOND);
    let seconds = decimal(nanos % (60 * NANOS_PER_SECOND), NANOS_PER_SECOND);
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn split_while(text: &str, matches: impl Fn(char) -> bool) -> (&str, &str) {
    let end = text.find(|c| !matches(c)).unwrap_or(text.len());
    text.split_at(end)
}

fn nanos_of(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // The micro sign and the Greek letter look the same; Go takes both.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => NANOS_PER_SECOND,
        "m" => 60 * NANOS_PER_SECOND,
        "h" => 3_600 * NANOS_PER_SECOND,
        _ => return None,
    })
}

/// Nanoseconds of `whole.fraction` units; `None` on overflow.
fn term(whole: &str, fraction: &str, unit_nanos: u128) -> Option<u128> {
    let fraction = &fraction[..fraction.len().min(FRACTION_DIGITS)];
    let number = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u128>().ok(),
    };
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let below = number(fraction)?.checked_mul(unit_nanos)? / scale;
    number(whole)?.checked_mul(unit_nanos)?.checked_add(below)
}

/// `nanos / unit` as a decimal number, without trailing zeros.
fn decimal(nanos: u128, unit: u128) -> String {
    let (whole, mut below) = (nanos / unit, nanos % unit);
    if below == 0 {
        return whole.to_string();
    }
    let mut digits = unit.ilog10() as usize;
    while below.is_multiple_of(10) {
        below /= 10;
        digits -= 1;
    }
    format!("{whole}.{below:0digits$}")
}

/// A time for people, in whole seconds.
pub fn utc(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A time for people, in whole minutes.
pub fn utc_minute(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M UTC").to_string()
}

/// A time as in RFC 3339, in whole seconds.
pub fn rfc3339(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn go_durations_are_read() {
        for (text, nanos) in [
            ("0", 0),
            ("-0", 0),
            ("+0", 0),
            ("0s", 0),
            ("3s", 3_000_000_000),
            ("+3s", 3_000_000_000),
            ("300ms", 300_000_000),
            ("1.5s", 1_500_000_000),
            (".5s", 500_000_000),
            ("5.s", 5_000_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1h1m1s1ms1us1ns", 3_661_001_001_001),
            ("1\u{b5}s", 1_000),
            ("1\u{3bc}s", 1_000),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("0.100000000000000000000h", 360_000_000_000),
            ("2562047h47m16.854775807s", i64::MAX as u128),
        ] {
            assert_eq!(
                parse_go_duration(text).map(|d| d.as_nanos()),
                Ok(nanos),
                "{text}"
            );
        }
    }

    #[test]
    fn durations_that_go_rejects_are_rejected() {
        type E = DurationError;
        let unit = |text: &str, unit: &str| E::UnknownUnit {
            text: text.into(),
            unit: unit.into(),
        };
        for (text, error) in [
            ("", E::Empty),
            ("3", E::MissingUnit("3".into())),
            ("1h3", E::MissingUnit("1h3".into())),
            ("-3s", E::Negative("-3s".into())),
            ("+", E::Malformed("+".into())),
            (".", E::Malformed(".".into())),
            (".s", E::Malformed(".s".into())),
            ("s", E::Malformed("s".into())),
            (" 3s", E::Malformed(" 3s".into())),
            ("+-3s", E::Negative("+-3s".into())),
            ("3 s", unit("3 s", " s")),
            ("1d", unit("1d", "d")),
            ("3S", unit("3S", "S")),
            ("3ß", unit("3ß", "ß")),
            ("9999999999h", E::TooLong("9999999999h".into())),
            (
                "2562047h47m16.854775808s",
                E::TooLong("2562047h47m16.854775808s".into()),
            ),
        ] {
            assert_eq!(parse_go_duration(text), Err(error), "{text:?}");
        }
        let endless = format!("{}h", "9".repeat(60));
        assert_eq!(
            parse_go_duration(&endless),
            Err(E::TooLong(endless.clone()))
        );
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (duration, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_nanos(1), "1ns"),
            (Duration::from_nanos(1_100), "1.1µs"),
            (Duration::from_micros(2_200), "2.2ms"),
            (Duration::from_millis(300), "300ms"),
            (Duration::from_millis(3_300), "3.3s"),
            (Duration::from_secs(3), "3s"),
            (Duration::from_secs(60), "1m0s"),
            (Duration::from_secs(5_400), "1h30m0s"),
            (Duration::from_millis(5_025_001), "1h23m45.001s"),
        ] {
            assert_eq!(format_go_duration(duration), text);
        }
    }

    proptest! {
        #[test]
        fn written_duration_reads_back(nanos in 0..=i64::MAX.unsigned_abs()) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse_go_duration(&format_go_duration(duration)), Ok(duration));
        }

        #[test]
        fn no_text_is_too_odd_to_be_judged(text in "\\PC*|[0-9.smhnuµ+-]*") {
            let _ = parse_go_duration(&text);
        }
    }
}
