//! What is known of a Link itself, and is told in its status.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;

use crate::mirror::{
    GatewayState, LeftOut, Limits, Refused, RemoteState,
    target::{drain::Drain, tls::InsecureTls},
};

/// What is known of a Link itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusInputs {
    /// Generation of the Link that is worked with.
    pub generation: Option<i64>,
    /// What is wrong with the Link's fields.
    pub invalid: Option<String>,
    /// Name of the older Link that has the target cluster.
    pub duplicate_of: Option<String>,
    /// Whether the credentials can be used; `None` before they were looked at. `Err`: reason and message.
    pub credentials: Option<Result<(), (&'static str, String)>>,
    /// Whether the target cluster answers; `None` before it was asked. `Err`: what it said.
    pub connected: Option<Result<(), String>>,
    /// Which credentials are in use; `None` before any are.
    pub credentials_in_use: Option<String>,
    /// When the token of the Link expires, if ever.
    pub expiry: Option<Expiry>,
    /// Why the connection in use is not safe, if it is not.
    pub insecure: Option<InsecureTls>,
    /// The target cluster that was listed last.
    pub listed: Option<String>,
    /// Whether all that the target cluster exports was listed and written.
    pub settled: bool,
    /// What is left out because of the limit, if anything is.
    pub exceeded: Option<Exceeded>,
    /// The gateway, if the Link has one.
    pub gateway: Option<GatewayInputs>,
    /// The drain of the target cluster, while there is one.
    pub drain: Option<Drain>,
}

/// The end of a Link's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// When that is.
    pub at: Timestamp,
    /// The target cluster.
    pub cluster: String,
}

/// What a Link's limits leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exceeded {
    /// What is taken in at most.
    pub limits: Limits,
    /// Whether the bytes are the cause.
    pub heavy: bool,
    /// Whether the hosts of headless Services are the cause.
    pub hosts: bool,
    /// Services that are left out.
    pub services: usize,
    /// Services whose slices are not all looked at.
    pub cut: usize,
}

impl Exceeded {
    /// What limits leave out of a target cluster; `None` for nothing.
    pub fn of(remote: &RemoteState, limits: Limits) -> Option<Self> {
        let (services, cut) = (count(&remote.left_out), count(&remote.cut));
        let all = || remote.left_out.iter().chain(&remote.cut);
        (services > 0 || cut > 0).then_some(Self {
            limits,
            heavy: all().any(LeftOut::is_heavy),
            hosts: all().any(LeftOut::has_hosts),
            services,
            cut,
        })
    }
}

/// How many Services are named, each once, and those whose names are not known.
fn count(left: &[LeftOut]) -> usize {
    let named: BTreeSet<_> = left.iter().flat_map(LeftOut::services).collect();
    named.len() + left.iter().map(LeftOut::unnamed).sum::<usize>()
}

/// What is known of a Link's gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GatewayInputs {
    /// Addresses and liveness.
    pub state: GatewayState,
    /// Latency to tell, milliseconds.
    pub latency_ms: Option<i64>,
    /// Why it is not probed.
    pub unprobed: Option<String>,
    /// Why its address is not known.
    pub unresolved: Option<String>,
    /// Addresses that are not used.
    pub refused: Vec<Refused>,
}
