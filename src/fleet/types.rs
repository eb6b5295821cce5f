//! What a file says, when it is read.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use crate::manifests::{link::ClusterName, values::UserValues};

/// Values of flags, by their keys in the file.
pub(crate) type ComposedSettings = BTreeMap<&'static str, Value>;

/// What a file says.
#[derive(Debug)]
pub(crate) struct Fleet {
    /// Its identity, which is a label of all that is made: the name, and the ID after a dot if the file has one.
    pub(crate) name: String,
    /// Flags for all links.
    pub(crate) flags: Vec<FlagValue>,
    /// Namespace of Linkerd's control planes, if the file names it, and the line.
    pub(crate) linkerd: Option<(String, u64)>,
    /// The clusters, in the order of the file.
    pub(crate) clusters: Vec<FleetCluster>,
    /// The line of the first clusters that are named by the contexts of a kubeconfig, if there are some.
    pub(crate) by_context: Option<u64>,
    /// The links, by source and target.
    pub(crate) links: BTreeMap<LinkEnds, FleetLink>,
}

/// A cluster of the file.
#[derive(Debug)]
pub(crate) struct FleetCluster {
    pub(crate) name: ClusterName,
    /// The line of its name, or of its contexts.
    pub(crate) line: u64,
    /// Context of the kubeconfig; without it, the one of the name.
    pub(crate) context: Option<String>,
    /// Path of the kubeconfig, as it is in the file.
    pub(crate) kubeconfig: Option<String>,
    /// The line of the ClusterProfiles that it is one of.
    pub(crate) profiles: Option<u64>,
    /// Flags for the links to it.
    pub(crate) flags: Vec<FlagValue>,
    /// Values for the installation in it.
    pub(crate) install: UserValues,
}

/// A cluster that is named by its context, or by its ClusterProfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FoundCluster {
    pub(crate) name: ClusterName,
    /// The context. That of a profile has its name, and is in no kubeconfig of the user.
    pub(crate) context: String,
}

/// ClusterProfiles of a hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ProfileQuery {
    /// Where the file names them.
    pub(crate) line: u64,
    /// Path of the kubeconfig with the hub, as it is in the file.
    pub(crate) kubeconfig: Option<String>,
    /// Context of the hub.
    pub(crate) context: String,
    pub(crate) namespace: String,
    pub(crate) selector: Option<String>,
}

/// The clusters of one link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkEnds {
    /// The cluster that gets the mirrors.
    pub(crate) source: ClusterName,
    /// The cluster whose Services are mirrored.
    pub(crate) target: ClusterName,
}

/// Why there is a link, and its settings.
#[derive(Debug, Default)]
pub(crate) struct FleetLink {
    /// The entries that name it.
    pub(crate) places: Vec<Place>,
    /// Its settings by key, each from the most specific place that has it.
    pub(crate) settings: BTreeMap<&'static str, FlagValue>,
}

/// A value of the file that is one of a flag of `link`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FlagValue {
    pub(crate) key: &'static str,
    /// The flag with its value; `None` for a switch that is off.
    pub(crate) word: Option<String>,
    /// The value, for messages. Not that of a proxy, which may have a password.
    pub(crate) shown: String,
    pub(crate) place: Place,
}

/// Where something stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    /// The part of the file, such as `defaults`.
    pub(crate) part: &'static str,
    pub(crate) line: u64,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, line {}", self.part, self.line)
    }
}

impl fmt::Display for LinkEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the link from {} to {}", self.source, self.target)
    }
}

impl Fleet {
    /// The identity of a file with this name and this ID. A name has no dot.
    pub(crate) fn identity(name: &str, id: &str) -> String {
        format!("{name}.{id}")
    }

    /// Whether the file has an ID. Another file may have the same name.
    pub(crate) fn has_id(&self) -> bool {
        self.name.contains('.')
    }

    /// The flags of `link` for one of the links: first those for all, then the target's, then its settings.
    pub(crate) fn words(&self, ends: &LinkEnds) -> Vec<String> {
        let mut targets = self.clusters.iter();
        let target = targets.find(|cluster| cluster.name == ends.target);
        let link = self.links.get(ends);
        let all = self.flags.iter();
        let all = all.chain(target.into_iter().flat_map(|cluster| &cluster.flags));
        let all = all.chain(link.into_iter().flat_map(|link| link.settings.values()));
        all.filter_map(|value| value.word.clone()).collect()
    }
}
