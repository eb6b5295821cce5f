//! Events: those that say more than the objects themselves, and each only once.

use std::collections::{BTreeMap, BTreeSet};

use hints::prose::counted;
use k8s_openapi::api::core::v1::Event;

use super::{happened::Happened, objects::about};

/// Reasons of Events about what always happens when a Pod starts.
const ROUTINE: [&str; 9] = [
    "Scheduled",
    "Pulling",
    "Pulled",
    "Created",
    "Started",
    "SuccessfulCreate",
    "Completed",
    "Injected",
    // Linkerd's identity controller, for each proxy once a day.
    "IssuedLeafCertificate",
];

/// Names of objects whose Events count, also for objects whose names begin with one of these and `-`, as those of the Pods
/// of a Deployment do. An empty name stands for all.
pub type EventNames = BTreeSet<String>;

/// What Events say of objects with these names, for each message once.
pub fn of_events(events: &[Event], names: &EventNames) -> Vec<Happened> {
    let mut folded = BTreeMap::new();
    for event in events {
        let of = &event.involved_object;
        let name = of.name.as_deref().unwrap_or_default();
        let reason = event.reason.as_deref().unwrap_or_default();
        let is_routine = event.type_.as_deref() != Some("Warning") && ROUTINE.contains(&reason);
        let Some(at) = last(event).filter(|_| !is_routine && is_about(name, names)) else {
            continue;
        };
        let kind = of.kind.as_deref().unwrap_or_default();
        let object = about(kind, of.namespace.as_deref().unwrap_or_default(), name);
        let message = event.message.as_deref().unwrap_or_default();
        let (count, newest) = folded
            .entry((object, format!("{reason}: {message}")))
            .or_insert((0, at));
        *count += times(event);
        *newest = at.max(*newest);
    }
    let happened = folded.into_iter().map(|((about, what), (count, at))| {
        let repeated = (count > 1).then(|| format!(" ({})", counted(count, "time")));
        Happened {
            at,
            about,
            what: what + &repeated.unwrap_or_default(),
            ..Happened::default()
        }
    });
    happened.collect()
}

fn is_about(name: &str, names: &EventNames) -> bool {
    names.iter().any(|of| {
        let rest = name.strip_prefix(of.as_str());
        rest.is_some_and(|rest| of.is_empty() || rest.is_empty() || rest.starts_with('-'))
    })
}

/// When it happened last.
fn last(event: &Event) -> Option<jiff::Timestamp> {
    let series = event.series.as_ref();
    let of_series = series.and_then(|series| Some(series.last_observed_time.as_ref()?.0));
    let own = [&event.last_timestamp, &event.first_timestamp];
    let own = own.into_iter().flatten().map(|time| time.0).max();
    let exact = event.event_time.as_ref().map(|time| time.0);
    of_series.max(own).max(exact)
}

fn times(event: &Event) -> usize {
    let of_series = event.series.as_ref().and_then(|series| series.count);
    let count = of_series.or(event.count).unwrap_or(1);
    usize::try_from(count).unwrap_or(1)
}
