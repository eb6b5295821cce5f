//! Drains: a target cluster takes no part in federated Services for a while, so that it can be worked on. Who says so is
//! an annotation of its Link. One rule for the controller and the commands.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::jiff::Timestamp;
use thiserror::Error;

use super::{
    federated, key::Key, links::Links, names::member_name, selector::short, target::Target,
    world::World,
};
use crate::api::time::rfc3339;

/// Type of the condition of a Link whose cluster is drained.
pub const DRAINED: &str = "Drained";
/// Its reason while the cluster has federated Services to leave.
pub const LEAVING: &str = "Leaving";
/// Its reason where the cluster stays in federated Services that have no other member.
pub const LAST_MEMBER: &str = "LastMember";

/// What is wrong with the end of a drain.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no time such as 2026-01-31T12:00:00Z")]
pub struct DrainError(String);

/// A target cluster that is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drain {
    /// Until when.
    pub until: Timestamp,
    /// Federated Services that it has to leave.
    pub leaving: usize,
    /// Federated Services that it stays in, because they have no other member.
    pub last: usize,
}

impl Drain {
    /// One word.
    pub fn reason(&self) -> &'static str {
        match (self.leaving, self.last) {
            (0, 0) => DRAINED,
            (0, _) => LAST_MEMBER,
            _ => LEAVING,
        }
    }
}

impl fmt::Display for Drain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&until(self.until))?;
        if self.leaving > 0 {
            write!(f, "; federated Services to leave: {}", self.leaving)?;
        }
        if self.last > 0 {
            write!(
                f,
                "; federated Services without another member, which it stays in: {}",
                self.last
            )?;
        }
        Ok(())
    }
}

/// How the end of a drain is told. What is said of a [`Drain`] begins with it.
pub fn until(time: Timestamp) -> String {
    format!("until {}", rfc3339(time))
}

/// Reads a Link's annotation.
pub(super) fn drained_until(text: &str) -> Result<Timestamp, DrainError> {
    let time = text.trim().parse();
    time.map_err(|_| DrainError(short(text)))
}

impl World {
    /// Whether a target cluster is drained now.
    pub(super) fn is_drained(&self, target: &Target) -> bool {
        target.drained_until.is_some_and(|until| until > self.now)
    }

    /// The drain of a Link's cluster, while there is one and the Link is in charge of the cluster.
    pub fn drain_of(&self, link: &str) -> Option<Drain> {
        let (target, _) = self.probe_link(link)?;
        let until = target.drained_until.filter(|until| *until > self.now)?;
        let mut drain = Drain {
            until,
            ..Drain::default()
        };
        let services = self.mirrors.iter();
        for service in services.flat_map(|store| store.of_cluster(&target.cluster)) {
            match federated::stays(self, service, &target.cluster) {
                None => {}
                Some(true) => drain.last += 1,
                Some(false) => drain.leaving += 1,
            }
        }
        Some(drain)
    }

    /// When the next drain ends, or the next cluster that was away takes requests again.
    pub fn next_turn(&self) -> Option<Timestamp> {
        let drains = self.links.iter().flat_map(Links::drains);
        let ends = drains.map(|(_, until)| until);
        let ends = ends.filter(|until| *until > self.now);
        let services = self.mirrors.iter();
        ends.chain(services.filter_map(|services| services.next_due(self.now)))
            .min()
    }

    /// Takes in the time of day, as far as preferred clusters wait for it. Keys of the federated Services that have one to
    /// which requests return now.
    fn returned(&self, before: Timestamp, now: Timestamp) -> Vec<Key> {
        let services = self.mirrors.iter();
        let due = services.flat_map(|services| services.due_between(before, now));
        let names = due.map(|service| (service.metadata.namespace(), service.metadata.name()));
        let keys = names
            .filter_map(|(namespace, name)| Some(Key::federated(namespace, member_name(name)?)));
        keys.collect()
    }

    /// Takes in the time of day. Keys that it concerns, by cluster: of those whose drain has ended; and of those that are
    /// drained again, because the clock was put back. And those of federated Services whose requests return to a cluster.
    pub fn advance(&mut self, now: Timestamp) -> (BTreeMap<String, Vec<Key>>, Vec<Key>) {
        let before = std::mem::replace(&mut self.now, now);
        let returned = self.returned(before, now);
        let drains = self.links.iter().flat_map(Links::drains);
        let turned = drains.filter(|(_, until)| (*until > before) != (*until > now));
        let drained = turned.map(|(Target { cluster, .. }, _)| {
            let mut keys = self.keys_of_cluster(cluster);
            keys.retain(|key| matches!(key, Key::Federated { .. }));
            (cluster.clone(), keys)
        });
        (drained.collect(), returned)
    }
}

#[cfg(test)]
mod tests;
