//! Which cluster links to which, from the snapshots of several clusters. Pure.
//!
//! The target of a Link is matched with one of these clusters by the API server in the Link's credentials, by its name,
//! or by the certificate authority of the API server.

use std::collections::BTreeSet;

use hints::suggest::ClusterFlags;
use mirror_core::{
    api::{metadata::cluster_uid, preference::LOCAL},
    mirror::mirror_name,
};
use serde::Serialize;

use super::{
    link_findings::findings,
    link_summary::LinkSummary,
    snapshot::{ClusterSnapshot, LinkSnapshot},
    trust_anchors::{self, Anchors},
};

/// Clusters and the Links between them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Topology {
    /// Clusters: those with a snapshot, in the order of the snapshots, then other targets of Links.
    pub clusters: Vec<ClusterNode>,
    /// Links, by source.
    pub links: Vec<Edge>,
    /// Links that the file of a fleet has and the clusters do not have; `None` if there is no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Vec<MissingLink>>,
}

/// A Link that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissingLink {
    /// The cluster that should have it.
    pub source: String,
    /// The cluster that it should lead to.
    pub target: String,
}

/// A cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// Its context, or its name in a Link.
    pub name: String,
    /// Flags with which commands use it, if it was asked.
    #[serde(skip)]
    pub flags: ClusterFlags,
    /// Whether it responded; `null` if there is no snapshot of it.
    pub reachable: Option<bool>,
    /// Why it did not respond.
    pub error: Option<String>,
    /// Subjects and serial numbers of its trust anchors; `null` if unknown.
    pub trust_anchors: Option<Vec<String>>,
}

/// A Link from one cluster to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Edge {
    /// The cluster in which the Link is: it mirrors from the target.
    pub source: String,
    /// The target, as the clusters of this topology are named.
    pub target: String,
    /// Whether the target has no Link back; `null` if unknown.
    pub one_way: Option<bool>,
    /// Whether both clusters have the same trust anchors; `null` if unknown.
    pub shares_trust_anchors: Option<bool>,
    /// Whether the file of a fleet has it; `None` if there is no file, or if the Link is of another installation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_file: Option<bool>,
    /// The Link.
    #[serde(flatten)]
    pub link: LinkSummary,
}

impl Edge {
    /// Whether the target has no Link back, and the file of a fleet, if there is one, does not say so.
    pub fn lacks_link_back(&self) -> bool {
        self.one_way == Some(true) && self.in_file != Some(true)
    }
}

impl Topology {
    /// Whether a cluster did not respond.
    pub fn has_silent_cluster(&self) -> bool {
        let mut clusters = self.clusters.iter();
        clusters.any(|cluster| cluster.reachable == Some(false))
    }

    /// Flags with which commands use the cluster of a Link, which has a snapshot.
    pub fn flags_of(&self, edge: &Edge) -> &ClusterFlags {
        let source = self.clusters.iter().find(|node| node.name == edge.source);
        &source.expect("Links come from snapshots").flags
    }

    /// Combines the snapshots of several clusters.
    pub fn of(snapshots: &[ClusterSnapshot]) -> Self {
        let trusted: Vec<_> = snapshots.iter().map(trust_anchors).collect();
        let mut clusters: Vec<_> = snapshots
            .iter()
            .zip(&trusted)
            .map(|(snapshot, trusted)| ClusterNode {
                name: snapshot.name.clone(),
                flags: snapshot.flags.clone(),
                reachable: Some(snapshot.links.is_ok()),
                error: snapshot.links.as_ref().err().map(ToString::to_string),
                trust_anchors: trusted.as_ref().map(|anchors| {
                    anchors
                        .iter()
                        .map(|der| trust_anchors::describe(der))
                        .collect()
                }),
            })
            .collect();

        let mut links = Vec::new();
        for (source, snapshot) in snapshots.iter().enumerate() {
            for link in snapshot.links.iter().flatten() {
                let target = target(link, source, snapshots);
                let name = match target {
                    Some(target) => snapshots[target].name.as_str(),
                    None => link.cluster(),
                };
                if target.is_none() && !clusters.iter().any(|cluster| cluster.name == name) {
                    clusters.push(ClusterNode {
                        name: name.to_owned(),
                        ..ClusterNode::default()
                    });
                }
                links.push(Edge {
                    source: snapshot.name.clone(),
                    target: name.to_owned(),
                    one_way: target.and_then(|target| is_one_way(source, target, snapshots)),
                    shares_trust_anchors: target.and_then(|target| {
                        Some(trusted[source].as_ref()? == trusted[target].as_ref()?)
                    }),
                    in_file: None,
                    link: judged(link, snapshot),
                });
            }
        }
        Self {
            clusters,
            links,
            missing: None,
        }
    }

    /// Compares the Links of a namespace with those of a file, which are pairs of a source and a target. Nothing is missing
    /// in a cluster whose Links are not known.
    pub fn compare(&mut self, wanted: &BTreeSet<(String, String)>, namespace: &str) {
        let mut missing = wanted.clone();
        for edge in &mut self.links {
            if edge.link.namespace == namespace {
                // A Link under another name is not that of the file.
                let ends = (edge.source.clone(), edge.link.cluster.clone());
                edge.in_file = Some(wanted.contains(&ends));
                missing.remove(&ends);
            }
        }
        let clusters = &self.clusters;
        let is_read = |name: &String| {
            let mut clusters = clusters.iter();
            clusters.any(|cluster| cluster.name == *name && cluster.reachable == Some(true))
        };
        missing.retain(|(source, _)| is_read(source));
        let missing = missing.into_iter();
        let missing = missing.map(|(source, target)| MissingLink { source, target });
        self.missing = Some(missing.collect());
    }

    /// Clusters whose Links cannot be listed, one line each.
    pub fn errors(&self) -> Vec<String> {
        let errors = self.clusters.iter().filter_map(|cluster| {
            let error = cluster.error.as_ref()?;
            Some(format!("{}: cannot list Links: {error}", cluster.name))
        });
        errors.collect()
    }

    /// Problems between clusters, one line each.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.one_way();
        notes.extend(self.distrust());
        notes
    }

    /// Links whose target cluster has no Link back, one line each.
    pub fn one_way(&self) -> Vec<String> {
        let one_way = self.links.iter().filter(|edge| edge.lacks_link_back());
        one_way
            .map(|Edge { source, target, .. }| {
                format!("{source} → {target} is one-way: {target} has no Link to {source}")
            })
            .collect()
    }

    /// Linked clusters with different trust anchors, each pair once.
    pub fn distrust(&self) -> Vec<String> {
        let mut pairs = BTreeSet::new();
        for edge in self
            .links
            .iter()
            .filter(|edge| edge.shares_trust_anchors == Some(false))
        {
            let mut pair = [edge.source.as_str(), edge.target.as_str()];
            pair.sort_unstable();
            pairs.insert(pair);
        }
        pairs
            .into_iter()
            .map(|[one, other]| format!("{one} and {other} have different trust anchors"))
            .collect()
    }
}

/// The state of a Link, and what is wrong with it.
fn judged(link: &LinkSnapshot, cluster: &ClusterSnapshot) -> LinkSummary {
    let mut summary = LinkSummary::in_cluster(link, cluster);
    summary.findings = findings(link, cluster, &summary);
    summary
}

fn trust_anchors(snapshot: &ClusterSnapshot) -> Option<Anchors> {
    let config = snapshot.config.as_ref().ok()?;
    trust_anchors::parse(&config.identity_trust_anchors_pem).ok()
}

/// The index of a Link's target cluster; `source` is the index of the cluster that the Link is in.
fn target(link: &LinkSnapshot, source: usize, snapshots: &[ClusterSnapshot]) -> Option<usize> {
    let identity = link
        .credentials
        .as_ref()
        .and_then(|known| known.as_ref().ok());
    let identity = identity.map(|credentials| &credentials.identity);
    let by_uid = || {
        let recorded = cluster_uid(&link.link)?;
        let mut all = snapshots.iter();
        all.position(|snapshot| snapshot.uid.as_deref() == Some(recorded))
    };
    let by_server = || {
        let identity = identity.filter(|identity| !identity.server.is_empty())?;
        let at_server = |at: &usize| snapshots[*at].identity.server == identity.server;
        let found: Vec<usize> = (0..snapshots.len()).filter(at_server).collect();
        let named = found
            .iter()
            .find(|&&at| snapshots[at].name == link.cluster());
        let first = &snapshots[*found.first()?].identity;
        // Behind different proxies, an address is of different clusters.
        let is_one = found
            .iter()
            .all(|&at| snapshots[at].identity.has_way_of(first));
        named.or_else(|| found.first().filter(|_| is_one)).copied()
    };
    let by_name = || {
        snapshots
            .iter()
            .position(|snapshot| snapshot.name == link.cluster())
    };
    let by_authority = || {
        let authorities = &identity
            .filter(|identity| !identity.authorities.is_empty())?
            .authorities;
        let mut found =
            (0..snapshots.len()).filter(|&at| snapshots[at].identity.authorities == *authorities);
        // An authority that several clusters share does not identify one.
        let only = found.next().filter(|_| found.next().is_none());
        only.filter(|&at| at != source)
    };
    by_uid()
        .or_else(by_server)
        .or_else(by_name)
        .or_else(by_authority)
}

fn is_one_way(source: usize, target: usize, snapshots: &[ClusterSnapshot]) -> Option<bool> {
    let links = snapshots[target].links.as_ref().ok()?;
    Some(
        !links
            .iter()
            .any(|link| self::target(link, target, snapshots) == Some(source)),
    )
}

/// The warning about a target cluster that is named like the source cluster is where no other name is needed.
pub fn reserved_name(name: &str) -> Option<String> {
    (name == LOCAL).then(|| {
        format!(
            "cluster {name}: preferences and metrics take this name for the cluster that has the mirrors; link it under \
             another name (--cluster-name)"
        )
    })
}

/// The warning about two clusters of which one is named like the end of the other, as `east` and `us-east`. Then
/// whoever exports Services of one cluster can take the names of mirrors of the other.
pub fn equal_mirror_names(one: &str, other: &str) -> Option<String> {
    let extra = |long: &str, short: &str| {
        let extra = long.strip_suffix(short)?.strip_suffix('-')?;
        (!extra.is_empty()).then(|| extra.to_owned())
    };
    let (short, long, extra) = match (extra(one, other), extra(other, one)) {
        (Some(extra), _) => (other, one, extra),
        (None, Some(extra)) => (one, other, extra),
        (None, None) => return None,
    };
    Some(format!(
        "clusters {short} and {long}: Service web-{extra} of {short} and Service web of {long} have mirrors of the same \
         name, {}, and the first one keeps it; link one of them under another name (--cluster-name)",
        mirror_name("web", long)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clusters::fixtures::{snapshots, to};

    #[test]
    fn links_are_compared_with_a_file() {
        let mut topology = Topology::of(&snapshots());
        topology.links[3].link.namespace = "other".into();
        let wanted = [
            ("west", "east"),
            ("north", "east"),
            ("east", "west"),
            ("south", "east"),
        ];
        let wanted = wanted.map(|(source, target)| (source.to_owned(), target.to_owned()));
        topology.compare(&wanted.into(), &topology.links[0].link.namespace.clone());
        let marks: Vec<_> = topology.links.iter().map(|edge| edge.in_file).collect();
        // The first is called w, and the last is of another installation.
        assert_eq!(marks, [Some(false), Some(true), Some(false), None]);
        let missing = topology.missing.unwrap();
        let missing: Vec<_> = missing
            .iter()
            .map(|link| (link.source.as_str(), link.target.as_str()))
            .collect();
        // Nothing is known of south.
        assert_eq!(missing, [("east", "west"), ("north", "east")]);
    }

    #[test]
    fn targets_are_found_by_server_name_and_authority() {
        let topology = Topology::of(&snapshots());
        let edges: Vec<_> = topology
            .links
            .iter()
            .map(|e| {
                (
                    e.source.as_str(),
                    e.target.as_str(),
                    e.one_way,
                    e.shares_trust_anchors,
                )
            })
            .collect();
        assert_eq!(
            edges,
            [
                ("east", "west", Some(false), Some(true)),
                ("west", "east", Some(false), Some(true)),
                ("west", "north", Some(true), Some(false)),
                ("north", "moon", None, None),
            ]
        );
        let clusters: Vec<_> = topology
            .clusters
            .iter()
            .map(|c| (c.name.as_str(), c.reachable))
            .collect();
        assert_eq!(
            clusters,
            [
                ("east", Some(true)),
                ("west", Some(true)),
                ("north", Some(true)),
                ("south", Some(false)),
                ("moon", None)
            ]
        );
        assert_eq!(topology.errors(), ["south: cannot list Links: no answer"]);
        assert_eq!(
            topology.notes(),
            [
                "west → north is one-way: north has no Link to west",
                "north and west have different trust anchors",
            ]
        );
    }

    #[test]
    fn an_authority_of_several_clusters_identifies_none() {
        let mut snapshots = snapshots();
        snapshots[2].identity.authorities = [b"shared".to_vec()].into();
        snapshots[3].identity.authorities = [b"shared".to_vec()].into();
        let link = to("n", "10.0.0.1:6443", "shared");
        assert_eq!(target(&link, 0, &snapshots), None);
    }

    #[test]
    fn cluster_is_not_its_own_target_by_its_authority() {
        let west = &snapshots()[1..2];
        assert_eq!(target(&to("n", "10.0.0.1:6443", "west"), 0, west), None);
        assert_eq!(
            target(&to("n", "west.example:443", "west"), 0, west),
            Some(0)
        );
    }

    #[test]
    fn one_way_is_unknown_if_the_target_does_not_respond() {
        let mut snapshots = snapshots();
        snapshots[0].links = Ok(vec![to("south", "", "")]);
        assert_eq!(Topology::of(&snapshots).links[0].one_way, None);
    }

    #[test]
    fn name_of_the_source_cluster_in_preferences_gets_a_warning() {
        let expected = "cluster local: preferences and metrics take this name for the cluster that has the mirrors; link \
                        it under another name (--cluster-name)";
        assert_eq!(reserved_name("local").as_deref(), Some(expected));
        assert_eq!(reserved_name("local-1"), None);
    }

    #[test]
    fn clusters_whose_mirrors_may_have_equal_names_get_a_warning() {
        let expected = "clusters east and us-east: Service web-us of east and Service web of us-east have mirrors of \
                        the same name, web-us-east, and the first one keeps it; link one of them under another name \
                        (--cluster-name)";
        for (one, other) in [("east", "us-east"), ("us-east", "east")] {
            assert_eq!(equal_mirror_names(one, other).as_deref(), Some(expected));
        }
        assert!(equal_mirror_names("a-b-c", "c").is_some());
        for (one, other) in [
            ("east", "east"),
            ("east", "west"),
            ("useast", "east"),
            ("-east", "east"),
            ("east-us", "east"),
        ] {
            assert_eq!(equal_mirror_names(one, other), None, "{one} {other}");
        }
    }
}
