//! Preferences: which clusters receive the requests to a federated Service first, and which of them are left out for a
//! while.
//!
//! Proxies fail over by themselves: as soon as none of a cluster's endpoints is ready, they follow the route to the
//! other backends. This file decides when a cluster that was unavailable receives requests again. It has to be
//! available for a while first (hold-down), so that requests do not follow a cluster that is unstable.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::members::{Asked, Members};
use crate::{
    api::{
        k8s::Service,
        labels as l,
        preference::{FailedOver, Out, Place, Preference},
    },
    mirror::{
        outcome::{Problem, Reason},
        ownership::membership::{ClusterMembership, Form, Membership},
        state::remote::{Liveness, any_ready},
    },
};

/// The preference of a federated Service, and its present effect.
#[derive(Clone, Debug, Default)]
pub(crate) struct Preferred {
    /// The preference; `None` if there is none, or it is not applied.
    pub(crate) preference: Option<Preference>,
    /// The preferred clusters that receive no requests.
    pub(crate) failed_over: FailedOver,
    /// Preferred clusters that have a member.
    pub(crate) members: Vec<Place>,
    /// What is wrong with the preference.
    pub(crate) problem: Option<Problem>,
}

impl Preferred {
    /// Whether a cluster is left out.
    pub(crate) fn leaves_out(&self, place: &Place) -> bool {
        self.failed_over.0.contains_key(place)
    }
}

/// Whether a cluster that has a member can take requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Able {
    Yes,
    No,
    /// Not known now.
    Unknown,
    /// It cannot be known, because only Linkerd sees the endpoints of a member that it discovers.
    Untold,
}

impl From<Option<bool>> for Able {
    fn from(able: Option<bool>) -> Self {
        match able {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::Unknown,
        }
    }
}

impl Members<'_> {
    /// The preference that is asked for, and its present effect.
    pub(super) fn preferred(&self) -> Preferred {
        let (state, actual) = (self.of.state, self.of.actual);
        if let Some(left) = actual.and_then(|actual| self.left_over(actual)) {
            return left;
        }
        if state.config.routes.is_some() && !state.knows_routes() {
            // Until the routes have been listed, the existing preference stays: it says which mirrors routes may use.
            return actual.map(existing).unwrap_or_default();
        }
        match self.preference() {
            Ok(Some((preference, hold_down))) => self.in_effect(preference, hold_down),
            Ok(None) => Preferred::default(),
            Err(problem) => Preferred {
                problem: Some(problem),
                ..Preferred::default()
            },
        }
    }

    /// The preference that is asked for, if any, and the hold-down.
    fn preference(&self) -> Result<Option<(Preference, Duration)>, Problem> {
        let hold_down = self.of.state.config.routes;
        let text = match self.asked() {
            Asked::For(text) => text,
            Asked::Unknown => {
                let actual = self.of.actual;
                actual.and_then(|actual| actual.metadata.annotations.get(l::PREFER))
            }
            Asked::Ignored(cluster) if hold_down.is_some() => {
                let message = format!(
                    "the annotation {} of the member in {cluster} is ignored: only the Link of {cluster}, or a member \
                     in this cluster, says which clusters are preferred",
                    l::PREFER
                );
                return Err(Problem::new(Reason::PreferenceIgnored, message));
            }
            Asked::Ignored(_) => None,
        };
        let Some(text) = text else {
            return Ok(None);
        };
        let preference: Preference = text.parse().map_err(|error| {
            let key = l::PREFER;
            let message = format!("no cluster is preferred: invalid annotation {key}: {error}");
            Problem::new(Reason::InvalidPreference, message)
        })?;
        let hold_down = hold_down.ok_or_else(|| {
            let message = "no cluster is preferred: routes are not enabled in this installation";
            Problem::new(Reason::NoRoutes, message)
        })?;
        Ok(Some((preference, hold_down)))
    }

    /// The present effect of a preference.
    fn in_effect(&self, preference: Preference, hold_down: Duration) -> Preferred {
        let state = self.of.state;
        let unknown = preference.places().filter_map(Place::cluster);
        let unknown =
            unknown.filter(|cluster| state.link(cluster).is_none() && !state.may_keep(cluster));
        let unknown: Vec<&str> = unknown.collect();
        let problem = (!unknown.is_empty()).then(|| {
            let message = format!("preferred clusters without a Link: {}", unknown.join(", "));
            Problem::new(Reason::InvalidPreference, message)
        });
        let before = self.of.actual.map(existing).unwrap_or_default();
        let able = preference.places();
        let able = able.filter_map(|place| Some((place.clone(), self.is_able(place)?)));
        let able: BTreeMap<Place, Able> = able.collect();
        let others = self.others_can(&preference);
        let failed_over = next(&before.failed_over, &able, others, state.now, hold_down);
        let members = preference.places().filter(|place| able.contains_key(place));
        Preferred {
            members: members.cloned().collect(),
            preference: Some(preference),
            failed_over,
            problem,
        }
    }

    /// The preference of a federated Service whose routes may still exist, although this installation writes none any
    /// more. It stays until the routes are gone: it says which mirrors they lead to.
    fn left_over(&self, actual: &Service) -> Option<Preferred> {
        let left = existing(actual);
        if self.of.state.config.routes.is_some() || left.preference.is_none() {
            return None;
        }
        let message = if !self.of.state.knows_routes() {
            "requests may still go to the preferred clusters first: routes are not enabled in this installation any \
             more, and cannot be read"
        } else if self.has_routes() {
            "routes are not enabled in this installation any more, and are being deleted"
        } else {
            return None;
        };
        Some(Preferred {
            problem: Some(Problem::new(Reason::NoRoutes, message)),
            ..left
        })
    }

    fn has_routes(&self) -> bool {
        let mut routes = self.of.state.own_routes(self.of.namespace, &self.of.name);
        routes.next().is_some()
    }

    /// Whether a preferred cluster can take requests; `None` if it has no member.
    fn is_able(&self, place: &Place) -> Option<Able> {
        match place {
            Place::Local => {
                self.of.local?;
                let slices = self.of.state.member_slices();
                let any_ready = slices.map(|slices| {
                    let own = slices.in_group(self.of.namespace, self.of.service);
                    any_ready(own.iter().map(AsRef::as_ref))
                });
                Some(any_ready.into())
            }
            Place::Cluster(cluster) => {
                let linked = self.memberships.get(&**cluster)?;
                self.is_linked_able(linked)
            }
        }
    }

    fn is_linked_able(&self, linked: &ClusterMembership<'_>) -> Option<Able> {
        let backed = match linked.membership {
            Membership::Member(seen) => linked.is_backed(seen),
            Membership::Unseen | Membership::Leaving => None,
            Membership::Drained(_) | Membership::Refused(_) | Membership::None => return None,
        };
        let gateway = linked.target.gateway.as_ref();
        let state = &linked.entry.gateway;
        let liveness = gateway.map_or(state.liveness, |gateway| state.liveness_of(gateway));
        Some(match (self.form, liveness) {
            (Form::Discovery, _) => Able::Untold,
            (Form::Slices, Liveness::Dead) => Able::No,
            (Form::Slices, Liveness::Alive | Liveness::Unknown) => backed.into(),
        })
    }

    /// Whether a member that the preference does not name may be able to take requests.
    fn others_can(&self, preference: &Preference) -> bool {
        let named = |place: &Place| preference.places().any(|named| named == place);
        let can = |place: &Place| {
            !named(place) && self.is_able(place).is_some_and(|able| able != Able::No)
        };
        // A cluster that takes no part gets no requests, whatever is known of it.
        let clusters = self.clusters.iter();
        let mut clusters = clusters.map(|cluster| Place::Cluster((*cluster).into()));
        can(&Place::Local) || clusters.any(|place| can(&place))
    }
}

/// The preference that an existing federated Service has.
fn existing(actual: &Service) -> Preferred {
    let annotation = |key| actual.metadata.annotations.get(key);
    let failed_over = annotation(l::FAILED_OVER).map(FailedOver::read);
    Preferred {
        preference: annotation(l::PREFER).and_then(|text| text.parse().ok()),
        failed_over: failed_over.unwrap_or_default(),
        ..Preferred::default()
    }
}

/// The preferred clusters that receive no requests from now on. `able`: whether each preferred cluster that has a
/// member can take requests. `others`: whether any other member may be able to.
///
/// If no other cluster can take the requests, available clusters are not left out for the hold-down.
fn next(
    before: &FailedOver,
    able: &BTreeMap<Place, Able>,
    others: bool,
    now: Timestamp,
    hold_down: Duration,
) -> FailedOver {
    let hold_down = SignedDuration::try_from(hold_down).unwrap_or(SignedDuration::MAX);
    let returns = now.saturating_add(hold_down).unwrap_or(Timestamp::MAX);
    let left_out = able.iter().filter_map(|(place, able)| {
        let was = before.0.get(place);
        let out = match (was, able) {
            (None, Able::No) => Out {
                since: now,
                until: None,
            },
            // Where nobody can tell when a cluster is available again, it is not left out.
            (None, _) | (Some(_), Able::Untold) => return None,
            (Some(was), Able::No) => Out {
                until: None,
                ..*was
            },
            (Some(was), Able::Unknown) => *was,
            (Some(was), Able::Yes) => {
                // The recorded time may be from a clock that was wrong, or from a longer hold-down.
                let until = was.until.map_or(returns, |until| until.min(returns));
                if until <= now {
                    return None;
                }
                Out {
                    until: Some(until),
                    ..*was
                }
            }
        };
        Some((place.clone(), out))
    });
    let mut out: BTreeMap<Place, Out> = left_out.collect();
    if !others && able.keys().all(|place| out.contains_key(place)) {
        out.retain(|_, out| out.until.is_none());
    }
    FailedOver(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn able(of: &[(&str, Option<bool>)]) -> BTreeMap<Place, Able> {
        of.iter()
            .map(|(name, able)| (Place::from(*name), (*able).into()))
            .collect()
    }

    fn out(of: &[(&str, i64, Option<i64>)]) -> FailedOver {
        let out = of.iter().map(|(name, since, until)| {
            let out = Out {
                since: at(*since),
                until: until.map(at),
            };
            (Place::from(*name), out)
        });
        FailedOver(out.collect())
    }

    #[test]
    fn unavailable_cluster_is_left_out_and_returns_after_the_hold_down() {
        let gone = able(&[("local", Some(false)), ("east", Some(true))]);
        let back = able(&[("local", Some(true)), ("east", Some(true))]);
        let left = next(&FailedOver::default(), &gone, true, at(0), HOLD);
        assert_eq!(left, out(&[("local", 0, None)]));
        assert_eq!(next(&left, &gone, true, at(9), HOLD), left);
        let waits = next(&left, &back, true, at(10), HOLD);
        assert_eq!(waits, out(&[("local", 0, Some(40))]));
        assert_eq!(next(&waits, &back, true, at(39), HOLD), waits);
        assert_eq!(
            next(&waits, &back, true, at(40), HOLD),
            FailedOver::default()
        );
        // A cluster that becomes unavailable again starts a new hold-down.
        assert_eq!(next(&waits, &gone, true, at(20), HOLD), left);
        // An unknown state changes nothing.
        let unknown = able(&[("local", None), ("east", None)]);
        assert_eq!(next(&waits, &unknown, true, at(50), HOLD), waits);
        assert_eq!(
            next(&FailedOver::default(), &unknown, true, at(0), HOLD),
            FailedOver::default()
        );
        // A cluster without a member is forgotten.
        assert_eq!(
            next(&waits, &able(&[]), true, at(20), HOLD),
            FailedOver::default()
        );
        assert_eq!(
            next(&left, &back, true, at(10), Duration::ZERO),
            FailedOver::default()
        );
    }

    #[test]
    fn there_is_no_hold_down_while_no_other_cluster_is_available() {
        let all_gone = able(&[("local", Some(false)), ("east", Some(false))]);
        let left = next(&FailedOver::default(), &all_gone, false, at(0), HOLD);
        assert_eq!(left, out(&[("local", 0, None), ("east", 0, None)]));
        let back = able(&[("local", Some(true)), ("east", Some(false))]);
        assert_eq!(
            next(&left, &back, false, at(1), HOLD),
            out(&[("east", 0, None)])
        );
        assert_eq!(
            next(&left, &back, true, at(1), HOLD),
            out(&[("local", 0, Some(31)), ("east", 0, None)])
        );
    }
}
