//! Which cluster a configuration leads to.

use std::collections::BTreeSet;

use kube::Config;

/// What tells one cluster from another without asking it: where its API server is, and what vouches for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Host (lower case) and port of the API server.
    pub server: String,
    /// Certificate authorities of the API server, DER.
    pub authorities: BTreeSet<Vec<u8>>,
}

impl Identity {
    /// The identity of the cluster that a configuration leads to.
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
