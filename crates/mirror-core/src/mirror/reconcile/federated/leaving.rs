//! The federated Services that a drained cluster has to leave, and those that it stays in.

use super::parts::{Existing, is_ours, parts, tokens};
use crate::{
    api::k8s::Service,
    mirror::{
        names::member_name,
        outcome::Confirmed,
        ownership::membership::{Part, local_member},
        state::State,
        target::drain::Drain,
    },
};

impl State {
    /// The drain of a Link's cluster, if the cluster is drained and the Link is in charge of it.
    pub fn drain_of(&self, link: &str) -> Option<Drain> {
        let (target, _) = self.probe_link(link)?;
        let until = target.drained_until.filter(|until| *until > self.now)?;
        let mut drain = Drain {
            until,
            ..Drain::default()
        };
        let local = self.local.iter();
        for service in local.flat_map(|local| local.mirrors.of_cluster(&target.cluster)) {
            match stays(self, service, &target.cluster) {
                None => {}
                Some(true) => drain.last += 1,
                Some(false) => drain.leaving += 1,
            }
        }
        Some(drain)
    }
}

/// Whether a drained cluster stays in a federated Service; `None` if the Service does not name it as a member.
fn stays(state: &State, actual: &Service, cluster: &str) -> Option<bool> {
    let (namespace, name) = (actual.metadata.namespace(), actual.metadata.name());
    let service = member_name(name)?;
    let tokens = tokens(Some(actual), service);
    if !tokens.contains(cluster) || !is_ours(state, namespace, service, actual) {
        return None;
    }
    let local = local_member(state, namespace, service);
    let existing = Existing {
        actual: Some(actual),
        tokens: &tokens,
        confirmed: Confirmed::All,
    };
    let (_, parts) = parts(state, (namespace, service), existing, local.is_some());
    let linked = parts.get(cluster)?;
    Some(matches!(linked.part, Part::Member(_) | Part::Unseen))
}
