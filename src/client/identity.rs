//! Identifies the cluster of a configuration.

use std::collections::BTreeSet;

use kube::Config;

/// Identifies a cluster without a request: by the address of its API server, and its certificate authorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Host (lower case) and port of the API server.
    pub server: String,
    /// Certificate authorities of the API server, DER.
    pub authorities: BTreeSet<Vec<u8>>,
}

impl Identity {
    /// The identity of a configuration's cluster.
    pub fn of(config: &Config) -> Self {
        let url = &config.cluster_url;
        let port = url.port_u16().unwrap_or_else(|| {
            if url.scheme_str() == Some("http") {
                80
            } else {
                443
            }
        });
        let host = url.host().unwrap_or_default().to_ascii_lowercase();
        Self {
            server: format!("{host}:{port}"),
            authorities: config.root_cert.iter().flatten().cloned().collect(),
        }
    }
}
