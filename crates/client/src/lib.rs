//! Kubeconfigs, contexts and credentials Secrets → clients with timeouts.
//!
//! All clients are created here, so that each has a read timeout, none sends a request again unless the API server asks
//! for that (`retry`), and no content of a credentials Secret gets into error messages.

mod access;
mod bounds;
mod cluster;
mod config;
mod credentials;
mod exec;
#[cfg(any(test, feature = "fixtures"))]
mod fixtures;
mod kubeconfig;
mod kubeconfig_text;
mod login;
mod multiplexed;
mod networks;
mod proxy;
mod read_error;
pub mod requests;
mod resolve;
mod retry;
pub mod service_range;
mod shared;
pub mod timing;
mod transport;

pub use self::access::Access;
pub use self::bounds::ResponseLimits;
pub use self::cluster::{Cluster, clock_differs, kube_system_uid};
pub use self::config::{IdentifiedCluster, Identity, fingerprint, server_of, token_claims};
pub use self::credentials::{
    CredentialsError, credentials_expiry, credentials_identity, credentials_use, from_credentials,
    insecure_tls, kubeconfig_in, never_expires_in, service_account, token_fingerprint,
    watcher_from_credentials,
};
#[cfg(any(test, feature = "fixtures"))]
pub use self::fixtures::{
    TestBody, build, config_of_credentials, of_test_connections, of_test_credentials,
    of_test_server,
};
pub use self::multiplexed::{CommandClients, multiplexed};
pub use self::networks::{allocated_ips, cluster_networks, server_address};
pub use self::read_error::{ReadError, ReadErrorKind};

#[cfg(test)]
mod tests;
