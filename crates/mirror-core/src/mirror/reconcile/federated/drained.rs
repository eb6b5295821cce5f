//! Drained clusters leave federated Services that are known to have another member.
//!
//! A drain moves requests to other members. If there is no other member, the drained one stays, and with it the Service
//! and its ClusterIP. If all clusters are drained, those that are members stay. If none is a member, all join.

use super::members::FederatedService;
use crate::mirror::{
    outcome::{Outcome, Problem, Reason},
    ownership::membership::{Membership, Memberships},
    target::{Target, drain},
};

impl FederatedService<'_> {
    /// Removes the memberships of drained clusters that are not needed. They leave without confirmation: the Link says that
    /// they are drained, and a cluster under maintenance may not answer.
    pub(super) fn take_out_drained(&self, memberships: &mut Memberships<'_>) {
        let is_drained = |target: &Target| self.state.is_drained(target);
        if !memberships.values().any(|linked| is_drained(linked.target)) {
            return;
        }
        let others_take_part = self.local.is_some()
            || memberships.values().any(|linked| {
                matches!(linked.membership, Membership::Member(_))
                    && !is_drained(linked.target)
                    && !linked.target.lacks_gateway()
            });
        let keeps_a_place = |cluster: &&str| match memberships.get(cluster) {
            Some(linked) => matches!(
                linked.membership,
                Membership::Member(_) | Membership::Unseen
            ),
            None => self.may_keep(cluster, memberships),
        };
        let any_has_a_place = self.named.iter().any(keeps_a_place);
        for (cluster, linked) in memberships {
            let (target, membership) = (linked.target, &mut linked.membership);
            if !is_drained(target) {
                continue;
            }
            let has_place = self.named.contains(cluster);
            match membership {
                Membership::Member(seen) if others_take_part || (any_has_a_place && !has_place) => {
                    *membership = Membership::Drained(seen);
                }
                Membership::Unseen if others_take_part && has_place => {
                    *membership = Membership::Refused(Outcome::Failed(left(target)));
                }
                Membership::Leaving | Membership::None if others_take_part => {
                    *membership = Membership::Refused(Outcome::Absent);
                }
                _ => {}
            }
        }
    }
}

/// The problem to report for a member that left because its cluster is drained.
pub(crate) fn left(target: &Target) -> Problem {
    Problem::new(Reason::Drained, until(target))
}

/// The problem to report for a member that stays although its cluster is drained.
pub(crate) fn stays_as_the_last(target: &Target) -> Problem {
    let message = format!(
        "{}, but stays because there is no other member",
        until(target)
    );
    Problem::new(Reason::Drained, message)
}

fn until(target: &Target) -> String {
    let until = target.drained_until.map(drain::until).unwrap_or_default();
    format!("the cluster is drained {until}")
}
