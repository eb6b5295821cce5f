//! Types and reasons of the conditions in a Link's status. A type is followed by the module with its reasons.
//! `docs/reference/status.md` is generated from these comments.

/// Whether the Services of the target cluster are mirrored. `True` after the first sync, and as long as the target cluster
/// answers. While it is `False`, changes may not arrive, and no mirror is removed because of it. With `Syncing` and
/// `ChangeNotInEffect` they do arrive, and with `CredentialsInvalid` as long as the controller has a connection from before.
pub const READY: &str = "Ready";
/// Reasons of [`READY`].
pub mod ready {
    /// All that the target cluster exports was listed, and is mirrored or reported.
    pub const MIRRORING: &str = "Mirroring";
    /// The first sync is not done yet.
    pub const SYNCING: &str = "Syncing";
    /// The target cluster does not answer. The connection is tried again with growing pauses.
    pub const DISCONNECTED: &str = "Disconnected";
    /// The Link was changed, and what it selects now cannot be listed, or its API server cannot be reached through the
    /// gateway yet; the message says why. The controller goes on as before the change.
    pub const CHANGE_NOT_IN_EFFECT: &str = "ChangeNotInEffect";
    /// The credentials cannot be used; see `CredentialsValid`.
    pub const CREDENTIALS_INVALID: &str = "CredentialsInvalid";
    /// A field or an annotation of the Link is not valid; the message says which.
    pub const INVALID_LINK: &str = "InvalidLink";
    /// An older Link has the same target cluster; only that one is used.
    pub const DUPLICATE_CLUSTER: &str = "DuplicateCluster";
}

/// Only while the Link itself has to be changed before it can work, with the reasons `InvalidLink` and `DuplicateCluster`.
/// GitOps tools report such a Link as failed.
pub const STALLED: &str = "Stalled";

/// Whether the credentials Secret can be used.
pub const CREDENTIALS_VALID: &str = "CredentialsValid";
/// Reasons of [`CREDENTIALS_VALID`].
pub mod credentials_valid {
    /// The credentials are in use.
    pub const VALID: &str = "Valid";
    /// There is no Secret of this name and of the type `mirror.linkerd.io/remote-kubeconfig`.
    pub const SECRET_MISSING: &str = "SecretMissing";
    /// The Secret has no key `kubeconfig`.
    pub const SECRET_MALFORMED: &str = "SecretMalformed";
    /// The kubeconfig is not valid, or asks for something that is refused, such as running a command.
    pub const CREDENTIALS_UNUSABLE: &str = "CredentialsUnusable";
    /// New credentials do not work; the old ones are still used.
    pub const CREDENTIALS_FAIL: &str = "CredentialsFail";
}

/// Only while the token of the Link expires within 7 days or has expired.
pub const CREDENTIALS_EXPIRING: &str = "CredentialsExpiring";
/// Reasons of [`CREDENTIALS_EXPIRING`].
pub mod credentials_expiring {
    /// The token expires within 7 days; the message has the time.
    pub const EXPIRES_SOON: &str = "ExpiresSoon";
    /// The token has expired: the controller and Linkerd are cut off from the target cluster, and proxies keep the last
    /// endpoints.
    pub const EXPIRED: &str = "Expired";
}

/// Only while the connection to the target cluster is not safe from an attacker on the network.
pub const INSECURE_TLS: &str = "InsecureTLS";
/// Reasons of [`INSECURE_TLS`].
pub mod insecure_tls {
    /// The address of the API server begins with `http://`.
    pub const NOT_ENCRYPTED: &str = "NotEncrypted";
    /// The kubeconfig has `insecure-skip-tls-verify`.
    pub const CERTIFICATE_NOT_VERIFIED: &str = "CertificateNotVerified";
}

/// Whether the API server of the target cluster answers.
pub const CONNECTED: &str = "Connected";
/// Reasons of [`CONNECTED`].
pub mod connected {
    /// It answers.
    pub const CONNECTED: &str = "Connected";
    /// It does not answer, or refuses; the message has what it said.
    pub const UNREACHABLE: &str = "Unreachable";
    /// Its certificate cannot be verified; the message says why.
    pub const CERTIFICATE_INVALID: &str = "CertificateInvalid";
    /// It refuses the token, which may have been revoked or have expired.
    pub const UNAUTHORIZED: &str = "Unauthorized";
    /// It is reached through a gateway, of which no address is known, or all are refused.
    pub const GATEWAY_UNREACHABLE: &str = "GatewayUnreachable";
    /// No connection was tried yet.
    pub const NOT_TRIED: &str = "NotTried";
}

/// Whether the gateway of the target cluster answers probes. Only for Links with a gateway.
pub const GATEWAY_ALIVE: &str = "GatewayAlive";
/// Reasons of [`GATEWAY_ALIVE`].
pub mod gateway_alive {
    /// Probes succeed.
    pub const PROBE_SUCCEEDED: &str = "ProbeSucceeded";
    /// As many probes in a row failed as the Link allows. Mirrors through the gateway have no ready endpoint.
    pub const PROBE_FAILED: &str = "ProbeFailed";
    /// There was no result yet, or the gateway is not probed; the message says why.
    pub const NOT_PROBED: &str = "NotProbed";
}

/// Only while addresses of the gateway are not used, because they mean this cluster itself or no machine, or are in none of
/// the Link's networks.
pub const GATEWAY_ADDRESS_REFUSED: &str = "GatewayAddressRefused";
/// Reasons of [`GATEWAY_ADDRESS_REFUSED`].
pub mod gateway_address_refused {
    /// Other addresses of the gateway are used.
    pub const SOME_REFUSED: &str = "SomeRefused";
    /// No address is left: mirrors through the gateway have no endpoint.
    pub const ALL_REFUSED: &str = "AllRefused";
}

/// Only while Services or endpoints of the target cluster are omitted because of a limit.
pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
/// Reasons of [`LIMIT_EXCEEDED`].
pub mod limit_exceeded {
    /// The message says which limit, and how many Services are omitted.
    pub const LIMIT_EXCEEDED: &str = "LimitExceeded";
}

/// Only while the target cluster is drained. The message has the end of the drain.
pub const DRAINED: &str = "Drained";
/// Reasons of [`DRAINED`].
pub mod drained {
    /// There are federated Services that the cluster has to leave.
    pub const LEAVING: &str = "Leaving";
    /// The cluster stays in federated Services that have no other member.
    pub const LAST_MEMBER: &str = "LastMember";
    /// The cluster has left all federated Services.
    pub const DRAINED: &str = "Drained";
}

/// Only while Services wait for a ClusterIP, because the Service range of this cluster is full.
pub const CLUSTER_IPS_EXHAUSTED: &str = "ClusterIPsExhausted";
/// Reasons of [`CLUSTER_IPS_EXHAUSTED`].
pub mod cluster_ips_exhausted {
    /// The message has the number of Services that wait.
    pub const NO_CLUSTER_IP: &str = "NoClusterIP";
}
