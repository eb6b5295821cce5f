//! The keys of the file. The reader, the suggestions and the JSON schema all use these tables.

use manifests::link as settings;

/// A key of the file, and what it says.
#[derive(Clone, Copy)]
pub struct FileKey {
    pub name: &'static str,
    pub doc: &'static str,
    pub shape: KeyShape,
}

/// What a key may have as its value.
#[derive(Clone, Copy)]
pub enum KeyShape {
    /// Any text.
    Text,
    /// A name: a DNS label.
    Name,
    Bool,
    /// A name of a cluster.
    Cluster,
    /// Names of clusters, or `all`.
    Clusters,
    /// Names, each with names of clusters.
    Groups,
    /// A map with these keys.
    Map(&'static [FileKey]),
    /// A list of such maps.
    List(&'static [FileKey]),
    /// The value of the flag of this name. The flag has the description.
    Flag,
    /// Values of `install`, as in its files.
    Values,
}

use KeyShape::{Bool, Cluster, Clusters, Flag, Groups, List, Map, Name, Text, Values};

const fn key(name: &'static str, doc: &'static str, shape: KeyShape) -> FileKey {
    FileKey { name, doc, shape }
}

const fn flag(name: &'static str) -> FileKey {
    key(name, "", Flag)
}

/// The file.
pub const FILE: &[FileKey] = &[
    key(
        "name",
        "Name of the fleet: a label of all objects that it makes",
        Name,
    ),
    key(
        "id",
        "What tells the file from others of the same name, which no other file has. The label is then NAME.ID; without it, \
         --prune is refused",
        Name,
    ),
    flag("namespace"),
    flag("serviceAccountNamespace"),
    key(
        "linkerdNamespace",
        "Namespace of Linkerd's control planes; without it, that of --linkerd-namespace",
        Name,
    ),
    key("clusters", "The clusters", List(CLUSTER)),
    key(
        "install",
        "Values of `install` for all clusters, as its --values takes them",
        Values,
    ),
    key("defaults", "Settings of all links", Map(SETTINGS)),
    key("links", "Which clusters link to which", List(LINKS)),
];

/// A cluster: how it is reached, and what all links to it have.
pub const CLUSTER: &[FileKey] = &[
    key(
        "name",
        "Name of the cluster: the suffix of its mirrors, and its account in other clusters",
        Name,
    ),
    key(
        "context",
        "Context of the kubeconfig; without it, the one that has the name of the cluster",
        Text,
    ),
    key(
        "contexts",
        "Instead of name and context: contexts of the kubeconfig, comma-separated; * stands for any text. Each is a \
         cluster with the name that its context suggests",
        Text,
    ),
    key(
        "clusterProfiles",
        "Instead of name and context: ClusterProfiles of a hub. Each is a cluster with the name of the profile",
        Map(PROFILES),
    ),
    key(
        "kubeconfig",
        "Path of a kubeconfig, from the folder of this file; without it, that of the command. It may hold data only: no \
         exec plugin, no auth provider, and no path of another file",
        Text,
    ),
    key(
        "install",
        "Values of `install` for this cluster; they override those of all clusters",
        Values,
    ),
    flag("apiServerAddress"),
    flag("apiServerThroughGateway"),
    flag("discoveryThroughGateway"),
    flag("proxyUrl"),
    flag("insecureTargetTls"),
    flag("gateway"),
    flag("gatewayName"),
    flag("gatewayNamespace"),
    flag("gatewayAddresses"),
    flag("gatewayPort"),
];

/// ClusterProfiles of a hub.
pub const PROFILES: &[FileKey] = &[
    key("context", "Context of the hub in the kubeconfig", Text),
    key("namespace", "Namespace of the ClusterProfiles", Name),
    key(
        "selector",
        "Labels of the ClusterProfiles; without it, all of the namespace",
        Text,
    ),
];

/// An entry of `links`: of one of four kinds.
pub const LINKS: &[FileKey] = &[
    key(
        "mesh",
        "Clusters that all link to each other; `all` for all of the file",
        Clusters,
    ),
    key("hub", "A cluster that all spokes link to", Cluster),
    key(
        "spokes",
        "The spokes of a hub; `all` for all other clusters of the file",
        Clusters,
    ),
    key(
        "groups",
        "Groups of clusters: in each group, all link to each other",
        Groups,
    ),
    key(
        "target",
        "The cluster whose Services are mirrored, of a single link",
        Cluster,
    ),
    key(
        "source",
        "The cluster that gets the mirrors, of a single link",
        Cluster,
    ),
    key(
        "mutual",
        "Whether the hub also links to the spokes, or the target of a single link to its source",
        Bool,
    ),
    key(
        "settings",
        "Settings of these links. They override the defaults, and those of a single link override all others",
        Map(SETTINGS),
    ),
];

/// The settings of links.
pub const SETTINGS: &[FileKey] = &{
    let mut keys = [flag("profile"); settings::SETTINGS.len() + 1];
    let mut i = 0;
    while i < settings::SETTINGS.len() {
        keys[i] = flag(settings::SETTINGS[i].key);
        i += 1;
    }
    keys
};

/// The key of this name.
pub fn find(keys: &'static [FileKey], name: &str) -> Option<&'static FileKey> {
    keys.iter().find(|key| key.name == name)
}

/// A kind of entry of `links`.
pub struct LinksKind {
    /// The keys that it has; the first names the kind.
    pub required: &'static [&'static str],
    /// The keys that it may have too.
    pub optional: &'static [&'static str],
}

pub const KINDS: [LinksKind; 4] = [
    LinksKind {
        required: &["mesh"],
        optional: &["settings"],
    },
    LinksKind {
        required: &["hub", "spokes"],
        optional: &["mutual", "settings"],
    },
    LinksKind {
        required: &["groups"],
        optional: &["settings"],
    },
    LinksKind {
        required: &["target", "source"],
        optional: &["mutual", "settings"],
    },
];
