//! Two annotations of a federated Service: which clusters receive its requests first, and which of these receive none
//! at present.

use std::{collections::BTreeMap, fmt, str::FromStr};

use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use super::{duration::rfc3339, text::short};

/// The name of the cluster that a federated Service is in.
pub const LOCAL: &str = "local";

/// Maximum number of clusters in a preference.
const MAX_CLUSTERS: usize = 16;

/// The largest weight.
const MAX_WEIGHT: u32 = 1000;

/// A cluster, as seen from the cluster of the federated Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClusterRef {
    /// The cluster of the federated Service.
    Local,
    /// A linked cluster.
    Linked(Box<str>),
}

/// Which clusters receive requests first.
///
/// Written as an order, such as `local` or `local,east`, or with weights, such as `east=80,local=20`. In an order, the
/// first available cluster receives all requests. With weights, the available clusters receive requests in these
/// proportions. Other clusters receive requests only if none of these is available.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preference(Vec<(ClusterRef, Option<u32>)>);

/// Why a preference is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PreferenceError {
    /// No cluster.
    #[error("the list of clusters is empty")]
    Empty,
    /// Too many clusters.
    #[error("more than {MAX_CLUSTERS} clusters")]
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
    #[error("invalid weight {0:?}: must be from 1 to {MAX_WEIGHT}")]
    Weight(String),
}

impl From<&str> for ClusterRef {
    fn from(name: &str) -> Self {
        if name == LOCAL {
            Self::Local
        } else {
            Self::Linked(name.into())
        }
    }
}

impl ClusterRef {
    /// The name, if this is a linked cluster.
    pub fn linked(&self) -> Option<&str> {
        match self {
            Self::Local => None,
            Self::Linked(name) => Some(name),
        }
    }
}

impl fmt::Display for ClusterRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.linked().unwrap_or(LOCAL))
    }
}

impl Preference {
    /// Its clusters, most preferred first.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterRef> {
        self.0.iter().map(|(cluster, _)| cluster)
    }

    /// Whether it is an order: only one cluster at a time receives requests.
    pub fn is_order(&self) -> bool {
        self.0.iter().all(|(_, weight)| weight.is_none())
    }

    /// The weight of a cluster; 1 if this is an order.
    pub fn weight(&self, cluster: &ClusterRef) -> u32 {
        let own = self.0.iter().find(|(known, _)| known == cluster);
        own.and_then(|(_, weight)| *weight).unwrap_or(1)
    }
}

impl FromStr for Preference {
    type Err = PreferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut clusters: Vec<(ClusterRef, Option<u32>)> = Vec::new();
        let items = text.split(',').map(str::trim);
        for item in items.filter(|item| !item.is_empty()) {
            let (name, weight) = match item.split_once('=') {
                Some((name, weight)) => (name.trim(), Some(read_weight(weight.trim())?)),
                None => (item, None),
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
            if name.is_empty() || name.len() > 63 || !name.chars().all(is_name) {
                return Err(PreferenceError::Name(short(name)));
            }
            let cluster = ClusterRef::from(name);
            if clusters.iter().any(|(known, _)| *known == cluster) {
                return Err(PreferenceError::Twice(name.to_owned()));
            }
            if clusters.len() == MAX_CLUSTERS {
                return Err(PreferenceError::TooMany);
            }
            clusters.push((cluster, weight));
        }
        let weighted = clusters.iter().filter(|(_, weight)| weight.is_some());
        match weighted.count() {
            _ if clusters.is_empty() => Err(PreferenceError::Empty),
            count if count == 0 || count == clusters.len() => Ok(Self(clusters)),
            _ => Err(PreferenceError::Mixed),
        }
    }
}

/// The linked clusters in a valid preference.
pub fn linked_clusters(text: &str) -> impl Iterator<Item = &str> {
    let items = text
        .split(',')
        .map(|item| item.split_once('=').map_or(item, |(name, _)| name));
    items
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .take(MAX_CLUSTERS)
        .filter(|name| *name != LOCAL)
}

fn read_weight(text: &str) -> Result<u32, PreferenceError> {
    let weight = text.parse().ok();
    weight
        .filter(|weight| (1..=MAX_WEIGHT).contains(weight))
        .ok_or_else(|| PreferenceError::Weight(short(text)))
}

impl fmt::Display for Preference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (cluster, weight)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{cluster}")?;
            if let Some(weight) = weight {
                write!(f, "={weight}")?;
            }
        }
        Ok(())
    }
}

/// The period in which a preferred cluster receives no requests: it was unavailable, and then waits for its hold-down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
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
pub struct FailedOver(pub BTreeMap<ClusterRef, Outage>);

impl FailedOver {
    /// Reads the annotation. Invalid items are ignored.
    pub fn read(text: &str) -> Self {
        let items = text.split(',').take(MAX_CLUSTERS).filter_map(|item| {
            let (name, times) = item.trim().split_once('=')?;
            let (since, until) = times.split_once('/')?;
            let until = match until {
                ".." => None,
                time => Some(time.parse().ok()?),
            };
            let since = since.parse().ok()?;
            Some((ClusterRef::from(name), Outage { since, until }))
        });
        Self(items.collect())
    }

    /// The times at which clusters receive requests again.
    pub fn returns(&self) -> impl Iterator<Item = Timestamp> {
        self.0.values().filter_map(|outage| outage.until)
    }
}

impl fmt::Display for FailedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (cluster, outage)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            let until = outage.until.map_or_else(|| "..".to_owned(), rfc3339);
            write!(f, "{separator}{cluster}={}/{until}", rfc3339(outage.since))?;
        }
        Ok(())
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
            read.0,
            [(ClusterRef::Local, None), (ClusterRef::from("east"), None)]
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
    fn no_more_clusters_are_read_than_a_preference_may_have() {
        let many: Vec<String> = (0..20_000).map(|n| format!("c{n}")).collect();
        assert_eq!(linked_clusters(&many.join(",")).count(), MAX_CLUSTERS);
        let out = many.iter();
        let out = out.map(|name| format!("{name}=2026-01-02T03:04:05Z/.."));
        let out: Vec<String> = out.collect();
        assert_eq!(FailedOver::read(&out.join(",")).0.len(), MAX_CLUSTERS);
    }

    #[test]
    fn valid_intervals_are_read_and_shown_alike_and_others_are_ignored() {
        let text = "local=2026-01-02T03:04:05Z/..,east=2026-01-02T03:04:05Z/2026-01-02T03:05:00Z";
        let read = FailedOver::read(text);
        assert_eq!(read.to_string(), text);
        assert_eq!(read.returns().min(), "2026-01-02T03:05:00Z".parse().ok());
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
}
