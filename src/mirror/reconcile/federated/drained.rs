//! Drained clusters leave federated Services, as far as somebody else is seen to be a member.
//!
//! A drain moves requests elsewhere. Where there is no elsewhere it moves nothing: the last member stays, and with it the
//! Service and its ClusterIP. Of clusters that are all drained those stay that have a place, and if none has, all come.

use std::collections::BTreeSet;

use crate::mirror::{
    outcome::{Outcome, Problem, Reason},
    ownership::membership::{Part, Parts},
    state::State,
    target::{Target, drain},
};

/// Takes those out that are drained and are not needed. They leave at once: that they are drained is no old news, and a
/// cluster that is worked on may not answer.
pub(crate) fn take_out(
    state: &State,
    namespace: &str,
    has_local_member: bool,
    tokens: &BTreeSet<String>,
    parts: &mut Parts<'_>,
) {
    if !parts.values().any(|linked| state.is_drained(linked.target)) {
        return;
    }
    let others_take_part = has_local_member
        || parts.values().any(|linked| {
            matches!(linked.part, Part::Member(_))
                && !state.is_drained(linked.target)
                && !linked.target.lacks_gateway()
        });
    let keeps_a_place = |cluster: &String| match parts.get(cluster.as_str()) {
        Some(linked) => matches!(linked.part, Part::Member(_) | Part::Unseen),
        None => state.may_keep(cluster) && !state.protects(namespace),
    };
    let any_has_a_place = tokens.iter().any(keeps_a_place);
    for (cluster, linked) in parts {
        let (target, part) = (linked.target, &mut linked.part);
        if !state.is_drained(target) {
            continue;
        }
        let has_place = tokens.contains(*cluster);
        match part {
            Part::Member(seen) if others_take_part || (any_has_a_place && !has_place) => {
                *part = Part::Drained(seen);
            }
            Part::Unseen if others_take_part && has_place => {
                *part = Part::Refused(Outcome::Failed(left(target)));
            }
            Part::None if others_take_part => *part = Part::Refused(Outcome::Absent),
            _ => {}
        }
    }
}

/// What is said of a member whose cluster is drained.
pub(crate) fn left(target: &Target) -> Problem {
    Problem::new(Reason::Drained, until(target))
}

/// What is said of one that stays.
pub(crate) fn stays_as_the_last(target: &Target) -> Problem {
    let message = format!(
        "{}, but stays because there is no other member",
        until(target)
    );
    Problem::new(Reason::Drained, message)
}

fn until(target: &Target) -> String {
    let until = target.drained_until.map(drain::until).unwrap_or_default();
    format!("the cluster is drained {until}")
}
