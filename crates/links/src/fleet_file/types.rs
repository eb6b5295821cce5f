//! What a file says, when it is read.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

use manifests::{link::ClusterName, values::UserValues};

/// Values of flags, by their keys in the file.
pub type ComposedSettings = BTreeMap<&'static str, Value>;

/// What a file says.
#[derive(Debug)]
pub struct Fleet {
    /// Its identity, which is a label of all that is made: the name, and the ID after a dot if the file has one.
    pub name: String,
    /// Flags for all links.
    pub flags: Vec<FlagValue>,
    /// Namespace of Linkerd's control planes, if the file names it, and the line.
    pub linkerd: Option<(String, u64)>,
    /// The clusters, in the order of the file.
    pub clusters: Vec<FleetCluster>,
    /// The line of the first clusters that are named by the contexts of a kubeconfig, if there are some.
    pub by_context: Option<u64>,
    /// The links, by source and target.
    pub links: BTreeMap<LinkEnds, FleetLink>,
}

/// A cluster of the file.
#[derive(Debug)]
pub struct FleetCluster {
    pub name: ClusterName,
    /// The line of its name, or of its contexts.
    pub line: u64,
    /// Context of the kubeconfig; without it, the one of the name.
    pub context: Option<String>,
    /// Path of the kubeconfig, as it is in the file.
    pub kubeconfig: Option<String>,
    /// The line of the ClusterProfiles that it is one of.
    pub profiles: Option<u64>,
    /// Flags for the links to it.
    pub flags: Vec<FlagValue>,
    /// Values for the installation in it.
    pub install: UserValues,
}

/// A cluster that is named by its context, or by its ClusterProfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCluster {
    pub name: ClusterName,
    /// The context. That of a profile has its name, and is in no kubeconfig of the user.
    pub context: String,
}

/// ClusterProfiles of a hub.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProfileQuery {
    /// Where the file names them.
    pub line: u64,
    /// Path of the kubeconfig with the hub, as it is in the file.
    pub kubeconfig: Option<String>,
    /// Context of the hub.
    pub context: String,
    pub namespace: String,
    pub selector: Option<String>,
}

/// The clusters of one link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkEnds {
    /// The cluster that gets the mirrors.
    pub source: ClusterName,
    /// The cluster whose Services are mirrored.
    pub target: ClusterName,
}

/// Why there is a link, and its settings.
#[derive(Debug, Default)]
pub struct FleetLink {
    /// The entries that name it.
    pub places: Vec<Place>,
    /// Its settings by key, each from the most specific place that has it.
    pub settings: BTreeMap<&'static str, FlagValue>,
}

/// A value of the file that is one of a flag of `link`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlagValue {
    pub key: &'static str,
    /// The value, as it is typed after the flag. That of a proxy may have a password.
    pub text: String,
    pub place: Place,
}

/// Where something stands in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The part of the file, such as `defaults`.
    pub part: &'static str,
    pub line: u64,
}

impl FlagValue {
    /// The value of a setting, for messages.
    pub fn shown(&self) -> &str {
        match self.text.as_str() {
            "" => "nothing",
            text => text,
        }
    }
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
    pub fn identity(name: &str, id: &str) -> String {
        format!("{name}.{id}")
    }

    /// Whether the file has an ID. Another file may have the same name.
    pub fn has_id(&self) -> bool {
        self.name.contains('.')
    }

    /// What is set for one of the links: first what is set for all, then for the target, then its settings.
    pub fn set_for<'f>(&'f self, ends: &LinkEnds) -> impl Iterator<Item = &'f FlagValue> {
        let mut targets = self.clusters.iter();
        let target = targets.find(|cluster| cluster.name == ends.target);
        let link = self.links.get(ends);
        let all = self.flags.iter();
        let all = all.chain(target.into_iter().flat_map(|cluster| &cluster.flags));
        all.chain(link.into_iter().flat_map(|link| link.settings.values()))
    }
}
