//! What is known of a Link itself, for its status.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use crate::mirror::{
    GatewayState, LeftOut, Limits, Refused, RemoteState,
    target::{drain::Drain, tls::InsecureTls},
};

/// What is known of a Link itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusInputs {
    /// Generation of the Link that is in use.
    pub generation: Option<i64>,
    /// What is wrong with the Link's fields.
    pub invalid: Option<String>,
    /// Name of the older Link that has the target cluster.
    pub duplicate_of: Option<String>,
    /// Whether the credentials can be used; `None` before they were read. `Err`: reason and message.
    pub credentials: Option<Result<(), (&'static str, String)>>,
    /// Whether the target cluster answers; `None` before the first answer or failure. `Err`: the error.
    pub connected: Option<Result<(), String>>,
    /// Why a change of the Link is not in effect yet: what it selects now cannot be listed. The error.
    pub held_up: Option<String>,
    /// Which credentials are in use; `None` if none are yet.
    pub credentials_in_use: Option<String>,
    /// When the token of the Link expires, if ever.
    pub expiry: Option<Expiry>,
    /// Why the connection in use is not safe, if it is not.
    pub insecure: Option<InsecureTls>,
    /// The target cluster that was listed last.
    pub listed: Option<String>,
    /// Whether all exported Services of the target cluster were listed and reconciled.
    pub settled: bool,
    /// What is left out because of the limit, if anything is.
    pub exceeded: Option<Exceeded>,
    /// The gateway, if the Link has one.
    pub gateway: Option<GatewayInputs>,
    /// The drain of the target cluster, if it is drained.
    pub drain: Option<Drain>,
}

/// The expiry of a Link's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// When the token expires.
    pub at: Timestamp,
    /// The target cluster.
    pub cluster: String,
}

/// What a Link's limits leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// The limits.
    pub limits: Limits,
    /// Whether the bytes are the cause.
    pub heavy: bool,
    /// Services that are left out.
    pub services: usize,
    /// Services with slices that are left out.
    pub cut: usize,
}

impl Exceeded {
    /// What limits leave out of a target cluster; `None` for nothing.
    pub fn of(remote: &RemoteState, limits: Limits) -> Option<Self> {
        let (services, cut) = (count(&remote.left_out), count(&remote.cut));
        let mut all = remote.left_out.iter().chain(&remote.cut);
        (services > 0 || cut > 0).then_some(Self {
            limits,
            heavy: all.any(LeftOut::is_heavy),
            services,
            cut,
        })
    }
}

/// Number of Services: those with names, each counted once, and those whose names are not known.
fn count(left: &[LeftOut]) -> usize {
    let named: BTreeSet<_> = left.iter().flat_map(LeftOut::services).collect();
    named.len() + left.iter().map(LeftOut::unnamed).sum::<usize>()
}

/// What is known of a Link's gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayInputs {
    /// Addresses and liveness.
    pub state: GatewayState,
    /// Latency to show, in milliseconds.
    pub latency_ms: Option<i64>,
    /// Why it is not probed.
    pub unprobed: Option<String>,
    /// Why its address is not known.
    pub unresolved: Option<String>,
    /// Addresses that are not used.
    pub refused: Vec<Refused>,
}
