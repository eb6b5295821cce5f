//! Keys: the pieces of work. Each time a key is reconciled, it is planned from the state of that moment.

use std::{collections::BTreeSet, fmt};

/// Services by namespace and name.
pub type Names = BTreeSet<(String, String)>;

/// One piece of work. Ordered, so that sets of keys are stable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// The mirror of one Service of one target cluster: the Service, its slices, its endpoint mirrors.
    ///
    /// The key has the cluster's name and not the Link's, so that the mirrors of a deleted Link still have keys.
    Mirror {
        /// Target cluster.
        cluster: String,
        /// Namespace, the same in both clusters.
        namespace: String,
        /// Name of the remote Service.
        service: String,
    },
    /// One federated Service.
    Federated {
        /// Namespace.
        namespace: String,
        /// Name of the member Services.
        service: String,
    },
    /// The Services that lead to the gateways of one Link themselves: those for probes, and for the API server.
    Gateway {
        /// Name of the Link.
        link: String,
    },
}

impl Key {
    /// Key of a mirror.
    pub fn mirror(cluster: &str, namespace: &str, service: &str) -> Self {
        Self::Mirror {
            cluster: cluster.to_owned(),
            namespace: namespace.to_owned(),
            service: service.to_owned(),
        }
    }

    /// Key of a federated Service.
    pub fn federated(namespace: &str, service: &str) -> Self {
        Self::Federated {
            namespace: namespace.to_owned(),
            service: service.to_owned(),
        }
    }

    /// Key of the Services that lead to a gateway itself.
    pub fn gateway(link: &str) -> Self {
        Self::Gateway {
            link: link.to_owned(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mirror {
                cluster,
                namespace,
                service,
            } => {
                write!(f, "{namespace}/{service}@{cluster}")
            }
            Self::Federated { namespace, service } => write!(f, "{namespace}/{service}-federated"),
            Self::Gateway { link } => write!(f, "the gateway of Link {link}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_with_what_they_are_about() {
        for (key, shown) in [
            (Key::mirror("east", "shop", "web"), "shop/web@east"),
            (Key::federated("shop", "web"), "shop/web-federated"),
            (Key::gateway("east"), "the gateway of Link east"),
        ] {
            assert_eq!(key.to_string(), shown);
        }
    }
}
