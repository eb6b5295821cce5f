//! What a drawing says about one Link, in all formats.

use anstyle::AnsiColor;

use mirror_core::mirror::FederatedThrough;
use observe::clusters::{
    link_summary::{ApiServerThrough, LinkSummary},
    topology::Edge,
};

/// What is said of a Link that is in the file of a fleet only.
pub const MISSING: &str = "missing";

/// The health of a Link, for its color.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkHealth {
    /// Connected, and the gateway, if any, is alive.
    Good,
    /// Not known yet.
    Unknown,
    /// Not connected, or the gateway is dead.
    Bad,
}

impl LinkHealth {
    pub fn of(link: &LinkSummary) -> Self {
        let gateway = link
            .gateway
            .as_ref()
            .map_or(Some(true), |gateway| gateway.alive);
        match (link.connected, gateway) {
            _ if link.is_old() => Self::Unknown,
            (Some(false), _) | (_, Some(false)) => Self::Bad,
            (Some(true), Some(true)) => Self::Good,
            _ => Self::Unknown,
        }
    }

    pub fn color(self) -> AnsiColor {
        match self {
            Self::Good => AnsiColor::Green,
            Self::Unknown => AnsiColor::Yellow,
            Self::Bad => AnsiColor::Red,
        }
    }
}

/// The description of a Link: liveness first, then counts that are not zero.
pub fn details(edge: &Edge) -> Vec<String> {
    let link = &edge.link;
    let mut details = vec![match (link.connected, link.api_server_through) {
        (Some(true), ApiServerThrough::Direct) => "connected".to_owned(),
        (Some(true), ApiServerThrough::Gateway) => "connected through the gateway".to_owned(),
        (Some(false), _) => "not connected".to_owned(),
        (None, _) => "unknown".to_owned(),
    }];
    if link.is_old() {
        details.insert(0, "old".to_owned());
    }
    if let Some(gateway) = &link.gateway {
        details.push(match (gateway.alive, gateway.latency_ms) {
            (Some(true), Some(ms)) => format!("gateway {ms}ms"),
            (Some(true), None) => "gateway alive".to_owned(),
            (Some(false), _) => "gateway dead".to_owned(),
            (None, _) => "gateway unknown".to_owned(),
        });
    }
    if link.drained.is_some() {
        details.push("drained".to_owned());
    }
    let federated = match link.federated_through {
        Some(FederatedThrough::Gateway) => "federated through the gateway",
        _ => "federated",
    };
    for (count, what) in [
        (link.mirrored, "mirrored"),
        (link.federated, federated),
        (link.unhealthy, "unhealthy"),
    ] {
        if count > 0 {
            details.push(format!("{count} {what}"));
        }
    }
    if edge.in_file == Some(false) {
        details.push("not in the file".to_owned());
    }
    details
}

pub fn joined(lines: &[String]) -> String {
    lines
        .iter()
        .flat_map(|line| [line.as_str(), "\n"])
        .collect()
}
