//! A plan of a fleet as text: by cluster, with the marks and colors of `plan`.

use std::{collections::BTreeMap, fmt::Write as _};

use anstyle::{AnsiColor, Style};
use mirror_core::api::text::one_line;

use links::{
    fleet::plan::{ClusterPlan, FleetPlan},
    linked::Losses,
    steps::{LinkStep, Removes, StepChange},
};

/// Maximum number of names on one line.
const LISTED: usize = 20;

/// The whole plan, without what remains.
pub fn text(plan: &FleetPlan) -> String {
    let mut text = String::new();
    for cluster in &plan.clusters {
        add(&mut text, cluster);
    }
    text.push_str(&summary(plan));
    text
}

fn tone(color: AnsiColor) -> Style {
    Style::new().fg_color(Some(color.into()))
}

fn add(text: &mut String, cluster: &ClusterPlan) {
    let ClusterPlan {
        name,
        error,
        steps,
        problems,
        not_done,
        unwanted,
    } = cluster;
    let is_done =
        steps.is_empty() && problems.is_empty() && not_done.is_empty() && unwanted.is_empty();
    if error.is_none() && is_done {
        return;
    }
    let bold = Style::new().bold();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{bold}{name}{bold:#}");
    let yellow = tone(AnsiColor::Yellow);
    let wrong = error.iter().map(|why| format!("not read: {why}"));
    for problem in wrong.chain(problems.iter().cloned()) {
        let _ = writeln!(text, "  {yellow}‼{yellow:#} {}", one_line(&problem));
    }
    for what in not_done {
        let _ = writeln!(text, "  · {}", one_line(what));
    }
    for group in grouped(unwanted) {
        add_group(text, ("·", Style::new()), &group);
    }
    for group in grouped(steps) {
        let mark = match group.first().map(|change| change.verb) {
            Some("create") => ("+", tone(AnsiColor::Green)),
            Some("delete") => ("-", tone(AnsiColor::Red)),
            _ => ("~", tone(AnsiColor::Yellow)),
        };
        add_group(text, mark, &group);
    }
}

/// Changes of one kind for one reason. What has lines of its own is alone.
fn grouped(steps: &[LinkStep]) -> Vec<Vec<&StepChange>> {
    let mut groups: BTreeMap<(u8, &str, &str), Vec<&StepChange>> = BTreeMap::new();
    let mut order = Vec::new();
    for change in steps.iter().map(|step| &step.change) {
        if !change.fields.is_empty() || change.removes.is_some() {
            order.push(vec![change]);
            continue;
        }
        let rank = match change.verb {
            "create" => 0,
            "patch" => 1,
            _ => 2,
        };
        let group = groups.entry((rank, change.kind.as_str(), &change.why));
        group.or_default().push(change);
    }
    groups.into_values().chain(order).collect()
}

/// Changes of one kind for one reason.
fn add_group(text: &mut String, (mark, style): (&str, Style), group: &[&StepChange]) {
    let Some(first) = group.first() else {
        return;
    };
    let mut names: Vec<&str> = group.iter().map(|change| change.name.as_str()).collect();
    // The Secrets of both namespaces have one name.
    names.sort_unstable();
    names.dedup();
    let listed = names.iter().take(LISTED).map(|name| one_line(name));
    let listed = listed.collect::<Vec<_>>().join(", ");
    let more = match names.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!(", … and {more} more"),
    };
    let (count, kind, why) = (group.len(), &first.kind, &first.why);
    let counted = if count == 1 {
        kind.clone()
    } else {
        format!("{count} {kind}s")
    };
    let _ = writeln!(
        text,
        "  {style}{mark} {counted}{style:#} {listed}{more}: {}",
        one_line(why)
    );
    for field in &first.fields {
        let shown = |value: &str| match value {
            "" => "(none)".to_owned(),
            value => one_line(value),
        };
        let place = field.place.as_ref().map(|place| format!(" ({place})"));
        let _ = writeln!(
            text,
            "      {}: {} → {}{}",
            field.field,
            shown(&field.before),
            shown(&field.after),
            place.unwrap_or_default()
        );
    }
    let removes = match &first.removes {
        Some(Removes::Known(losses)) => losses.text(&first.name),
        Some(Removes::Unknown { unknown }) => Some(Losses::unknown(unknown)),
        None => None,
    };
    if let Some(removes) = removes {
        let _ = writeln!(text, "      {}", one_line(&removes));
    }
}

fn summary(plan: &FleetPlan) -> String {
    let unread = plan.clusters.iter();
    let count = unread.filter(|cluster| cluster.error.is_some()).count();
    let unread = match count {
        0 => String::new(),
        1 => " 1 cluster was not read.".to_owned(),
        unread => format!(" {unread} clusters were not read."),
    };
    let others = match plan.not_used.len() {
        0 => String::new(),
        1 => " 1 cluster was left out by --only.".to_owned(),
        others => format!(" {others} clusters were left out by --only."),
    };
    let stays = match plan.stays() {
        0 => String::new(),
        1 => " 1 object stays without --prune.".to_owned(),
        stays => format!(" {stays} objects stay without --prune."),
    };
    let others = format!("{stays}{others}");
    if !plan.is_pending() {
        return match count {
            // Somebody still has something to do.
            0 if plan.stays() > 0 || !plan.remaining.is_empty() => {
                format!("Nothing to write.{others}\n")
            }
            0 => format!("Nothing to do.{others}\n"),
            all if all == plan.clusters.len() => format!("No cluster was read.{others}\n"),
            _ => format!("Nothing to do in the clusters that were read.{unread}{others}\n"),
        };
    }
    format!(
        "{} to create, {} to change, {} to delete.{unread}{others}\n",
        plan.count("create"),
        plan.count("patch"),
        plan.count("delete")
    )
}
