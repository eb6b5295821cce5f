//! Preferences: which clusters receive the requests to a federated Service first, and which of them have failed over.
//!
//! Proxies fail over by themselves: as soon as none of a cluster's endpoints is ready, they follow the route to the
//! other backends. This file decides when a cluster that was unavailable receives requests again. It has to be
//! available for a while first (hold-down), so that requests do not follow a cluster that is unstable.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::members::{Members, RequestedPreference};
use crate::{
    api::{
        k8s::Service,
        labels as l,
        preference::{ClusterRef, FailedOver, Outage, Preference},
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
    pub(crate) members: BTreeSet<ClusterRef>,
    /// What is wrong with the preference.
    pub(crate) problem: Option<Problem>,
}

impl Preferred {
    /// Whether a preferred cluster receives no requests.
    pub(crate) fn has_failed_over(&self, cluster: &ClusterRef) -> bool {
        self.failed_over.0.contains_key(cluster)
    }
}

/// Whether a cluster that has a member can take requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Availability {
    Available,
    Unavailable,
    /// Not known now.
    Unknown,
    /// It is never known, because only Linkerd sees the endpoints of a member that it discovers.
    Unobservable,
}

impl From<Option<bool>> for Availability {
    fn from(is_available: Option<bool>) -> Self {
        match is_available {
            Some(true) => Self::Available,
            Some(false) => Self::Unavailable,
            None => Self::Unknown,
        }
    }
}

impl Members<'_> {
    /// The requested preference, and its present effect.
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

    /// The requested preference, if any, and the hold-down.
    fn preference(&self) -> Result<Option<(Preference, Duration)>, Problem> {
        let hold_down = self.of.state.config.routes;
        let text = match self.requested_preference() {
            RequestedPreference::Value(text) => text,
            RequestedPreference::Unknown => {
                let actual = self.of.actual;
                actual.and_then(|actual| actual.metadata.annotations.get(l::PREFER))
            }
            RequestedPreference::Ignored(cluster) if hold_down.is_some() => {
                let message = format!(
                    "the annotation {} of the member in {cluster} is ignored: only the Link of {cluster}, or a member \
                     in this cluster, says which clusters are preferred",
                    l::PREFER
                );
                return Err(Problem::new(Reason::PreferenceIgnored, message));
            }
            RequestedPreference::Ignored(_) => None,
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
        let unknown = preference.clusters().filter_map(ClusterRef::linked);
        let unknown =
            unknown.filter(|cluster| state.link(cluster).is_none() && !state.may_keep(cluster));
        let unknown: Vec<&str> = unknown.collect();
        let problem = (!unknown.is_empty()).then(|| {
            let message = format!("preferred clusters without a Link: {}", unknown.join(", "));
            Problem::new(Reason::InvalidPreference, message)
        });
        let before = self.of.actual.map(existing).unwrap_or_default();
        let members = preference.clusters();
        let members =
            members.filter_map(|cluster| Some((cluster.clone(), self.availability(cluster)?)));
        let members: BTreeMap<ClusterRef, Availability> = members.collect();
        let others = self.others_may_be_available(&preference);
        let failed_over = next(&before.failed_over, &members, others, state.now, hold_down);
        Preferred {
            members: members.into_keys().collect(),
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

    /// Whether a cluster can take requests; `None` if it has no member. Unknown for a member without a Link in charge.
    fn availability(&self, cluster: &ClusterRef) -> Option<Availability> {
        match cluster {
            ClusterRef::Local => {
                self.of.local?;
                let slices = self.of.state.member_slices();
                let any_ready = slices.map(|slices| {
                    let own = slices.in_group(self.of.namespace, self.of.service);
                    any_ready(own.iter().map(AsRef::as_ref))
                });
                Some(any_ready.into())
            }
            ClusterRef::Linked(name) => match self.memberships.get(&**name) {
                Some(linked) => self.linked_availability(linked),
                None => self.clusters.get(&**name).map(|_| Availability::Unknown),
            },
        }
    }

    fn linked_availability(&self, linked: &ClusterMembership<'_>) -> Option<Availability> {
        let takes_part = self.clusters.contains(linked.target.cluster.as_str());
        let backed = match linked.membership {
            Membership::Member(seen) => linked.is_backed(seen),
            Membership::Unseen | Membership::Leaving if takes_part => None,
            _ => return None,
        };
        let gateway = linked.target.gateway.as_ref();
        let state = &linked.entry.gateway;
        let liveness = gateway.map_or(state.liveness, |gateway| state.liveness_of(gateway));
        Some(match (self.form, liveness) {
            (Form::Discovery, _) => Availability::Unobservable,
            (Form::Slices, Liveness::Dead) => Availability::Unavailable,
            (Form::Slices, Liveness::Alive | Liveness::Unknown) => backed.into(),
        })
    }

    /// Whether a member that the preference does not name may be able to take requests.
    fn others_may_be_available(&self, preference: &Preference) -> bool {
        let named = |cluster: &ClusterRef| preference.clusters().any(|named| named == cluster);
        let can = |cluster: &ClusterRef| {
            let availability = self.availability(cluster);
            !named(cluster) && availability.is_some_and(|is| is != Availability::Unavailable)
        };
        // A cluster that takes no part gets no requests, whatever is known of it.
        let clusters = self.clusters.iter();
        let mut clusters = clusters.map(|cluster| ClusterRef::Linked((*cluster).into()));
        can(&ClusterRef::Local) || clusters.any(|cluster| can(&cluster))
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

/// The preferred clusters that receive no requests from now on. `members`: whether each preferred cluster that has a
/// member can take requests. `others`: whether any other member may be able to.
///
/// If no other cluster can take the requests, there is no hold-down for clusters that are available.
fn next(
    before: &FailedOver,
    members: &BTreeMap<ClusterRef, Availability>,
    others: bool,
    now: Timestamp,
    hold_down: Duration,
) -> FailedOver {
    let hold_down = SignedDuration::try_from(hold_down).unwrap_or(SignedDuration::MAX);
    let returns = now.saturating_add(hold_down).unwrap_or(Timestamp::MAX);
    let outages = members.iter().filter_map(|(cluster, availability)| {
        let was = before.0.get(cluster);
        let (since, until) = match (was, availability) {
            (None, Availability::Unavailable) => (now, None),
            // Nobody could tell when such a cluster is available again.
            (None, _) | (Some(_), Availability::Unobservable) => return None,
            (Some(was), Availability::Unavailable) => (was.since, None),
            (Some(was), Availability::Unknown) => (was.since, was.until),
            (Some(was), Availability::Available) => {
                // The recorded time may be from a clock that was wrong, or from a longer hold-down.
                let until = was.until.map_or(returns, |until| until.min(returns));
                if until <= now {
                    return None;
                }
                (was.since, Some(until))
            }
        };
        Some((cluster.clone(), Outage { since, until }))
    });
    let mut outages: BTreeMap<ClusterRef, Outage> = outages.collect();
    if !others && members.keys().all(|cluster| outages.contains_key(cluster)) {
        outages.retain(|_, outage| outage.until.is_none());
    }
    FailedOver(outages)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOLD: Duration = Duration::from_secs(30);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    fn able(of: &[(&str, Option<bool>)]) -> BTreeMap<ClusterRef, Availability> {
        of.iter()
            .map(|(name, is)| (ClusterRef::from(*name), (*is).into()))
            .collect()
    }

    fn out(of: &[(&str, i64, Option<i64>)]) -> FailedOver {
        let out = of.iter().map(|(name, since, until)| {
            let out = Outage {
                since: at(*since),
                until: until.map(at),
            };
            (ClusterRef::from(*name), out)
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
