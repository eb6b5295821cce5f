//! Two annotations of a federated Service: which clusters receive its requests first, and which of these receive none
//! at present.

use std::{collections::BTreeMap, fmt, str::FromStr};

use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use super::{
    duration::rfc3339,
    members::{local_member, remote_members},
};

/// The name of the cluster that a federated Service is in.
pub const LOCAL: &str = "local";

/// Maximum number of clusters in a preference.
const MOST: usize = 16;

/// The largest weight.
const HEAVIEST: u32 = 1000;

/// A cluster, as seen from the cluster of the federated Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The cluster of the federated Service.
    Local,
    /// A linked cluster.
    Cluster(Box<str>),
}

/// Which clusters receive requests first.
///
/// Written as an order, such as `local` or `local,east`, or as weights, such as `east=80,local=20`. Other clusters
/// receive requests only if none of these is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preference {
    /// The first available cluster receives all requests.
    Order(Vec<Place>),
    /// The available clusters receive requests in these proportions.
    Weights(Vec<(Place, u32)>),
}

/// Why a preference is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PreferenceError {
    /// No cluster.
    #[error("the list of clusters is empty")]
    Empty,
    /// Too many clusters.
    #[error("more than {MOST} clusters")]
    TooMany,
    /// An invalid cluster name.
    #[error("invalid cluster name {0:?}")]
    Name(String),
    /// A duplicate name.
    #[error("duplicate cluster {0}")]
    Twice(String),
    /// Only some of the clusters have a weight.
    #[error("either all clusters must have a weight, or none")]
    Mixed,
    /// An invalid weight.
    #[error("invalid weight {0:?}: must be from 1 to {HEAVIEST}")]
    Weight(String),
}

impl From<&str> for Place {
    fn from(name: &str) -> Self {
        if name == LOCAL {
            Self::Local
        } else {
            Self::Cluster(name.into())
        }
    }
}

impl Place {
    /// The name, if this is a linked cluster.
    pub fn cluster(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Cluster(name) => Some(name),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cluster().unwrap_or(LOCAL))
    }
}

impl Preference {
    /// Its clusters, most preferred first.
    pub fn places(&self) -> Box<dyn Iterator<Item = &Place> + '_> {
        match self {
            Self::Order(places) => Box::new(places.iter()),
            Self::Weights(weights) => Box::new(weights.iter().map(|(place, _)| place)),
        }
    }

    /// The weight of a cluster; 1 if this is an order.
    pub fn weight(&self, place: &Place) -> u32 {
        let weights = match self {
            Self::Order(_) => return 1,
            Self::Weights(weights) => weights,
        };
        let own = weights.iter().find(|(named, _)| named == place);
        own.map_or(1, |(_, weight)| *weight)
    }
}

impl FromStr for Preference {
    type Err = PreferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut places: Vec<(Place, Option<u32>)> = Vec::new();
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let (name, weight) = match item.split_once('=') {
                Some((name, weight)) => (name.trim(), Some(weight.trim())),
                None => (item, None),
            };
            let weight = weight.map(read_weight).transpose()?;
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
            if name.is_empty() || name.len() > 63 || !name.chars().all(is_name) {
                return Err(PreferenceError::Name(in_short(name)));
            }
            let place = Place::from(name);
            if places.iter().any(|(known, _)| *known == place) {
                return Err(PreferenceError::Twice(name.to_owned()));
            }
            if places.len() == MOST {
                return Err(PreferenceError::TooMany);
            }
            places.push((place, weight));
        }
        let weighed = places.iter().filter(|(_, weight)| weight.is_some()).count();
        match weighed {
            _ if places.is_empty() => Err(PreferenceError::Empty),
            0 => Ok(Self::Order(
                places.into_iter().map(|(place, _)| place).collect(),
            )),
            all if all == places.len() => {
                let weights = places.into_iter();
                Ok(Self::Weights(
                    weights
                        .map(|(place, weight)| (place, weight.unwrap_or(1)))
                        .collect(),
                ))
            }
            _ => Err(PreferenceError::Mixed),
        }
    }
}

/// The linked clusters in a valid preference.
pub fn clusters(text: &str) -> impl Iterator<Item = &str> {
    let items = text
        .split(',')
        .map(|item| item.split_once('=').map_or(item, |(name, _)| name));
    items
        .map(str::trim)
        .filter(|name| !name.is_empty() && *name != LOCAL)
}

fn read_weight(text: &str) -> Result<u32, PreferenceError> {
    let weight = text.parse().ok();
    weight
        .filter(|weight| (1..=HEAVIEST).contains(weight))
        .ok_or_else(|| PreferenceError::Weight(in_short(text)))
}

fn in_short(text: &str) -> String {
    text.chars().take(63).collect()
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = match self {
            Self::Order(places) => places.iter().map(Place::to_string).collect(),
            Self::Weights(weights) => {
                let items = weights.iter();
                items
                    .map(|(place, weight)| format!("{place}={weight}"))
                    .collect()
            }
        };
        f.write_str(&items.join(","))
    }
}

/// The period in which a preferred cluster receives no requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Out {
    /// Start of the period.
    pub since: Timestamp,
    /// When it receives requests again; `None` while it is unavailable.
    pub until: Option<Timestamp>,
}

/// The preferred clusters that receive no requests.
///
/// In the annotation, each has an ISO 8601 time interval, which is open while the cluster is unavailable:
/// `local=2026-01-02T03:04:05Z/..,east=2026-01-02T03:04:05Z/2026-01-02T03:05:00Z`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FailedOver(pub BTreeMap<Place, Out>);

impl FailedOver {
    /// Reads the annotation. Invalid items are ignored.
    pub fn read(text: &str) -> Self {
        let items = text.split(',').filter_map(|item| {
            let (name, times) = item.trim().split_once('=')?;
            let (since, until) = times.split_once('/')?;
            let until = match until {
                ".." => None,
                time => Some(time.parse().ok()?),
            };
            let out = Out {
                since: since.parse().ok()?,
                until,
            };
            Some((Place::from(name), out))
        });
        Self(items.collect())
    }

    /// The next time at which a cluster receives requests again.
    pub fn next_return(&self) -> Option<Timestamp> {
        self.0.values().filter_map(|out| out.until).min()
    }
}

impl fmt::Display for FailedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (place, out)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let until = out.until.map_or_else(|| "..".to_owned(), rfc3339);
            write!(f, "{separator}{place}={}/{until}", rfc3339(out.since))?;
        }
        Ok(())
    }
}

/// Whether a cluster has a member of a federated Service. `annotation` returns the value of an annotation of the
/// Service.
pub fn has_member<'a>(annotation: impl Fn(&str) -> Option<&'a str>, place: &Place) -> bool {
    match place {
        Place::Local => local_member(annotation).is_some(),
        Place::Cluster(name) => remote_members(annotation).any(|(_, own)| own == &**name),
    }
}

/// The clusters that receive the requests to a federated Service first; if empty, all members receive them.
/// `has_member` says whether a cluster has a member.
pub fn active<'a>(
    preference: &'a Preference,
    failed_over: &FailedOver,
    has_member: impl Fn(&Place) -> bool,
) -> Vec<&'a Place> {
    let places = preference.places();
    let able = places.filter(|place| has_member(place) && !failed_over.0.contains_key(place));
    match preference {
        Preference::Order(_) => able.take(1).collect(),
        Preference::Weights(_) => able.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_are_read_and_shown_alike() {
        for (text, shown) in [
            ("local", "local"),
            (" local , east ", "local,east"),
            ("east=80,local=20", "east=80,local=20"),
            ("east = 1,", "east=1"),
        ] {
            let preference: Preference = text.parse().unwrap();
            assert_eq!(preference.to_string(), shown);
            assert_eq!(shown.parse(), Ok(preference));
        }
        let read: Preference = "local,east".parse().unwrap();
        assert_eq!(
            read,
            Preference::Order(vec![Place::Local, Place::from("east")])
        );
    }

    #[test]
    fn invalid_preferences_are_reported_in_one_sentence() {
        for (text, expected) in [
            ("", "the list of clusters is empty"),
            (",", "the list of clusters is empty"),
            ("east,east", "duplicate cluster east"),
            ("a b", "invalid cluster name \"a b\""),
            ("=3", "invalid cluster name \"\""),
            (
                "east=80,west",
                "either all clusters must have a weight, or none",
            ),
            ("east=0", "invalid weight \"0\": must be from 1 to 1000"),
            (
                "east=1001",
                "invalid weight \"1001\": must be from 1 to 1000",
            ),
            ("east=x", "invalid weight \"x\": must be from 1 to 1000"),
        ] {
            let error = text.parse::<Preference>().unwrap_err();
            assert_eq!(error.to_string(), expected, "{text:?}");
        }
        let many: Vec<String> = (0..17).map(|n| format!("c{n}")).collect();
        assert_eq!(
            many.join(",").parse::<Preference>(),
            Err(PreferenceError::TooMany)
        );
    }

    #[test]
    fn valid_intervals_are_read_and_shown_alike_and_others_are_ignored() {
        let text = "local=2026-01-02T03:04:05Z/..,east=2026-01-02T03:04:05Z/2026-01-02T03:05:00Z";
        let read = FailedOver::read(text);
        assert_eq!(read.to_string(), text);
        assert_eq!(read.next_return(), "2026-01-02T03:05:00Z".parse().ok());
        for odd in [
            "",
            "local",
            "local=",
            "local=x/..",
            "local=2026-01-02T03:04:05Z/x",
        ] {
            assert_eq!(FailedOver::read(odd), FailedOver::default(), "{odd:?}");
        }
    }

    #[test]
    fn requests_go_to_preferred_clusters_that_are_available_and_have_a_member() {
        let local = "local=2026-01-02T03:04:05Z/..";
        let both = &format!("{local},east=2026-01-02T03:04:05Z/2026-01-02T03:05:00Z");
        for (preference, away, expected) in [
            ("local,east", "", "local"),
            ("local,east", local, "east"),
            ("local,east", both, ""),
            ("north,east,local", "", "east"),
            ("east=80,north=10,local=10", "", "east,local"),
            ("east=80,local=20", local, "east"),
            ("east=80,local=20", both, ""),
        ] {
            let read: Preference = preference.parse().unwrap();
            let has_member = |place: &Place| place.cluster() != Some("north");
            let active = active(&read, &FailedOver::read(away), has_member);
            let names: Vec<_> = active.iter().map(ToString::to_string).collect();
            assert_eq!(names.join(","), expected, "{preference} {away}");
        }
    }
}
