//! Which clusters a federated Service prefers, and which receive its requests now, from its annotations. Pure.

use jiff::Timestamp;
use serde::Serialize;

use mirror_core::{
    api::{
        k8s::Service,
        labels,
        members::{local_member, remote_members},
        preference::{ClusterRef, FailedOver, Preference},
    },
    mirror::{active_clusters, has_member_in},
};

/// The preference of a federated Service, and its failover state. Its JSON is part of the documented output of `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreferenceStatus {
    /// Clusters in their order, or with their weights; `null` if none is preferred.
    pub preference: Option<String>,
    /// Clusters that receive the requests first; `local` is this cluster. If empty, all members receive them.
    pub active: Vec<String>,
    /// Preferred clusters that receive no requests now.
    pub failed_over: Vec<AwayCluster>,
    /// Whether other clusters receive the requests of one of these.
    #[serde(skip)]
    pub has_failed_over: bool,
}

/// A preferred cluster that receives no requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AwayCluster {
    /// The cluster.
    pub cluster: String,
    /// Since when.
    pub since: Timestamp,
    /// When it receives requests again; `null` while it cannot.
    pub returns: Option<Timestamp>,
}

impl PreferenceStatus {
    /// Reads the annotations of a Service; empty if it is not a federated Service.
    pub fn of(service: &Service) -> Self {
        let annotation = |key: &str| service.metadata.annotations.get(key);
        let preference = annotation(labels::PREFER);
        let Some(preference) = preference.and_then(|text| text.parse::<Preference>().ok()) else {
            return Self::default();
        };
        if local_member(annotation).is_none() && remote_members(annotation).next().is_none() {
            return Self::default();
        }
        let failed_over = annotation(labels::FAILED_OVER).map(FailedOver::read);
        let failed_over = failed_over.unwrap_or_default();
        let active = active_clusters(&preference, &failed_over, |cluster| {
            has_member_in(annotation, cluster)
        });
        let away = preference.clusters().filter_map(|cluster| {
            let outage = failed_over.0.get(cluster)?;
            Some(AwayCluster {
                cluster: cluster.to_string(),
                since: outage.since,
                returns: outage.until,
            })
        });
        let is_away = |cluster: &ClusterRef| failed_over.0.contains_key(cluster);
        let mut preferred = preference.clusters();
        let has_failed_over = match active.as_slice() {
            // Clusters after the active one would receive no requests anyway.
            [active] if preference.is_order() => {
                let mut before = preferred.take_while(|cluster| cluster != active);
                before.any(is_away)
            }
            _ => preferred.any(is_away),
        };
        Self {
            preference: Some(preference.to_string()),
            failed_over: away.collect(),
            has_failed_over,
            active: active.into_iter().map(ClusterRef::to_string).collect(),
        }
    }

    /// The clusters that receive the requests, as text.
    fn takers(&self) -> String {
        match self.active.as_slice() {
            [] => "all members".to_owned(),
            active => active.join(", "),
        }
    }

    /// Which preferred clusters are unavailable, and which clusters receive their requests; `None` if all are
    /// available. `ago` and `ahead` format a past and a future time.
    pub fn absence(
        &self,
        ago: impl Fn(Timestamp) -> String,
        ahead: impl Fn(Timestamp) -> String,
    ) -> Option<String> {
        let away = self.failed_over.iter().map(|away| {
            let left = format!("{} became unavailable {}", away.cluster, ago(away.since));
            match away.returns {
                Some(time) => format!("{left} and receives requests again {}", ahead(time)),
                None => left,
            }
        });
        let away: Vec<String> = away.collect();
        let away = away.join(", ");
        let preference = self.preference.as_deref().filter(|_| !away.is_empty())?;
        Some(if self.has_failed_over {
            let takers = self.takers();
            format!("prefers {preference}; failed over to {takers}: {away}")
        } else {
            format!("prefers {preference}; {away}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::fixtures::federated;

    const EAST: &str = "east=2026-01-01T00:02:00Z/..";
    const LOCAL: &str = "local=2026-01-01T00:00:00Z/2026-01-01T00:05:20Z";

    #[test]
    fn absence_names_unavailable_clusters_and_those_that_receive_the_requests() {
        let time = |time: Timestamp| time.strftime("%M:%S").to_string();
        for (prefer, away, expected) in [
            ("local,east", "", None),
            (
                "local,east",
                LOCAL,
                Some(
                    "prefers local,east; failed over to east: local became unavailable 00:00 ago and receives requests again in 05:20",
                ),
            ),
            (
                "local,east",
                EAST,
                Some("prefers local,east; east became unavailable 02:00 ago"),
            ),
            (
                "east,local",
                &format!("{EAST},{LOCAL}"),
                Some(
                    "prefers east,local; failed over to all members: east became unavailable 02:00 ago, local became unavailable 00:00 ago and receives requests again in 05:20",
                ),
            ),
            (
                "east=80,west=10,local=10",
                EAST,
                Some(
                    "prefers east=80,west=10,local=10; failed over to west, local: east became unavailable 02:00 ago",
                ),
            ),
            // Clusters that are not preferred are ignored.
            ("local", EAST, None),
            ("", EAST, None),
        ] {
            let preferred = PreferenceStatus::of(&federated(prefer, away));
            let absence = preferred.absence(
                |past| format!("{} ago", time(past)),
                |future| format!("in {}", time(future)),
            );
            assert_eq!(absence.as_deref(), expected, "{prefer} {away}");
        }
    }

    #[test]
    fn json_has_times_and_names() {
        let both = format!("{EAST},{LOCAL}");
        insta::assert_json_snapshot!(PreferenceStatus::of(&federated("local,east,west", &both)), @r#"
        {
          "preference": "local,east,west",
          "active": [
            "west"
          ],
          "failedOver": [
            {
              "cluster": "local",
              "since": "2026-01-01T00:00:00Z",
              "returns": "2026-01-01T00:05:20Z"
            },
            {
              "cluster": "east",
              "since": "2026-01-01T00:02:00Z",
              "returns": null
            }
          ]
        }
        "#);
    }

    #[test]
    fn service_without_members_has_no_preference() {
        let mut service = federated("local", "");
        service
            .metadata
            .annotations
            .remove(labels::REMOTE_DISCOVERY);
        service.metadata.annotations.remove(labels::LOCAL_DISCOVERY);
        assert_eq!(PreferenceStatus::of(&service), PreferenceStatus::default());
    }
}
