//! What happened in clusters, as text. Pure.

use std::fmt::Write as _;

use hints::prose::wrapped;
use jiff::{SignedDuration, Timestamp};
use mirror_core::api::text::one_line_of;
use observe::timeline::{Happened, Timeline};

use super::table::age;

/// How far back the text goes.
const SHOWN: SignedDuration = SignedDuration::from_hours(24);
/// Maximum number of entries in the text.
const MOST: usize = 20;
/// Maximum number of characters of an entry after its cluster.
const LONGEST: usize = 240;

/// What happened lately, newest first, for a terminal of this width.
pub fn text(timeline: &Timeline, now: Timestamp, width: Option<usize>) -> String {
    let all = timeline.happened.iter();
    let lately: Vec<&Happened> = all
        .take_while(|one| now.duration_since(one.at) <= SHOWN)
        .collect();
    let mut text = match lately.len() {
        0 => "\nNothing is known to have happened in the last 24 hours.\n".to_owned(),
        _ => "\nWhat happened in the last 24 hours (UTC), newest first:\n".to_owned(),
    };
    let shown: Vec<[String; 4]> = lately.iter().take(MOST).map(|one| row(one, now)).collect();
    let width_of = |column: usize| {
        let cells = shown.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    let (of_time, of_age, of_cluster) = (width_of(0), width_of(1), width_of(2));
    for [time, age, cluster, what] in &shown {
        let _ = writeln!(
            text,
            "  {time:of_time$}  {age:>of_age$}  {cluster:of_cluster$}  {what}"
        );
    }
    if let Some(more @ 1..) = lately.len().checked_sub(MOST) {
        let _ = writeln!(text, "  and {more} more, which -o json has");
    }
    for line in &timeline.unseen {
        let _ = writeln!(text, "  not seen: {}", one_line_of(line, LONGEST));
    }
    wrapped(&text, width, 4)
}

/// The time, with the date if it is not that of today, how long ago that is, the cluster, and what happened.
fn row(one: &Happened, now: Timestamp) -> [String; 4] {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    let format = if day(one.at) == day(now) {
        "%H:%M:%S"
    } else {
        "%m-%d %H:%M:%S"
    };
    [
        one.at.strftime(format).to_string(),
        format!("{} ago", age(now, Some(one.at))),
        one.cluster.clone(),
        one_line_of(&format!("{}: {}", one.about, one.what), LONGEST),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(at: &str, cluster: &str, what: &str) -> Happened {
        Happened {
            at: at.parse().unwrap(),
            cluster: cluster.to_owned(),
            about: "Link linkerd-multicluster/east".to_owned(),
            what: what.to_owned(),
        }
    }

    #[test]
    fn text_has_times_ages_and_clusters_and_fits_into_the_terminal() {
        let now = "2026-11-26T03:00:00Z".parse().unwrap();
        let timeline = Timeline {
            happened: vec![
                one(
                    "2026-11-26T02:57:00Z",
                    "west",
                    "GatewayAlive became False: ProbeFailed: connection refused by 192.0.2.1",
                ),
                one(
                    "2026-11-25T23:10:00Z",
                    "northeast",
                    "changed by kubectl-edit",
                ),
                one("2026-11-25T02:59:00Z", "west", "created by helm"),
            ],
            unseen: vec!["Events in namespace shop of west: forbidden".to_owned()],
        };
        let shown = text(&timeline, now, Some(80));
        insta::assert_snapshot!(shown, @r"

        What happened in the last 24 hours (UTC), newest first:
          02:57:00           3m ago  west       Link linkerd-multicluster/east:
              GatewayAlive became False: ProbeFailed: connection refused by 192.0.2.1
          11-25 23:10:00  3h50m ago  northeast  Link linkerd-multicluster/east: changed
              by kubectl-edit
          not seen: Events in namespace shop of west: forbidden
        ");
        assert!(
            shown.lines().all(|line| line.chars().count() <= 80),
            "{shown}"
        );
        let none = text(&Timeline::default(), now, Some(80));
        assert_eq!(
            none,
            "\nNothing is known to have happened in the last 24 hours.\n"
        );
    }

    #[test]
    fn text_has_the_newest_and_says_how_many_more_there_are() {
        let now = "2026-11-26T03:00:00Z".parse().unwrap();
        let entries = (0..23).map(|_| one("2026-11-26T02:57:00Z", "west", "changed"));
        let timeline = Timeline {
            happened: entries.collect(),
            unseen: Vec::new(),
        };
        let shown = text(&timeline, now, None);
        assert_eq!(shown.matches("changed").count(), MOST);
        assert!(
            shown.ends_with("  and 3 more, which -o json has\n"),
            "{shown}"
        );
    }
}
